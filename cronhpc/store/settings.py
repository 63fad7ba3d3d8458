"""`cronhpc.yaml` to Settings: every key typed, every complaint with file, line, key and the fix."""

from __future__ import annotations

import errno
import shlex
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import Problem, Settings, SettingsError, command
from cronhpc.store.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cronhpc.store.settings_reader import Reader


def read_settings(path: Path) -> Settings:
    """The settings in the file `path`. Raises SettingsError with every problem found, by line."""
    try:
        data = read_bytes(path)
    except OSError as error:
        raise SettingsError((_unread(path, error),)) from None
    if data is None:
        raise SettingsError((_gone(path),))
    return parse_settings(data, path.name)


def no_file(path: Path) -> Problem:
    """What stands in the place of the settings is a folder, a pipe or a device."""
    what = "is a folder, not a file." if path.is_dir() else "is no regular file."
    return Problem("E600", what, f"Move it away, then: {_init(path)}", path.name)


def _unread(path: Path, error: OSError) -> Problem:
    if error.errno in {errno.EISDIR, errno.EINVAL}:
        return no_file(path)
    what = f"cannot be read: {error.strerror}."
    fix = "Mount it, or fix what it leads to."
    if isinstance(error, PermissionError):
        fix = f"Make it readable: chmod u+r {shlex.quote(str(path))}"
    return Problem("E600", what, fix, path.name)


def _gone(path: Path) -> Problem:
    if path.is_symlink():
        fix = "Bring that back; or remove the link, then: " + _init(path)
        return Problem("E600", "is a link to nothing.", fix, path.name)
    return Problem("E600", "is missing.", "Make it with: " + _init(path), path.name)


def _init(path: Path) -> str:
    return command("init", directory=str(path.parent))


def emptied(path: Path) -> Problem:
    """A file without a byte is what a full disk leaves; as settings it means all defaults."""
    what = "is empty: every setting has its default."
    anew = f"rm {shlex.quote(str(path))} && " + _init(path)
    fix = "If it was cut off, bring it back, or: " + anew + ". If that is meant, write a comment in it."
    return Problem("W600", what, fix, path.name)


def parse_settings(data: bytes, file: str = "cronhpc.yaml") -> Settings:
    """The settings in `data`; an empty file means all defaults. Raises SettingsError."""
    from cronhpc.store.settings_reader import Reader, compose

    root = compose(data, file)
    reader = Reader(file)
    found = reader.section(root) if root is not None else {}
    found["min_interval"] = _min_interval(reader, found)
    _check_zone(reader, found.get("timezone", ""))
    if reader.problems:
        rest = Settings(**found) if len(reader.problems) == reader.in_rows else None
        raise SettingsError(tuple(sorted(reader.problems, key=lambda p: p.line)), rest)
    return Settings(**found)


def _check_zone(reader: Reader, key: str) -> None:
    """A zone that is none would stop every entry: it is named here, with its line."""
    from cronhpc.cron.zones import fix, is_zone

    if key and not is_zone(key):
        reader.note(reader.lines.get("timezone", 0), "timezone", f"{key[:60]!r} is no time zone.", fix(key))


def _min_interval(reader: Reader, found: Mapping[str, Any]) -> int:
    plain = Settings()
    interval: int = found.get("interval", plain.interval)
    least: int | None = found.get("min_interval")
    if least is None:
        return min(plain.min_interval, interval)
    if least > interval:
        key = "scheduler.min-interval"
        what = f"min-interval ({least} s) is longer than interval ({interval} s)."
        reader.note(reader.lines.get(key, 0), key, what, "Make interval longer or min-interval shorter.")
    return least

"""`cronhpc.yaml` to Settings: every key typed, every complaint with file, line, key and the fix; and its text."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING

from cronhpc.core.model import CronhpcError, Problem, Settings, SettingsError, command
from cronhpc.cron.values import replace
from cronhpc.script.advice import word
from cronhpc.script.dialect import DIALECTS
from cronhpc.store import schema
from cronhpc.store.files import read_bytes, replace_file, umask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cronhpc.store.settings_reader import Node


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
        fix = f"Make it readable: chmod u+r {word(path)}"
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
    anew = f"rm {word(path)} && " + _init(path)
    fix = "If it was cut off, bring it back, or: " + anew + ". If that is meant, write a comment in it."
    return Problem("W600", what, fix, path.name)


def parse_settings(data: bytes, file: str = "cronhpc.yaml") -> Settings:
    """The settings in `data`; an empty file means all defaults. Raises SettingsError."""
    from cronhpc.store.settings_reader import Reader, compose

    root = compose(data, file)
    reader = Reader(file)
    fields = reader.section(root) if root is not None else {}
    settings = Settings(**fields)
    if "min_interval" not in fields:
        settings = replace(settings, min_interval=min(settings.min_interval, settings.interval))
    problems = (*reader.problems, *_misfits(settings, file, reader.lines))
    if problems or reader.of_rows:
        by_line = sorted((*problems, *reader.of_rows), key=lambda problem: problem.line)
        raise SettingsError(tuple(by_line), None if problems else settings)
    return settings


_BACKEND = re.compile(rb"^backend:\s*[\"']?(\w+)", re.MULTILINE)


def backend_line(path: Path) -> str:
    """The batch system that a file names which cannot be used otherwise; "" where no line does."""
    with suppress(OSError):
        if (match := _BACKEND.search(read_bytes(path) or b"")) and match[1].decode() in DIALECTS:
            return match[1].decode()
    return ""


def _misfits(settings: Settings, file: str, lines: Mapping[str, int]) -> Iterator[Problem]:
    """Single values that are well written, and still cannot be."""
    from cronhpc.cron.zones import fix, is_zone

    if settings.min_interval > settings.interval:
        key = "scheduler.min-interval"
        what = f"min-interval ({settings.min_interval} s) is longer than interval ({settings.interval} s)."
        yield Problem("E603", what, "Make interval longer or min-interval shorter.", file, lines[key], key)
    if (zone := settings.timezone) and not is_zone(zone):  # it would stop every entry
        yield Problem("E603", f"{zone[:60]!r} is no time zone.", fix(zone), file, lines["timezone"], "timezone")


# --- the file as text: what init writes, and changes that keep a user's comments --------------------------------------

_HEAD = """\
# Settings of cronhpc. A line such as "#interval: 1h" shows the default, or an example: remove its # to change it.
# After an edit: cronhpc check
"""
_PLAIN = re.compile(r"[A-Za-z0-9/_][A-Za-z0-9/_@.+:-]*(?<!:)")
_ENVIRONMENT = re.compile(  # of an entry: names and their values; the settings' own is a list of names
    r"^[^#\n]*\benvironment:[ \t]*(?:\{[ \t]*[^}\s]|(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*[ \t]+[^\s#-])", re.MULTILINE
)
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def default_text(values: Mapping[str, str]) -> str:
    """A commented file that works unedited, with `values` (by dotted key, as sbatch.partition) in force."""
    lines, opened = [_HEAD], set[str]()
    for _, rows in groupby(schema.TABLE, key=lambda row: row.key.partition(".")[0]):
        for row in rows:
            *sections, name = row.key.split(".")
            for depth, section in enumerate(sections, 1):
                if (path := ".".join(sections[:depth])) not in opened:
                    opened.add(path)
                    lines.append(f"{'  ' * (depth - 1)}{section}:")
            indent = "  " * len(sections)
            lines += [f"{indent}# {row.doc}", *_setting(row, name, indent, values)]
        lines.append("")
    tables = tuple(f"{row.key}." for row in schema.TABLE if row.kind in schema.TABLES)
    single = {row.key for row in schema.TABLE if row.kind not in schema.TABLES}
    if unknown := [key for key in values if not key.startswith(tables) and key not in single]:
        raise KeyError(f"no such settings: {', '.join(sorted(unknown))}")
    return "\n".join(lines).rstrip("\n") + "\n"


def write_settings(path: Path, text: str) -> None:
    """Put `text` there, whole, with the modes that the file has, or that the umask leaves to a new one.

    Where it holds values under `environment:`, which may be secrets, it is for its owner alone. Behind a link to a file
    of the user's own that file is written. Raises OSError.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        mode = 0o644 & ~umask()
    else:
        mode = status.st_mode & 0o777
        path = path.resolve() if status.st_uid == os.geteuid() else path
    replace_file(path, text.encode(), mode & 0o600 if _ENVIRONMENT.search(text) else mode)


def _setting(row: schema.Setting, name: str, indent: str, values: Mapping[str, str]) -> Iterator[str]:
    rows = row.example.split("\n")
    if row.kind not in schema.TABLES:
        value = values.get(row.key)
        yield f"{indent}#{name}: {row.example}" if value is None else f"{indent}{name}: {quoted(value)}"
        return
    yield f"{indent}{name}:"
    given = [key for key in values if key.startswith(row.key + ".")]
    for key in given:
        yield f"{indent}  {key.removeprefix(row.key + '.')}: {quoted(values[key])}"
    names = {key.removeprefix(row.key + ".") for key in given}
    yield from (f"{indent}  #{example}" for example in rows if example.partition(":")[0] not in names)


def quoted(value: str) -> str:
    """`value` as YAML reads it back: plain where that is clear, else in double quotes."""
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    escaped = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in value)
    return f'"{"".join(escaped)}"'


class EditError(CronhpcError):
    """A key cannot be set in this text; set it by hand."""


def put(path: Path, changes: Mapping[str, str]) -> None:
    """Set these dotted keys in the file; its line ends stay. Raises EditError, SettingsError, OSError."""
    write_settings(path, edited(path.read_bytes().decode("utf-8-sig"), changes))


def edited(text: str, changes: Mapping[str, str]) -> str:
    """`text` with each dotted key set to its value, all else kept as it was. Raises EditError, SettingsError."""
    for key, value in changes.items():
        text = _set(text, key.split("."), quoted(value))
    parse_settings(text.encode())
    return text


def _set(text: str, keys: list[str], value: str) -> str:
    """Descend as far as the keys exist; then replace the value, or add what is missing."""
    from cronhpc.store.settings_reader import compose, is_null

    node = compose(text.encode(), "cronhpc.yaml")
    lines = text.splitlines(keepends=True)
    key_node = None
    for depth, name in enumerate(keys):
        if node is None or is_null(node):
            return _under(lines, key_node, keys[depth:], value)
        if node.id != "mapping":
            raise EditError(f"cronhpc.yaml: {'.'.join(keys[:depth])} is no section. Set {'.'.join(keys)} by hand.")
        here = next(((k, v) for k, v in node.value if k.value == name), None)
        if here is None:
            return _beside(lines, node, keys[depth:], value)
        key_node, node = here
    if node is None or node.id != "scalar":
        raise EditError(f"cronhpc.yaml: {'.'.join(keys)} holds more than one value. Change it by hand.")
    return _replace(lines, node, value)


def _nested(keys: list[str], value: str, indent: int) -> str:
    return "".join(
        f"{' ' * (indent + 2 * depth)}{name}:{f' {value}' if depth == len(keys) - 1 else ''}\n"
        for depth, name in enumerate(keys)
    )


def _under(lines: list[str], key: Node | None, keys: list[str], value: str) -> str:
    """Below a key that has no value yet, or at the end of an empty file."""
    if key is None:
        return "".join([*_ended(lines), _nested(keys, value, 0)])
    mark = key.start_mark
    if lines[mark.line][: mark.column].strip():
        raise EditError(f"cronhpc.yaml:{mark.line + 1}: {key.value} stands in one line with others. Edit it by hand.")
    rest = lines[mark.line][key.end_mark.column :]
    if rest.split("#")[0].strip() not in {":", ": ~", ": null"}:
        raise EditError(f"cronhpc.yaml:{mark.line + 1}: {key.value} is written in a way that needs your hand.")
    head = _ended(lines[: mark.line + 1])
    head[-1] = re.sub(r":\s*(~|null)", ":", head[-1], count=1)
    return "".join([*head, _nested(keys, value, mark.column + 2), *lines[mark.line + 1 :]])


def _beside(lines: list[str], mapping: Node, keys: list[str], value: str) -> str:
    """A new key in a mapping that has others."""
    mark = mapping.start_mark
    line = lines[mark.line]
    if mapping.flow_style:
        for name in keys[:0:-1]:
            value = f"{{{name}: {value}}}"
        new = f"{keys[0]}: {value}" + (", " if mapping.value else "")
        inner = mark.column + 1
        return "".join([*lines[: mark.line], line[:inner], new, line[inner:], *lines[mark.line + 1 :]])
    after = _end_line(mapping) + 1
    return "".join([*_ended(lines[:after]), _nested(keys, value, mark.column), *lines[after:]])


def _end_line(node: Node) -> int:
    """The line of the last character that belongs to `node` (its own end mark is behind comments that follow)."""
    if node.id != "scalar" and node.value and not node.flow_style:
        final = node.value[-1]
        return _end_line(final[1] if node.id == "mapping" else final)
    end = node.end_mark
    return int(end.line if end.column or end.line == node.start_mark.line else end.line - 1)


def _replace(lines: list[str], node: Node, value: str) -> str:
    start, end = node.start_mark, node.end_mark
    head = lines[start.line][: start.column]
    tail = lines[end.line][end.column :] if end.line < len(lines) else ""
    gap = "" if head.endswith(" ") else " "
    return "".join([*lines[: start.line], head, gap, value, tail, *lines[end.line + 1 :]])


def _ended(lines: list[str]) -> list[str]:
    if lines and not lines[-1].endswith("\n"):
        return [*lines[:-1], lines[-1] + "\n"]
    return lines

"""What happened, for ever readable: JSON lines by month, one writer's machine a file.

Appending from two machines to one file may corrupt it on NFS, so each has its own; a torn last line is passed over, and
a row written twice (a scheduler died between writing it and forgetting the claim) counts once.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

Row = dict[str, Any]


def append(folder: Path, rows: Iterable[Mapping[str, Any]], *, host: str, now: int) -> None:
    """Add rows (plain JSON values; "key" and "what" tell them apart) in one write. Raises OSError."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    if not text:
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    month = datetime.fromtimestamp(now, UTC).strftime("%Y-%m")
    path = folder / f"{month}.{host}.jsonl"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        end = os.lseek(fd, 0, os.SEEK_END)
        if end and os.pread(fd, 1, end - 1) != b"\n":
            text = "\n" + text  # the last writer was cut off: do not join its half line
        data = memoryview(text.encode())
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def rows(folder: Path) -> Iterator[Row]:
    """All rows, newest month first and newest first within a file; each key and kind once. Raises OSError."""
    seen: set[tuple[object, object]] = set()
    for path in _files(folder):
        for line in reversed(path.read_bytes().splitlines()):
            row = _row(line)
            if row is None:
                continue
            mark = (row.get("key"), row.get("what"))
            if row.get("key") and mark in seen:
                continue
            seen.add(mark)
            yield row


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.jsonl"), reverse=True)
    except FileNotFoundError:
        return []


def _row(line: bytes) -> Row | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def rotate(folder: Path, *, keep_months: int, now: int) -> None:
    """Forget months longer ago than `keep_months`."""
    moment = datetime.fromtimestamp(now, UTC)
    months = moment.year * 12 + moment.month - 1 - keep_months
    oldest = f"{months // 12:04d}-{months % 12 + 1:02d}"
    for path in _files(folder):
        if path.name < oldest:
            path.unlink(missing_ok=True)

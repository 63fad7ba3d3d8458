"""What happened, for ever readable: JSON lines by month, one writer's machine a file.

Appending from two machines to one file may corrupt it on NFS, so each has its own; a last line that is cut off is
passed over, and a row written twice (a scheduler died between writing it and forgetting the claim) counts once.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from functools import lru_cache

from cronhpc.core.model import HistoryRow, Key, decode
from cronhpc.store.files import decoded, make_folder, no_file, open_file, retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Any

_BLOCK = 1 << 16  # bytes
_BEFORE_ITS_SLOT = 3600  # seconds: what waited ahead of its slot may have ended before it


def append(folder: Path, rows: Iterable[Mapping[str, object]], *, host: str, now: int) -> None:
    """Add rows (plain JSON values; "key" and "what" tell them apart) in one write. Raises OSError."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    if not text:
        return
    make_folder(folder)
    month = datetime.fromtimestamp(now, UTC).strftime("%Y-%m")
    path = folder / f"{month}.{host}.jsonl"
    retried(lambda: _append(path, text))  # a row that came through all the same counts once


def _append(path: Path, text: str) -> None:
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


def rows(folder: Path) -> Iterator[HistoryRow]:
    """All rows, newest first over all machines' files, read only as far as they are asked for; each key and kind once.

    Newest is by "at", the instant that a row was written; a machine's file is taken to be in order. Raises OSError.
    """
    from heapq import merge
    from itertools import chain, groupby

    seen: set[tuple[object, object]] = set()
    for _, files in groupby(_files(folder), key=lambda path: path.name.partition(".")[0]):
        by_file = [chain.from_iterable(reversed(_read(lines)) for lines in _blocks_backwards(path)) for path in files]
        for row in merge(*by_file, key=_written, reverse=True):
            mark = (row.get("key"), row.get("what"))
            if mark not in seen or not mark[0]:
                seen.add(mark)
                yield row


def tells_of(folder: Path, key: Key) -> bool:
    """Whether it has this attempt, or tells of its slot with others: it has ended, its claim is forgotten."""
    for row in rows(folder):
        last = Key.of(row.get("key", "")) if row.get("what") == "slot" and row.get("count") != 1 else None
        with_others = last is not None and last.entry == key.entry and last >= key and not key.by_hand
        if row.get("key") == str(key) or with_others:
            return True
        if row.get("at", 0) < key.slot - _BEFORE_ITS_SLOT:
            return False
    return False


def _written(row: HistoryRow) -> int:
    return row.get("at", 0)


def _blocks_backwards(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file in blocks, the last block first: who wants the newest twenty reads no more."""
    try:
        file = open_file(path)
    except FileNotFoundError:  # rotated meanwhile
        return
    except OSError as error:
        if no_file(error):
            return  # a pipe, a folder: no rows of ours
        raise
    with file:
        end = file.seek(0, os.SEEK_END)
        rest = b""
        while end:
            size = min(_BLOCK, end)
            end -= size
            file.seek(end)
            first, *lines = (file.read(size) + rest).split(b"\n")
            yield lines
            rest = first
        yield [rest]


def _read(lines: list[bytes]) -> list[HistoryRow]:
    """The rows among them. Read as one list where that can be, in two thirds of the time; corrupt ones are left out."""
    whole = [line for line in lines if line.strip()]
    block = b"[" + b",".join(whole) + b"]"
    read = decoded(block)
    if read is None or len(read) != len(whole):
        read = [decoded(line) for line in whole]
    rows: list[Any] = [row for row in read if isinstance(row, dict)]
    shapes = {(*row, *map(type, row.values())) for row in rows}
    doubtful = b"\\" in block and b"\\u0000" in block
    doubtful = doubtful or bool(re.search(_NEGATIVE, block)) or _HUGE in block.translate(_AS_NOUGHTS)
    if doubtful or not all(map(_are_plain, shapes)):
        schema = decode.of(HistoryRow)
        return [decode.decode(row, schema)[0] for row in rows]
    return rows


_NEGATIVE = rb":\s*-"
_HUGE, _AS_NOUGHTS = b"0" * 12, bytes.maketrans(b"123456789", b"0" * 9)  # a number as large as `decode.LATEST`


@lru_cache(maxsize=256)  # few kinds of rows are written
def _are_plain(names_and_types: tuple[Any, ...]) -> bool:
    """Whether fields of these names have those types: in all rows, but for what somebody else has written."""
    number, fields = len(names_and_types) // 2, decode.of(HistoryRow).fields
    types = [decode.type_of(fields.get(name)) for name in names_and_types[:number]]
    return (*types,) == names_and_types[number:]


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"), reverse=True)


def rotate(folder: Path, *, keep_months: int, now: int) -> None:
    """Forget months longer ago than `keep_months`."""
    moment = datetime.fromtimestamp(now, UTC)
    months = moment.year * 12 + moment.month - 1 - keep_months
    oldest = f"{months // 12:04d}-{months % 12 + 1:02d}"
    for path in _files(folder):
        if path.name < oldest:
            path.unlink(missing_ok=True)

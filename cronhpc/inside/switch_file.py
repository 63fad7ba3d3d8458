"""One switch file, read with care: the standard library only, as jobs read it too.

Teammates may write there, so a link, fifo, device or folder counts by its name alone, and of a regular file at most
4 KiB are read. What it says is only ever shown, cleaned.
"""

from __future__ import annotations

import functools
import os
import re
import stat

_READ = 4096  # bytes
_REASON = 200  # characters
_PRIVATE = "the file is its owner's alone to read, so it is not said why"
LAST = 253402300799  # the end of the year 9999: what a calendar can still write
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x9b[0-?]*[ -/]*[@-~]|\x1b.?"
_EXPIRES = r"(?i)\s*expires\s*:(.*)"
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = "".join(rf"(?:([0-9]{{1,9}}(?:\.[0-9]{{1,6}})?){unit})?" for unit in _UNITS)


UNSEEN = "unknown"  # who has made a file that a listing shows, and of which a stat does not tell yet


class Found:
    def __init__(self, path: str, by: str, since: int | None, reason: str, expires: int | None) -> None:
        self.path = path
        self.by = by  # the file's owner, or UNSEEN
        self.since = since
        self.reason = reason  # one printable line
        self.expires = expires


def look(path: str) -> Found | None:
    """The switch at `path`; None: there is none. Raises OSError where that cannot be known, as for a missing mount.

    The folder is listed where it may be: on NFS a stat may be a minute old, of a file that was made or removed.
    """
    folder, name = os.path.split(path)
    try:
        if name not in os.listdir(folder or "."):
            return None
    except PermissionError:
        if not os.path.lexists(path):
            return None
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return Found(path, UNSEEN, None, "", None)
    since = min(max(int(status.st_mtime), 0), LAST)
    reason, expires, _ = content(*text_of(path, status), since)
    return Found(path, owner(status.st_uid), since, reason, expires)


def text_of(path: str, status: os.stat_result, folder: int | None = None) -> tuple[str, bool]:
    """The start of a regular file, and whether its words may be shown to all; of anything else nothing.

    `folder`: the open folder that `path` is a name in. A file that only I may read, or that has a second name, may be
    one that a teammate moved or linked there to learn what is in it.
    """
    if not stat.S_ISREG(status.st_mode):
        return "", True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return "", True
    try:
        status = os.fstat(fd)
        text = os.read(fd, _READ).decode("utf-8", "replace") if stat.S_ISREG(status.st_mode) else ""
        around = os.stat(os.path.dirname(path) or ".") if folder is None else os.fstat(folder)
        return text, _open_to(status, around.st_gid)
    except OSError:
        return "", True
    finally:
        os.close(fd)


def _open_to(status: os.stat_result, team: int) -> bool:
    """Whether all, or the group of the folder, may read the file by this one name."""
    by_group = status.st_mode & stat.S_IRGRP and status.st_gid == team
    return status.st_nlink == 1 and bool(status.st_mode & stat.S_IROTH or by_group)


def content(text: str, is_public: bool, since: int) -> tuple[str, int | None, str]:  # noqa: FBT001 - a pair with the text
    """(reason, the instant it expires, what stands behind `expires:` and cannot be read).

    `is_public`: the words may be shown to all; else only when it expires counts.
    """
    reason: list[str] = []
    expires: int | None = None
    invalid = ""
    for line in text.splitlines():
        match = re.fullmatch(_EXPIRES, line)
        if match is None:
            reason.append(line)
            continue
        try:
            expires = expiry(match[1], since)
        except ValueError:
            invalid = (clean(match[1]) or "nothing") if is_public else "…"
    words = clean(" ".join(reason))
    return words if is_public or not words else _PRIVATE, expires, invalid


def expiry(text: str, since: int) -> int:
    """The instant meant by `2h` (after `since`) or an ISO time (without a zone: this machine's). Raises ValueError."""
    text = text.strip()
    after = seconds(text)
    if after is not None:
        return min(since + int(after), LAST)
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp())
    except OverflowError:
        raise ValueError(f"{text} is too far away") from None


def seconds(text: str) -> float | None:
    """What `90s`, `1h30m` or `0.5s` says; None where it says no duration."""
    match = re.fullmatch(_DURATION, text)
    if not text or match is None:
        return None
    return sum(float(n) * unit for n, unit in zip(match.groups(), _UNITS.values(), strict=True) if n)


def clean(text: str, most: int = _REASON) -> str:
    """`text` as one printable line of at most `most` characters: no escapes, controls or direction marks."""
    plain = re.sub(_ESCAPES, "", text)
    line = " ".join("".join(c if c.isprintable() else " " for c in plain).split())
    return line if len(line) <= most else line[: most - 1] + "…"


@functools.lru_cache(maxsize=256)
def owner(uid: int) -> str:
    """The user's name, or the number where there is none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)

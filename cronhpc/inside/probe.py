"""`python -m cronhpc.inside.probe FOLDER NAME [URL [SECONDS]]`: one machine's look at a folder that several use.

Each machine races for the same names, a fresh one at each twentieth of a second by the folder's own clock, so that all
try it at one instant: of all that try, one may create it, one may link it. What it found it writes down beside them,
as NAME.json. Used by `cronhpc doctor --submit`; the standard library only.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time

_NETWORK_TIME = 5.0
_RACING = 3.0  # seconds
_STEP = 0.05  # seconds between two names


class Racer:
    """One machine in the races in `folder`: the numbers of the names that it tried, created, linked."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name
        self.disk = ""  # what went wrong first
        self.tried: list[int] = []
        self.created: list[int] = []
        self.linked: list[int] = []
        self.ahead: float | None = None  # seconds, of the folder's clock; None: not asked yet

    def look(self, seconds: float) -> None:
        """Race, link, rename and read back."""
        self.race(seconds)
        own = os.path.join(self.folder, f".{self.name}.{os.getpid()}")
        moved = os.path.join(self.folder, f"{self.name}.moved")
        try:
            _write(own, self.name)
            os.rename(own, moved)
            if not _holds(moved, self.name):
                self.disk = self.disk or "what was written and renamed reads differently"
            os.unlink(moved)
        except OSError as error:
            self._failed(error)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(own)

    def race(self, seconds: float) -> None:
        """Try a fresh name at each step, for so long."""
        try:
            self._race(seconds)
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.disk = self.disk or f"{error.strerror} ({os.path.basename(error.filename or '')})"

    def _race(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        own = os.path.join(self.folder, f".{self.name}.{os.getpid()}.own")
        _write(own, self.name)
        try:
            if self.ahead is None:
                self.ahead = _ahead(own)
            while time.monotonic() < until:
                now = time.time() + self.ahead  # noqa: TID251 - all meet by the one clock that they share
                number = int(now / _STEP) + 1
                time.sleep(number * _STEP - now)
                self._try(number, own)
        finally:
            os.unlink(own)

    def _try(self, number: int, own: str) -> None:
        self.tried.append(number)
        if _created(os.path.join(self.folder, f"claim.{number}"), self.name):
            self.created.append(number)
        if _linked(own, os.path.join(self.folder, f"lease.{number}"), self.name):
            self.linked.append(number)

    def report(self) -> dict[str, object]:
        """What is written down of it."""
        return {"disk": self.disk, "tried": self.tried, "created": self.created, "linked": self.linked}


def _ahead(path: str) -> float:
    """Seconds by which the clock that has just stamped `path` is ahead; 0.0 where it tells whole seconds only."""
    stamped = os.stat(path)
    if stamped.st_mtime_ns % 1_000_000_000 == 0:
        return 0.0
    return stamped.st_mtime - time.time()  # noqa: TID251 - two clocks are compared


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _created(path: str, name: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _holds(path, name)  # our own answer may have been lost on the way
    try:
        os.write(fd, name.encode())
    finally:
        os.close(fd)
    return True


def _linked(own: str, path: str, name: str) -> bool:
    try:
        os.link(own, path)
    except FileExistsError:
        return _holds(path, name)
    return True


def _holds(path: str, name: str) -> bool:
    with open(path, encoding="utf-8") as file:
        return file.read() == name


def tzdata() -> str:
    """The version of the time zone database that Python uses here; "" where there is none."""
    import zoneinfo

    for place in zoneinfo.TZPATH:
        for name in ("tzdata.zi", "+VERSION", "version"):
            with (
                contextlib.suppress(OSError),
                open(os.path.join(place, name), encoding="ascii", errors="replace") as file,
            ):
                first = file.readline().replace("# version", "").strip()
                if first:
                    return first[:20]
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("tzdata").IANA_VERSION)
    return "of unknown version" if any(os.path.isfile(f"{place}/Europe/Paris") for place in zoneinfo.TZPATH) else ""


def reaches(url: str) -> str:
    """Why `url` cannot be fetched from here; "" if it can. The address itself is in no message."""
    import urllib.error
    import urllib.request

    if not url.startswith(("https://", "http://")):
        return "it does not begin with https://"
    try:
        with urllib.request.urlopen(url, timeout=_NETWORK_TIME):  # noqa: S310 - http(s) alone, as just checked
            return ""
    except urllib.error.HTTPError as error:
        return f"the server said {error.code}"
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return getattr(reason, "strerror", None) or type(reason).__name__


def main(folder: str, name: str, url: str = "", seconds: str = str(_RACING)) -> int:
    """Write down what this machine found."""
    mask = os.umask(0o077)
    racer = Racer(folder, name)
    racer.look(float(seconds))
    report = racer.report() | {"name": name, "umask": mask, "tzdata": tzdata(), "at": time.time()}  # noqa: TID251 - a clock is what is asked for
    if url:
        report["network"] = reaches(url)
    path = os.path.join(folder, f"{name}.json")
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.rename(f"{path}.tmp", path)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""`python -m cronhpc.inside.probe FOLDER NAME [URL]`: one machine's look at a folder that several use at once.

Each machine races for the same names: of all that look, one may create a file, one may link one. What it found it
writes down beside them, as NAME.json. Used by `cronhpc doctor --submit`; the standard library only.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time

_NETWORK_TIME = 5.0


def look(folder: str, name: str) -> dict[str, object]:
    """Create, link, rename and read back: what went wrong with it ("disk"), and which races were won."""
    found: dict[str, object] = {"disk": "", "created": False, "linked": False}
    own = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        found["created"] = _created(os.path.join(folder, "claim"), name)
        with open(own, "x", encoding="ascii") as file:
            file.write(name)
            file.flush()
            os.fsync(file.fileno())
        found["linked"] = _linked(own, os.path.join(folder, "lease"))
        moved = os.path.join(folder, f"{name}.moved")
        os.rename(own, moved)
        with open(moved, encoding="ascii") as file:
            if file.read() != name:
                found["disk"] = "what was written and renamed reads differently"
        os.unlink(moved)
    except OSError as error:
        found["disk"] = f"{error.strerror} ({os.path.basename(error.filename or '')})"
    finally:
        with contextlib.suppress(OSError):
            os.unlink(own)
    return found


def _created(path: str, name: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        with open(path, encoding="ascii") as file:
            return file.read() == name  # our own answer may have been lost on the way
    try:
        os.write(fd, name.encode("ascii", "replace"))
    finally:
        os.close(fd)
    return True


def _linked(own: str, path: str) -> bool:
    try:
        os.link(own, path)
    except FileExistsError:
        return os.stat(own).st_nlink == 2  # noqa: PLR2004 - two names: ours came through, its answer was lost
    return True


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


def main(folder: str, name: str, url: str = "") -> int:
    """Write down what this machine found."""
    mask = os.umask(0o077)
    found = look(folder, name)
    found |= {"name": name, "umask": mask, "tzdata": tzdata(), "at": time.time()}  # noqa: TID251 - a clock is what is asked for
    if url:
        found["network"] = reaches(url)
    path = os.path.join(folder, f"{name}.json")
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.rename(f"{path}.tmp", path)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

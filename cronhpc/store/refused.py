"""What to do about a file that the system refused."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

from cronhpc.core.model import command
from cronhpc.inside.switch_file import clean, owner
from cronhpc.store.files import passes

_MENDS = {
    errno.ENOENT: "It was removed: " + command("init") + " makes it again",
    errno.EISDIR: "A folder has that name: move it away",
    errno.EEXIST: "Something else has that name: move it away",
    errno.ENOTDIR: "Something that is no folder has that name: move it away",
    errno.EINVAL: "Something that is no file has that name: move it away",
    errno.ELOOP: "A link has that name: move it away",
    errno.ENOSPC: "Make room, or mend the quota",
    errno.EDQUOT: "Make room, or mend the quota",
    errno.EROFS: "It is mounted read-only here",
    errno.ESTALE: "The file system has lost it: try again in a minute",
    errno.EOPNOTSUPP: "Choose a folder on another file system with --dir",
}
_PASSES = "The file system is at fault: try again in a minute"


def mend(error: OSError) -> str:
    """What to do; where we may not, who may: the owner of the first place that we cannot enter or read.

    Without a full stop; "" where nobody knows.
    """
    if not isinstance(error, PermissionError):
        return _MENDS.get(error.errno or 0) or (_PASSES if passes(error) else "")
    if not isinstance(error.filename, str | Path):
        return ""
    path = Path(error.filename)
    shut = (p for p in (*reversed(path.parents), path) if not os.access(p, os.X_OK if p != path else os.R_OK | os.W_OK))
    place = next(shut, path)
    while not os.path.lexists(place):  # it cannot be made, where it would be
        place = place.parent
    uid = place.lstat().st_uid
    if uid == os.getuid():
        return f"It is yours: chmod u+rwX {shlex.quote(str(place))}"
    return f"{clean(str(place))} belongs to {owner(uid)}: ask them, or name a directory of your own with --dir"

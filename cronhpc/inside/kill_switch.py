"""A kill switch for training loops.

    switch = cronhpc.KillSwitch("/proj/team/kill/training17")
    for batch in loader:
        ...
        if switch.is_set():
            save_checkpoint()
            break

With many ranks only one looks, and tells the others, so that all stop at the same step: files are not seen by all
nodes at the same moment. With torch.distributed:

    stop = torch.tensor([rank == 0 and switch.is_set()], device=device)
    torch.distributed.broadcast(stop, src=0)
    if stop.item():
        ...

With mpi4py: `if comm.bcast(switch.is_set() if comm.rank == 0 else None, root=0): ...`
"""

from __future__ import annotations

import os
from time import monotonic

from cronhpc.inside import switch_file


class KillSwitch:
    """Whether a file of that name exists, looked up at most `every` seconds: in between `is_set` costs next to nothing.

    An `expires:` line in the file counts. `found` says who set it, when and why.
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 10.0) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.every = every
        self.found: switch_file.Found | None = None
        self._set = False
        self._next = -1.0

    def is_set(self) -> bool:
        """Whether the switch stands, as known at most `every` seconds ago."""
        return self._set if monotonic() < self._next else self.look()

    def look(self) -> bool:
        """Look now. Where it cannot be known (a missing mount, a stale handle) the last answer stays."""
        self._next = monotonic() + self.every
        try:
            self.found = standing(self.path)
        except OSError:
            return self._set
        self._set = self.found is not None
        return self._set


def standing(path: str) -> switch_file.Found | None:
    """The switch at `path` unless it has expired. Raises OSError where that cannot be known."""
    from time import time  # noqa: TID251 - inside a job there is nobody to pass now

    switch = switch_file.look(path)
    if switch is not None and switch.expires is not None and switch.expires <= time():
        return None
    return switch

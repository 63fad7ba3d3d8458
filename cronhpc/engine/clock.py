"""Whose clock a tick goes by: its node's, but where that is far off the batch system's.

One that is ahead would use up slots that have not come, and hours ahead it would take the chain there with it. So
Slurm is asked where a tick's clock does not fit what the last one has noted, or a link began at another minute by Slurm
than by its node; otherwise nothing is.

Where there is no Slurm, a clock that has jumped by years is held against the file system's: that of a file server is
another machine's. A disk of this machine's own has the same clock: there nothing tells the jump from a long silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import CLOCKS_APART, Problem
from cronhpc.cron.values import dataclass, replace
from cronhpc.store.files import clock_of
from cronhpc.store.scheduler import expected

if TYPE_CHECKING:
    from cronhpc.engine.site import Site

_MINUTE, _YEAR = 60, 366 * 86400


@dataclass(frozen=True, slots=True)
class Reckoned:
    """The instant to go by. `clock_verified`: the batch system has said so. `site`: with a wrong clock as a problem."""

    site: Site
    now: int
    clock_verified: bool = False


def reckoned(site: Site, now: int, *, doubt: bool = False) -> Reckoned:
    """`now` as it is, by one stat, where it fits the last tick's; else what the batch system says. Raises OSError.

    `doubt`: Slurm and this node differ on when the link began, so it is asked in any case, and minutes count.
    """
    from cronhpc.batch.port import BatchError

    noted = expected(site.paths)
    if not doubt and noted is not None and noted[0] <= now + CLOCKS_APART and now <= noted[1]:
        return Reckoned(site, now)
    try:
        said = site.batch.clock()
    except BatchError:
        return Reckoned(site, now)
    if said is None:
        return _by_disk(site, now, noted[1] if noted else now)
    if abs(said - now) <= (_MINUTE if doubt else CLOCKS_APART):
        return Reckoned(site, now, clock_verified=True)
    off = f"{abs(said - now) // 60} minutes {'behind' if said > now else 'ahead of'} the batch system's"
    return _corrected(site, said, f"this machine's clock is {off}, which is used.")


def _by_disk(site: Site, now: int, awaited: int) -> Reckoned:
    """The file system's clock where ours is years beyond it, and beyond `awaited`, when the next tick was."""
    if now - awaited <= _YEAR:
        return Reckoned(site, now)
    try:
        disk = clock_of(site.paths.state)
    except OSError:
        return Reckoned(site, now)
    if now - disk <= _YEAR:
        return Reckoned(site, now)
    what = f"this machine's clock is {(now - disk) // 86400} days ahead of the file system's, which is used."
    return _corrected(site, disk, what)


def _corrected(site: Site, now: int, wrong: str) -> Reckoned:
    problem = Problem("W360", wrong, f"Tell the administrators: the clock of {site.host} wants ntp.")
    return Reckoned(replace(site, problems=(*site.problems, problem)), now, clock_verified=True)

"""Standing switches whose names nothing has: a slip of the pen, or a job that is still to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Problem, command, entry_id
from cronhpc.core.stop import ALL, Index, expired

if TYPE_CHECKING:
    from cronhpc.core.model import Switch, World

_NEAREST = 20  # names for which a nearest one is looked for, among so many …
_CANDIDATES = 2000  # … names


def unheard(world: World) -> list[Problem]:
    """One problem a switch, with the nearest name; none where the queue is unknown. It acts once something has it."""
    if world.queue is None:
        return []
    index = Index.of(world)
    known = {ALL, *(row.name for row in world.settings.switches)}
    for entry in world.known().values():
        known |= {entry.name, entry.job_name}
    done = {struck.path for struck in world.struck.values()}
    lost = [
        s
        for s in world.switches
        if not expired(s, world.now) and s.name not in known and s.path not in done and not index.reached(s)
    ]
    called = sorted((known | index.by_name.keys()) - {""})[:_CANDIDATES] if lost else []
    return [_nameless(switch, called if place < _NEAREST else []) for place, switch in enumerate(lost)]


def _nameless(switch: Switch, known: list[str]) -> Problem:
    import difflib

    shown = switch.title.partition("/")[2]
    of_id = [name for name in known if entry_id(name) == switch.name]  # as the log folder is called
    near = of_id or difflib.get_close_matches(switch.name, known, n=1, cutoff=0.5)
    nearest = f"; nearest: {near[0]}" if near else ""
    what = f"nothing is called {shown}{nearest}."
    if switch.name.partition("_")[0].isdecimal():
        what = f"no job {shown} is in the queue."
    mend = "It acts as soon as there is one."
    if switch.name.isprintable():
        mend = mend + " To remove it: " + command("unkill" if switch.kind == "kill" else "resume", switch.name)
    return Problem("W504", what, mend, switch.title)

"""One tick, or the chain's start or stop, at an instant that a test names: no test waits for a slot.

    python helpers_drive.py tick DIR NOW [LINK]
    python helpers_drive.py start|stop DIR NOW
    python helpers_drive.py run DIR NOW ENTRY

Exit 0: done; anything else is a fault of cronhpc (a traceback, say). What was done is
printed, one line a decision, unless DRIVE_QUIET is set: then nothing is written that is not cronhpc's own.
"""

from __future__ import annotations

import os
import sys

from cronhpc.core.model import Call
from cronhpc.drivers.start import start, stop
from cronhpc.engine.site import open_site
from cronhpc.tick import tick


def main(what: str, folder: str, instant: str, *more: str) -> int:
    """Run one command."""
    now = int(instant)
    site = open_site(folder, None, os.environ)
    lines: list[object] = []
    if what in {"start", "stop"}:
        done = start(site, os.environ, lambda: now) if what == "start" else stop(site, os.environ, lambda: now)
        outcomes = done.outcomes
    else:
        call = Call(only=more[0]) if what == "run" else Call(link=more[0] if more else "")
        report = tick(site, now, call)
        outcomes = report.outcomes
        lines.extend(report.problems)
    lines += [f"{each.done}  {each.job_id or ''}  {each.detail}  {each.decision}" for each in outcomes]
    if "DRIVE_QUIET" not in os.environ:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

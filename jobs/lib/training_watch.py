"""training-watch: jobs, by name, that are neither running nor able to start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import alerts
import shelf
import slurm_queue
from alerts import Alert
from shelf import Settings
from slurm_queue import DEPENDENCY, GONE, HELD, NEVER, PENDING, RUNNING, STANDINGS, Job


@dataclass(frozen=True)
class Seen:
    """How the jobs of one name stand: the best of them counts."""

    pattern: str
    state: str
    jobs: tuple[Job, ...]

    @property
    def alive(self) -> bool:
        """Whether one of them runs, or can start."""
        return self.state in {RUNNING, PENDING}

    def __str__(self) -> str:
        which = f": {', '.join(map(str, self.jobs[:5]))}" if self.jobs else ""
        more = f" and {len(self.jobs) - 5} more" if len(self.jobs) > 5 else ""  # noqa: PLR2004 - as above
        return f"{shelf.shown(self.pattern)} is {self.state}{which}{more}"


def judge(pattern: str, rows: Sequence[Job]) -> Seen:
    """How the jobs of a name (or shell pattern) stand, the watcher itself left out of `rows`."""
    found = tuple(slurm_queue.of_name(rows, pattern))
    state = min((job.stands for job in found), key=STANDINGS.index, default=GONE)
    return Seen(pattern, state, found if state != GONE else ())


def fix(seen: Seen) -> str:
    """What a person can do about it."""
    ids = " ".join(job.id for job in seen.jobs)
    return {
        HELD: f"scontrol release {ids}",
        DEPENDENCY: f"scancel {ids}, then submit it again",
        NEVER: f"scontrol show job {ids.partition(' ')[0]}",
        GONE: "submit it again",
    }.get(seen.state, "")


def resubmit(settings: Settings, seen: Seen) -> str:
    """Submit RESUBMIT for jobs that are gone, at most MOST times in a row; what was done, in words."""
    path, most = settings.state("resubmitted.json"), settings.number("MOST")
    counts = shelf.read_state(path).get("counts", {})
    count = int(counts.get(seen.pattern, 0))
    if seen.alive and count:
        shelf.write_state(path, {"counts": {**counts, seen.pattern: 0}}, quiet=True)
    if seen.state != GONE:
        return ""
    if count >= most:
        return f"not resubmitted: {shelf.plural(count, 'time')} already since it last ran (MOST={most})"
    counts = {**counts, seen.pattern: count + 1}
    shelf.write_state(path, {"counts": counts})
    if shelf.read_state(path).get("counts") != counts:
        return "not resubmitted: it could not be written down that it was"
    answer = shelf.ask(["sbatch", "--parsable", os.path.expanduser(settings.text("RESUBMIT"))], timeout=120)
    return f"resubmitted as job {answer.out.strip()}" if answer.code == 0 else f"not resubmitted: {answer.said}"


def main(settings: Settings) -> int:
    """Ask once, judge each name, tell."""
    rows = slurm_queue.without_own(slurm_queue.jobs(slurm_queue.people(settings.text("USERS"))), os.environ)
    wrong, fine = [], {}
    for pattern in settings.array("WATCH"):
        seen = judge(pattern, rows)
        done = resubmit(settings, seen) if settings.text("RESUBMIT") else ""
        print(seen)
        if seen.alive:
            fine[pattern] = str(seen)
        else:
            wrong.append(Alert(pattern, f"{seen}. {done or f'Fix: {fix(seen)}'}", seen.state))
    return alerts.tell(settings, wrong, now=shelf.seconds_now(), fine=fine)


if __name__ == "__main__":
    shelf.run(main)

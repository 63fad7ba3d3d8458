"""stall-watch: running jobs whose log has not grown for a while, with the stacks of all their ranks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import alerts
import shelf
import slurm_queue
from alerts import Alert
from shelf import Broken, Settings
from slurm_queue import Job

_DUMP_TIME = 90
_LINES = 400  # of stacks a job, in this job's own log; all of them are kept in a file


@dataclass(frozen=True)
class Facts:
    """What `scontrol show job` tells of a running job; times in seconds since 1970."""

    started: float
    nodes: int
    logs: tuple[str, ...]


def parse(text: str) -> Facts:
    """Of `scontrol show job` (not `-o`: a path may hold blanks). Raises Broken for what is not one."""
    start, nodes = re.search(r"\bStartTime=(\d+)", text), re.search(r"\bNumNodes=(\d+)", text)
    if not start or not nodes:
        raise Broken("scontrol does not tell when it started")
    logs = dict.fromkeys(re.findall(r"^ *Std(?:Out|Err)=(/.*)$", text, re.MULTILINE))
    return Facts(float(start[1]), int(nodes[1]), tuple(logs))


def expanded(path: str, job: Job) -> str:
    """A log's path with the patterns that newer versions of Slurm leave in it."""
    array, _, task = job.id.partition("_")
    words = {"j": job.number, "J": job.number, "x": job.name, "A": array, "a": task, "u": job.user, "%": "%"}
    return re.sub(r"%(\d*)([jJxAau%])", lambda m: words[m[2]].zfill(int(m[1] or 0)), path)


def quiet_for(logs: Sequence[str], started: float, now: float) -> float | None:
    """Seconds since the newest of the logs grew, or since the start; None where there is no log to judge by."""
    times = []
    for path in logs:
        try:
            times.append(os.stat(path).st_mtime)
        except FileNotFoundError:
            continue
    return max(now - max(started, *times), 0.0) if times else None


def watched(rows: Sequence[Job], patterns: Sequence[str]) -> list[Job]:
    """The running jobs among them, each once."""
    running = [row for row in rows if row.state == "RUNNING"]
    return list(dict.fromkeys(row for pattern in patterns for row in slurm_queue.of_name(running, pattern)))


# --- stacks --------------------------------------------------------------------------------------------------------


def stacks(number: str, nodes: int) -> str:
    """The stacks of every rank of a job, or why there are none.

    By one task on each node of the job, beside what runs there: it takes no CPU and no GPU of its own.
    """
    step = [f"--jobid={number}", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    quiet = ["--gres=none", "--mem=0", "--input=none", "--kill-on-bad-exit=0", "--job-name=stacks"]
    script = os.path.join(os.path.dirname(os.path.realpath(__file__)), "stacks.sh")
    try:
        answer = shelf.ask(["srun", *step, *quiet, "bash", script, number], timeout=_DUMP_TIME)
    except Broken as error:
        return f"no stacks: {error}"
    return answer.out if answer.code == 0 and answer.out else f"{answer.out}no stacks: {answer.said or answer.code}"


def _print(job: Job, text: str, path: Path) -> None:
    lines, kept = text.splitlines(), shelf.keep(path, text.encode("utf-8", "surrogateescape"), "not kept")
    print(f"--- stacks of job {job.id}, all of them in {kept}")
    print("\n".join(lines[:_LINES]))
    if len(lines) > _LINES:
        print(f"… and {len(lines) - _LINES} more lines")
    print("---")


# --- the job -------------------------------------------------------------------------------------------------------


def stop(job: Job) -> str:
    """Cancel a stalled job; what was done."""
    answer = shelf.ask(["scancel", job.id])
    return "cancelled (STOP=yes)" if answer.code == 0 else f"not cancelled: {answer.said}"


def look(job: Job, log: str, now: float) -> tuple[float, int]:
    """(seconds of silence, the job's nodes). Raises Broken."""
    answer = shelf.ask(["scontrol", "show", "job", job.number])
    if answer.code:
        raise Broken(f"job {job.id} is unknown: {answer.said}")
    facts = parse(answer.out)
    logs = [expanded(path, job) for path in ([os.path.expanduser(log)] if log else facts.logs)]
    silence = quiet_for(logs, facts.started, now)
    if silence is None:
        raise Broken(f"{job}: there is no log {' or '.join(map(shelf.shown, logs))}")
    return silence, facts.nodes


def main(settings: Settings) -> int:
    """Each watched job in turn."""
    patterns, seconds, now = settings.array("WATCH"), 60 * float(settings.text("MINUTES")), shelf.seconds_now()
    rows = watched(slurm_queue.without_own(slurm_queue.jobs(), os.environ), patterns)
    if not rows:
        print(f"no running job is called {' or '.join(map(shelf.shown, patterns))}")
    told = alerts.remembered(settings)
    fine = {key: f"job {key.partition(' ')[0]} does not run any more" for key in told}
    wrong, unknown = [], set()
    for job in rows:
        key = f"{job.id} {job.submitted}"
        try:
            silence, nodes = look(job, settings.text("LOG"), now)
        except Broken as error:
            print(f"unknown: {error}")
            unknown.add(key)
            continue
        if silence < seconds:
            fine[key] = f"{job}: its log grew {shelf.ago(silence)} ago"
            print(fine[key])
            continue
        if key not in told:  # once: each dump stops every rank for a moment
            _print(job, stacks(job.number, nodes), settings.state(f"{job.number}.stacks"))
        done = f"; {stop(job)}" if settings.text("STOP") == "yes" else ""
        wrong.append(Alert(key, f"{job}: its log has not grown for {shelf.ago(silence)}{done}"))
    code = alerts.tell(settings, wrong, frozenset(unknown), now=now, fine=fine)
    return shelf.BROKEN if unknown and code == shelf.FINE else code


if __name__ == "__main__":
    shelf.run(main)

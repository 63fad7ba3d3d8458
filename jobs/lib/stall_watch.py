"""stall-watch: running jobs whose log has not grown for a while, with the stacks of all their ranks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import alerts
import memory
import shelf
import slurm_queue
from alerts import Alert
from shelf import Broken, Settings
from slurm_queue import Job

JOB = "stall-watch"
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


def watched(rows: Sequence[Job], patterns: Sequence[str]) -> Iterator[Job]:
    """The running jobs among them, each once."""
    seen = set()
    for pattern in patterns:
        for row in slurm_queue.of_name(rows, pattern):
            if row.state == "RUNNING" and row.id not in seen:
                seen.add(row.id)
                yield row


def facts_of(job: Job) -> Facts:
    """Ask about one job. Raises Broken."""
    scontrol = shelf.find("scontrol", package="the package slurm-client")
    answer = shelf.ask([scontrol, "show", "job", job.number])
    if answer.code:
        raise Broken(f"job {job.id} is unknown: {answer.said}")
    return parse(answer.out)


# --- stacks --------------------------------------------------------------------------------------------------------


def dump_command(srun: str, number: str, nodes: int, python: str, here: str) -> list[str]:
    """One task on each node of the job, beside what runs there: it takes no CPU and no GPU of its own."""
    step = [f"--jobid={number}", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    quiet = ["--gres=none", "--mem=0", "--input=none", "--kill-on-bad-exit=0", "--job-name=stacks"]
    return [srun, *step, *quiet, python, f"{here}/stacks.py", f"JOB={number}"]


def stacks(number: str, nodes: int) -> str:
    """The stacks of every rank of a job, or why there are none."""
    try:
        srun = shelf.find("srun", package="the package slurm-client")
        here = os.path.dirname(os.path.realpath(__file__))
        answer = shelf.ask(dump_command(srun, number, nodes, sys.executable, here), timeout=_DUMP_TIME)
    except Broken as error:
        return f"no stacks: {error}"
    return answer.out if answer.code == 0 and answer.out else f"{answer.out}no stacks: {answer.said or answer.code}"


def _keep(job: Job, text: str) -> str:
    """Where all of it can be read."""
    path = memory.state_file(JOB, f"{job.number}.stacks")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        return f"not kept ({error.strerror})"
    return str(path)


def _print(job: Job, text: str) -> None:
    lines = text.splitlines()
    print(f"--- stacks of job {job.id}, all of them in {_keep(job, text)}")
    print("\n".join(lines[:_LINES]))
    if len(lines) > _LINES:
        print(f"… and {len(lines) - _LINES} more lines")
    print("---")


# --- the job -------------------------------------------------------------------------------------------------------


def stop(job: Job) -> str:
    """Cancel a stalled job; what was done."""
    answer = shelf.ask([shelf.find("scancel", package="the package slurm-client"), job.id])
    return "cancelled (STOP=yes)" if answer.code == 0 else f"not cancelled: {answer.said}"


def look(job: Job, log: str, now: float) -> tuple[float | None, Facts, Sequence[str]]:
    """(seconds of silence, the job's facts, its logs). Raises Broken."""
    facts = facts_of(job)
    logs = [expanded(path, job) for path in ([os.path.expanduser(log)] if log else facts.logs)]
    return quiet_for(logs, facts.started, now), facts, logs


def main(settings: Settings) -> int:
    """Each watched job in turn."""
    stopping, minutes, now = settings.yes("STOP"), settings.number("MINUTES"), shelf.seconds_now()
    patterns = settings.given("WATCH", "name the jobs to watch")
    rows = list(watched(slurm_queue.without_own(slurm_queue.jobs(), os.environ), patterns))
    if not rows:
        print(f"no running job is called {' or '.join(map(shelf.shown, patterns))}")
    told = alerts.remembered(JOB)
    wrong, fine, unknown = [], {}, set()
    for job in rows:
        key = f"{job.id} {job.submitted}"
        try:
            silence, facts, logs = look(job, settings.text("LOG"), now)
        except Broken as error:
            print(f"unknown: {error}")
            unknown.add(key)
            continue
        if silence is None:
            print(f"unknown: {job}: there is no log {' or '.join(map(shelf.shown, logs))}")
            unknown.add(key)
        elif silence < minutes * 60:
            fine[key] = f"{job}: its log grew {shelf.ago(silence)} ago"
            print(fine[key])
        else:
            wrong.append(_stalled(job, key, silence, facts, told, stopping=stopping))
    code = alerts.tell(
        JOB, wrong, frozenset(unknown), now=now, notify=settings.text("NOTIFY"), fine=_with_ended(fine, told)
    )
    return shelf.BROKEN if unknown and code == shelf.FINE else code


def _stalled(job: Job, key: str, silence: float, facts: Facts, told: Mapping[str, object], *, stopping: bool) -> Alert:
    text = f"{job}: its log has not grown for {shelf.ago(silence)}"
    if key not in told:  # once: each dump stops every rank for a moment
        _print(job, stacks(job.number, facts.nodes))
    if stopping:
        text = f"{text}; {stop(job)}"
    return Alert(key, text)


def _with_ended(fine: dict[str, str], told: Mapping[str, object]) -> dict[str, str]:
    ended = {key: f"job {key.partition(' ')[0]} does not run any more" for key in told if key not in fine}
    return {**ended, **fine}


if __name__ == "__main__":
    shelf.door(main)

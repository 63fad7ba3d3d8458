"""efficiency-report: how much of what one's own jobs asked for they used, from the accounting."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import shelf
from shelf import Broken, Settings

_FIELDS = (
    *("JobID", "State", "ElapsedRaw", "TimelimitRaw", "AllocCPUS", "TotalCPU", "MaxRSS", "ReqMem", "NNodes", "NTasks"),
    "JobName",  # last: it may hold anything
)
_TIME = re.compile(r"(?:(?P<d>\d+)-)?(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+)(?:\.\d+)?")
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SHORT = 60  # seconds: shorter jobs say nothing about what they need


@dataclass(frozen=True)
class Use:
    """What one job asked for and used; None for what was not measured."""

    name: str
    state: str
    elapsed: int  # seconds
    limit: int | None  # seconds
    cpus: int
    cpu_time: float  # seconds over all CPUs
    memory: int | None  # bytes, the largest task's times the tasks
    memory_asked: int | None  # bytes on all nodes

    @property
    def cpu_percent(self) -> float | None:
        """Of the CPU time that it had."""
        return _percent(self.cpu_time, self.elapsed * self.cpus)

    @property
    def memory_percent(self) -> float | None:
        """Of the memory that it asked for."""
        return _percent(self.memory, self.memory_asked) if self.memory else None

    @property
    def time_percent(self) -> float | None:
        """Of its time limit."""
        return _percent(self.elapsed, self.limit)


def _percent(part: float, whole: float | None) -> float | None:
    return 100 * part / whole if whole else None


def seconds(text: str) -> float:
    """Of `1-02:03:04`, `02:03.456`; 0 for what is no time."""
    match = _TIME.fullmatch(text)
    if not match:
        return 0.0
    days, hours, minutes, rest = (int(match[unit] or 0) for unit in "dhms")
    return days * 86400 + hours * 3600 + minutes * 60 + rest


def memory_of(text: str) -> int:
    """Bytes of `1234K`, `4G`, `512`; 0 for what is no size."""
    match = re.fullmatch(r"([0-9.]+)([KMGT]?)", text)
    return int(float(match[1]) * _SIZES[match[2]]) if match else 0


def asked_of(text: str, nodes: int, cpus: int) -> int | None:
    """Bytes over all nodes of `4Gn` (a node), `2Gc` (a CPU) as older versions write it, or `4G` (in all)."""
    count = memory_of(text.rstrip("nc"))
    times = nodes if text.endswith("n") else cpus if text.endswith("c") else 1
    return count * times or None


def parse(text: str) -> list[Use]:
    """Of `sacct -P`: a row a job, and rows of its steps, which have the memory."""
    rows = [dict(zip(_FIELDS, line.split("|", len(_FIELDS) - 1))) for line in text.splitlines()]
    whole = [row for row in rows if len(row) == len(_FIELDS)]
    peak: dict[str, int] = {}
    for row in whole:
        job, dot, _ = row["JobID"].partition(".")
        if dot and row["MaxRSS"]:
            peak[job] = max(peak.get(job, 0), memory_of(row["MaxRSS"]) * int(row["NTasks"] or 1))
    return [_use(row, peak.get(row["JobID"])) for row in whole if "." not in row["JobID"]]


def _use(row: dict[str, str], peak: int | None) -> Use:
    cpus, nodes = int(row["AllocCPUS"] or 0), int(row["NNodes"] or 1)
    limit = row["TimelimitRaw"]
    return Use(
        name=row["JobName"],
        state=row["State"].partition(" ")[0],
        elapsed=int(row["ElapsedRaw"] or 0),
        limit=int(limit) * 60 if limit.isdecimal() else None,
        cpus=cpus,
        cpu_time=seconds(row["TotalCPU"]),
        memory=peak,
        memory_asked=asked_of(row["ReqMem"], nodes, cpus),
    )


def report(uses: Sequence[Use]) -> Iterator[str]:
    """A table, a line a name (the same script again and again), the largest consumer first; and its hints."""
    named: dict[str, list[Use]] = {}
    for use in uses:
        named.setdefault(use.name, []).append(use)
    rows = [(sum(job.elapsed * job.cpus for job in jobs) / 3600, name, jobs) for name, jobs in named.items()]
    yield f"{'JOBS':>5} {'CPU-HOURS':>9} {'CPU':>5} {'MEMORY':>6} {'TIME':>5}  NAME"
    for hours, name, jobs in sorted(rows, key=lambda row: (-row[0], row[1]))[:40]:
        cpu, memory, time = (
            _mean([getattr(job, f"{what}_percent") for job in jobs]) for what in ("cpu", "memory", "time")
        )
        yield f"{len(jobs):>5} {hours:>9.1f} {cpu:>5} {memory:>6} {time:>5}  {shelf.shown(name)}"
        yield from (f"{'':>36}{hint}" for hint in hints(jobs))


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.0f} %" if known else "-"


def hints(jobs: Sequence[Use]) -> Iterator[str]:
    """What jobs of one name could ask for instead, by the largest of them that ended well."""
    ended = [job for job in jobs if job.state == "COMPLETED" and job.elapsed >= _SHORT]
    if not ended:
        return
    if max(job.time_percent or 100 for job in ended) < 30:  # noqa: PLR2004 - a third, with room
        longest = max(job.elapsed for job in ended)
        yield f"--time={max(round(longest * 1.5 / 60), 1)} would do: a shorter limit starts sooner"
    if max(job.memory_percent or 100 for job in ended) < 40:  # noqa: PLR2004 - as above
        most = max(job.memory or 0 for job in ended)
        yield f"{shelf.size(most * 1.3)} of memory would do"
    if max(job.cpu_percent or 100 for job in ended) < 30 and any(job.cpus > 1 for job in ended):  # noqa: PLR2004
        yield "fewer CPUs would do, or it does not use those it has"


def main(settings: Settings) -> int:
    """Ask the accounting about one's own jobs, and print."""
    days = settings.number("DAYS")
    whose = [f"--uid={os.getuid()}", f"--starttime=now-{days}days"]
    answer = shelf.ask(["sacct", "-P", "-n", *whose, f"--format={','.join(_FIELDS)}"], timeout=300)
    if answer.code or "storage is disabled" in answer.err + answer.out:
        raise Broken(f"the accounting does not answer: {answer.said}")
    uses = [use for use in parse(answer.out) if use.elapsed]
    print(f"your jobs of the last {shelf.plural(days, 'day')}: {len(uses):,} that ran")
    for line in report(uses) if uses else ():
        print(line)
    return shelf.FINE


if __name__ == "__main__":
    shelf.run(main)

"""A table's jobs as files of cron.d/: named, unique, and recognised when the table is imported again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cronhpc.convert.naming import name_of
from cronhpc.convert.script import fingerprint, script
from cronhpc.convert.table import Job, Table

FOLDER = "cron.d"


@dataclass(frozen=True, slots=True)
class Imported:
    """One entry. `there` is the source of the script that holds it already: then nothing is to be written."""

    name: str
    path: str  # below the cron directory
    script: bytes
    job: Job
    mark: str
    there: str = ""

    @property
    def cron(self) -> str:
        """What its #CRON line says."""
        return self.job.schedule + (f" --timezone={self.job.timezone}" if self.job.timezone else "")


def named(table: Table, taken: Collection[str], marks: Mapping[str, str]) -> tuple[Imported, ...]:
    """The jobs of `table` with names that no entry in `taken` has.

    `marks`: the source of every script that was imported before, by its mark.
    """
    used = {name.lower() for name in taken}  # for people, and for file systems, case makes no two names
    alike: Counter[str] = Counter()
    found = []
    for job in table.jobs:
        first = fingerprint(table.source, job, 0)
        mark = fingerprint(table.source, job, alike[first])
        alike[first] += 1
        there = marks.get(mark, "")
        name = (
            there.rpartition("/")[2].removesuffix(".slurm")
            if there
            else _free(name_of(job.command, job.job_name), used)
        )
        used.add(name.lower())
        path = there or f"{FOLDER}/{name}.slurm"
        found.append(Imported(name, path, script(table.source, job, mark), job, mark, there))
    return tuple(found)


def _free(wanted: str, used: Collection[str]) -> str:
    name, number = wanted, 1
    while name.lower() in used:
        number += 1
        name = f"{wanted}-{number}"
    return name

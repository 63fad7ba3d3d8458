"""The records of `again` as the engine takes them. Imported where there are series at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Entry, Problem, Rules, Series
from cronhpc.core.pieces import Ran, crashed, job_ends, words
from cronhpc.store import series_records
from cronhpc.store.wrappers import piece

if TYPE_CHECKING:
    from pathlib import Path

    from cronhpc.script.dialect import JobVariables
    from cronhpc.store.series_records import Record


def read_series(state: Path, variables: JobVariables) -> tuple[tuple[Series, ...], list[Problem]]:
    """Every series that has a record, and records that cannot be used: each harms only itself. Raises OSError."""
    found, problems = [], []
    for known in series_records.every(state):
        try:
            found.append(series_of(state, variables, known))
        except (TypeError, ValueError, KeyError):  # a rule that is not known; no time zone of this machine
            what = f"the record of series {known.name} is of another version."
            problems.append(Problem("W340", what, "Start its script again.", "state/trains"))
    return tuple(found), problems


def series_of(state: Path, variables: JobVariables, known: Record) -> Series:
    """A record as the engine takes it: an entry without a schedule whose script is the wrapper."""
    rules = Rules(**known.rules)
    options = [*known.submitted, *(["--no-requeue"] if "--requeue" not in known.submitted else [])]
    if rules.after and known.seen:
        options.append(f"--dependency=afterany:{known.seen}")
    entry = Entry(
        known.name,
        known.script,
        str(piece(state, variables)),
        "",
        rules.timezone,
        "",
        options=tuple(options),
        arguments=(known.script, *known.arguments),
        job_name=known.job_name,
        output=False,
        chdir=known.workdir,
        comment=known.comment,
    )
    return Series(
        entry,
        words(rules),
        known.runs,
        job_ends(rules),
        known.no_next,
        bool(known.no_next) and crashed(rules, ran_of(known)),
        known.seen,
        known.at,
        known.trouble,
        rules.after,
    )


def ran_of(known: Record) -> list[Ran]:
    """How earlier pieces ended, oldest first."""
    return [Ran(*each) for each in known.ran]

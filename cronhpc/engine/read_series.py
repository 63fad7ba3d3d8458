"""The records of `again` as the engine takes them. Imported where there are series at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Entry, Problem, Series
from cronhpc.core.pieces import Ran, crashed, job_ends, words
from cronhpc.store import series_records
from cronhpc.store.wrappers import piece

if TYPE_CHECKING:
    from pathlib import Path

    from cronhpc.script.dialect import JobVariables
    from cronhpc.store.series_records import Record


def read_series(state: Path, variables: JobVariables) -> tuple[tuple[Series, ...], list[Problem]]:
    """Every series that has a record, and records that cannot be used: each harms only itself. Raises OSError."""
    series, problems = [], []
    for record in series_records.every(state):
        try:
            series.append(series_of(state, variables, record))
        except ValueError:
            what = f"the record of series {record.name} is of another version."
            problems.append(Problem("W340", what, "Start its script again.", "state/trains"))
    return tuple(series), problems


def series_of(state: Path, variables: JobVariables, record: Record) -> Series:
    """A record as the engine takes it: an entry without a schedule whose script is the wrapper.

    Raises ValueError: a rule that is not known; no time zone of this machine.
    """
    if record.unknown_rules:
        raise ValueError(record.unknown_rules)
    rules = record.rules
    options = [*record.submitted, *(["--no-requeue"] if "--requeue" not in record.submitted else [])]
    if rules.after and record.seen:
        options.append(f"--dependency=afterany:{record.seen}")
    entry = Entry(
        record.name,
        record.script,
        str(piece(state, variables)),
        "",
        rules.timezone,
        "",
        options=tuple(options),
        arguments=(record.script, *record.arguments),
        job_name=record.job_name,
        output=False,
        chdir=record.workdir,
        comment=record.comment,
    )
    return Series(
        entry,
        words(rules),
        record.runs,
        job_ends(rules),
        record.no_next,
        bool(record.no_next) and crashed(rules, ran_of(record)),
        record.seen,
        record.at,
        record.trouble,
        rules.after,
    )


def ran_of(record: Record) -> list[Ran]:
    """How earlier pieces ended, oldest first."""
    return [Ran(*each) for each in record.ran]

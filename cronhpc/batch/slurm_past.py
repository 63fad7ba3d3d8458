"""Asking Slurm how jobs ended. Read by few ticks, so imported by those only."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cronhpc.batch import slurm_endings as ends
from cronhpc.batch import slurm_text as text
from cronhpc.batch.port import Unreachable
from cronhpc.batch.site import config_values, has_accounting
from cronhpc.core.model import Accounting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cronhpc.batch.slurm import Slurm
    from cronhpc.core.model import Ending

_NO_ACCOUNTING = "accounting storage is disabled"
_BY = re.compile(r"cancelled by (\d+)")
_SLACK = 120  # seconds that the clock of the controller may be behind ours


class Past:
    """The controller's memory and accounting, through `slurm`."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm

    def endings(self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str]) -> dict[str, Ending]:
        """The controller first: sacct takes fifteen times as long, is late by seconds, and shows half of things then.

        Raises Unreachable.
        """
        self._slurm.accounting_said = Accounting()
        remembered = self._remembered(frozenset(job_ids))
        asked = ends.for_accounting(job_ids, remembered)
        accounted = self._accounted(asked, since) if asked else []
        found = ends.endings_of([*remembered, *accounted], since - _SLACK, tokens)
        alive = ends.alive(accounted, since - _SLACK, tokens) - found.keys()
        self._slurm.accounting_said = replace(self._slurm.accounting_said, alive=alive)
        return {job_id: _with_names(ending) for job_id, ending in found.items()}

    def cancelled_by(self, job_id: str, since: int) -> int | None:
        """The user id that cancelled a job; None: unknown."""
        return ends.canceller(row for row in self._accounted([job_id], since) if (row.submitted or 0) >= since - _SLACK)

    def used(self, names: Sequence[str], since: int) -> tuple[int, int] | None:
        """How many jobs of these names started since then, and what was allocated to them (CPU seconds).

        None where accounting does not tell.
        """
        if self._slurm.accounting is False:
            return None
        start = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        arguments = ["--allocations", "--noheader", "--parsable2", f"--starttime={start}", f"--name={','.join(names)}"]
        try:
            answer = self._slurm.ask("sacct", [*arguments, "--format=CPUTimeRAW"], TZ="UTC0")
            return ends.used_of(answer)
        except Unreachable as error:
            if _NO_ACCOUNTING in error.text:
                self._slurm.accounting = False
            return None

    def _remembered(self, job_ids: frozenset[str]) -> list[ends.Row]:
        """What the controller still knows (MinJobAge seconds), exit codes included."""
        arguments = ["--me", "--states=all", "--array", f"--Format={ends.exits_format()}"]
        return [row for row in ends.exits_rows(self._slurm.ask("squeue", arguments)) if row.id in job_ids]

    def _accounted(self, job_ids: Sequence[str], since: int) -> list[ends.Row]:
        """What sacct knows; nothing where there is no accounting, or where it fails (accounting_said tells)."""
        slurm = self._slurm
        if slurm.accounting is False:
            return []
        try:
            found = [row for some in text.chunks(job_ids) for row in self._sacct(some, since)]
        except Unreachable as error:
            if _NO_ACCOUNTING in error.text:
                slurm.accounting = False
            elif self._exists():
                slurm.accounting_said = Accounting(exists=True, trouble=error.text)
            return []
        slurm.accounting, slurm.accounting_said = True, Accounting(exists=True)
        return found

    def _exists(self) -> bool:
        """Whether there is accounting that this machine can ask, though it gives no answer: the controller knows."""
        slurm = self._slurm
        if slurm.accounting is None and slurm.has("sacct"):
            try:
                config = config_values(slurm.ask("scontrol", ["show", "config"]))
            except Unreachable:
                return False
            slurm.accounting = has_accounting(config)
        return slurm.accounting is True

    def _sacct(self, job_ids: Sequence[str], since: int) -> list[ends.Row]:
        """Raises Unreachable. 20.11 has no field SubmitLine: that is remembered."""
        try:
            return self._rows(job_ids, since)
        except Unreachable as error:
            if not self._slurm.submit_line or "invalid field" not in error.text.lower():
                raise
            self._slurm.submit_line = False
            return self._rows(job_ids, since)

    def _rows(self, job_ids: Sequence[str], since: int) -> list[ends.Row]:
        mark, submit_line = text.new_mark(), self._slurm.submit_line
        fields = ends.accounting_fields(submit_line=submit_line)
        arguments = accounting_arguments(job_ids, since - _SLACK, mark, fields)
        # sacct reads its window's start in the caller's zone, and takes no epoch seconds
        answer = self._slurm.ask("sacct", arguments, TZ="UTC0")
        return ends.accounting_rows(answer, mark, submit_line=submit_line)


def _with_names(ending: Ending) -> Ending:
    """Who cancelled it by name: accounting knows the number."""
    import pwd

    found = _BY.fullmatch(ending.detail)
    if not found:
        return ending
    try:
        return replace(ending, detail=f"cancelled by {pwd.getpwuid(int(found[1])).pw_name}")
    except (KeyError, OverflowError):  # nobody's on this machine
        return ending


def accounting_arguments(job_ids: Sequence[str], since: int, mark: str, fields: Sequence[str]) -> list[str]:
    """Of sacct, in UTC: jobs that were there at `since` or later, a row for each start of a requeued one."""
    start = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    flags = ("--allocations", "--duplicates", "--parsable2", f"--delimiter={mark}")
    return [*flags, f"--starttime={start}", f"--jobs={','.join(job_ids)}", f"--format={','.join(fields)}"]

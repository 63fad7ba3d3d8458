"""What `cronhpc check` asks the cluster: its partitions once; with `--online` whether sbatch takes each script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.batch.port import Submission, Unreachable
from cronhpc.cli.commands import UsageError
from cronhpc.core.model import Problem

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cronhpc.batch.port import Batch
    from cronhpc.batch.slurm import Slurm
    from cronhpc.core.model import Entry, Settings


_PATIENCE = 5.0  # seconds: without an answer the rest is said all the same


class Partitions:
    """The names of a cluster's partitions, hidden ones too. It is asked once, where a script names one."""

    def __init__(self, slurm: Slurm) -> None:
        self.slurm = slurm
        self.problems: list[Problem] = []
        self._known: frozenset[str] | None = None
        self._asked = False

    @classmethod
    def of(cls, args: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> Partitions | None:
        """Of the settings' cluster; None where there is no Slurm."""
        from cronhpc.batch import backend_name
        from cronhpc.batch.process import which
        from cronhpc.batch.slurm import Slurm

        if backend_name(args.backend or "", settings, environ) != "slurm" or not which("sinfo", environ):
            return None
        return cls(Slurm(environ, cluster=settings.cluster, query_timeout=_PATIENCE))

    def __call__(self) -> frozenset[str] | None:
        """None where nobody knows."""
        if not self._asked:
            self._asked = True
            try:
                said = self.slurm.ask("sinfo", ["--all", "--noheader", "--format=%R"])
                self._known = frozenset(said.split()) or None
            except Unreachable as error:
                what = f"the cluster gave no answer, so the names of partitions were not looked at: {error.text}."
                self.problems.append(Problem("W229", what, "Try again later."))
        return self._known


class Online:
    """One cluster; after a question without an answer it is asked no more, and `problems` says so."""

    def __init__(self, batch: Batch) -> None:
        self.slurm = _slurm(batch)
        self.problems: list[Problem] = []

    def _away(self, error: Unreachable) -> None:
        what = f"the cluster gave no answer, so nothing was asked of sbatch: {error.text}."
        self.problems.append(Problem("W229", what, "Try again later, or without --online."))

    def refusal(self, path: str, entry: Entry | None = None) -> str:
        """Why sbatch would not take the script, as the entry's run would be submitted; "" if it would, or is away."""
        if self.problems:
            return ""
        try:
            return self.slurm.refusal(_submission(path, entry), entry.command if entry and entry.command else None)
        except Unreachable as error:
            self._away(error)
            return ""

    def of_command(self, entry: Entry) -> list[Problem]:
        """A row's command has no file of its own: what sbatch says of the script that is made of it."""
        said = self.refusal("", entry)
        where, _, line = entry.source.partition(":")
        mend = "Correct its sbatch: options."
        return (
            [Problem("E228", f"{entry.name}: sbatch would refuse it: {said}.", mend, where, int(line))] if said else []
        )


def _slurm(batch: Batch) -> Slurm:
    from cronhpc.batch.slurm import Slurm

    if not isinstance(batch, Slurm):
        raise UsageError(
            "cronhpc check: --online asks sbatch, and this backend has none. Leave it out, or: --backend slurm"
        )
    return batch


def _submission(path: str, entry: Entry | None) -> Submission:
    """Without its log: sbatch would look for the folder, which a run's submission makes."""
    if entry is None:
        return Submission(path, held=False)
    return Submission(path, entry.arguments, entry.options, chdir=entry.chdir or None, held=False)

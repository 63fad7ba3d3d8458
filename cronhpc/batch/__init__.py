"""Batch systems behind one narrow port."""

from __future__ import annotations

from cronhpc.batch.process import which
from cronhpc.core.model import CronhpcError, Settings
from cronhpc.script.dialect import DIALECTS, GRID_ENGINE, LOCAL, LSF, PBS, SLURM, SYSTEMS, Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cronhpc.batch.commands import Usual
    from cronhpc.batch.port import Batch, Examinable


def present(environment: Mapping[str, str]) -> Dialect | None:
    """The batch system whose commands are on PATH, the first of several; None: there is none."""
    return next(all_present(environment), None)


def all_present(environment: Mapping[str, str]) -> Iterator[Dialect]:
    """Each batch system whose commands are on PATH."""
    return (each for each in SYSTEMS if all(which(command, environment) for command in each.commands))


def around(environment: Mapping[str, str]) -> Dialect | None:
    """The batch system of the job that this process runs in; None: there is none."""
    return next((each for each in SYSTEMS if each.job.cluster in environment), None)


def job_around(environment: Mapping[str, str]) -> str:
    """The id of the job that this process runs in, the local backend's too; "": there is none."""
    of = around(environment) or LOCAL
    return environment.get(of.job.id, "").partition(".")[0].partition("[")[0]  # PBS: 7.server, 7[2].server


def dialect_of(name: str, settings: Settings, environment: Mapping[str, str]) -> Dialect:
    """Which backend is meant: `name`, else the settings', else the batch system that is on PATH, else local.

    Raises CronhpcError for a name that is none.
    """
    chosen = name or settings.backend
    if not chosen:
        return present(environment) or LOCAL
    if chosen not in DIALECTS:
        raise CronhpcError(f"backend {chosen!r}: there is none of that name. Write one of: {', '.join(DIALECTS)}.")
    return DIALECTS[chosen]


def connect(
    name: str,
    settings: Settings,
    environment: Mapping[str, str],
    state_dir: Path,
    *,
    accounting: bool | None = None,
    submit_line: bool = True,
) -> Batch:
    """The batch system to use; nothing is asked or started yet.

    `environment` is the process's own: it is scrubbed here. `accounting`,
    `submit_line`: what these attributes of `Slurm` said last time.
    """
    dialect = dialect_of(name, settings, environment)
    usual: Usual = {
        "names": settings.environment,
        "timeout": settings.timeout,
        "query_timeout": max(1.0, settings.timeout * 2 / 3),
    }
    if dialect is SLURM:
        from cronhpc.batch.slurm import Slurm

        return Slurm(environment, cluster=settings.cluster, accounting=accounting, submit_line=submit_line, **usual)
    if dialect is GRID_ENGINE:
        from cronhpc.batch.grid_engine import GridEngine

        return GridEngine(environment, **usual)
    if dialect is PBS:
        from cronhpc.batch.pbs import Pbs

        return Pbs(state_dir / "pbs", environment, **usual)
    if dialect is LSF:
        from cronhpc.batch.lsf import Lsf

        return Lsf(environment, **usual)
    from cronhpc.batch.local import Local

    assumed = not (name or settings.backend)
    return Local(state_dir / "local", environment, names=settings.environment, assumed=assumed)


def examined(batch: Batch) -> Examinable | None:
    """The same batch system where `check` and `doctor` have questions for it; None: it has nothing to tell."""
    from cronhpc.batch.slurm import Slurm

    return batch if isinstance(batch, Slurm) else None


def examinable(name: str, settings: Settings, environment: Mapping[str, str], timeout: float) -> Examinable | None:
    """The cluster to be asked by `check` and `doctor`, `timeout` seconds a question; None on the local backend."""
    if dialect_of(name, settings, environment) is not SLURM:
        return None
    from cronhpc.batch.slurm import Slurm

    return Slurm(environment, cluster=settings.cluster, timeout=timeout, query_timeout=timeout)

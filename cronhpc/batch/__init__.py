"""Batch systems behind one narrow port."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cronhpc.batch.port import Batch, Examinable
    from cronhpc.core.model import Settings

    ScriptOptions = Callable[[bytes], Mapping[str, str]]

BACKENDS = ("slurm", "local")


def backend_name(name: str, settings: Settings, environment: Mapping[str, str]) -> str:
    """Which backend is meant: `name`, else the settings', else slurm where `sbatch` is on PATH, else local.

    Raises CronhpcError for a name that is none.
    """
    chosen = name or settings.backend
    if not chosen:
        from cronhpc.batch.process import which

        return "slurm" if which("sbatch", environment) else "local"
    if chosen not in BACKENDS:
        from cronhpc.core.model import CronhpcError

        raise CronhpcError(f"backend {chosen!r}: there is none of that name. Write slurm or local.")
    return chosen


def connect(
    name: str,
    settings: Settings,
    environment: Mapping[str, str],
    state_dir: Path,
    *,
    accounting: bool | None = None,
    submit_line: bool = True,
    script_options: ScriptOptions | None = None,
) -> Batch:
    """The batch system to use; nothing is asked or started yet.

    `environment` is the process's own: it is scrubbed here. `accounting`,
    `submit_line`: what these attributes of `Slurm` said last time.
    `script_options`: a script's bytes to its own #SBATCH options by long name; the local backend, having no sbatch,
    asks it for job name, output, error, working folder and whether the script is an array.
    """
    if backend_name(name, settings, environment) == "slurm":
        from cronhpc.batch.slurm import Slurm

        return Slurm(
            environment,
            cluster=settings.cluster,
            names=settings.environment,
            accounting=accounting,
            submit_line=submit_line,
            timeout=settings.timeout,
            query_timeout=max(1.0, settings.timeout * 2 / 3),
        )
    from cronhpc.batch.local import Local

    return Local(
        state_dir / "local",
        environment,
        names=settings.environment,
        script_options=script_options,
        assumed=not (name or settings.backend),
    )


def examinable(name: str, settings: Settings, environment: Mapping[str, str], timeout: float) -> Examinable | None:
    """The cluster to be asked by `check` and `doctor`, `timeout` seconds a question; None on the local backend."""
    if backend_name(name, settings, environment) != "slurm":
        return None
    from cronhpc.batch.slurm import Slurm

    return Slurm(environment, cluster=settings.cluster, timeout=timeout, query_timeout=timeout)

"""The probe job of `cronhpc doctor --submit`: a minute on one or two nodes, which try there what a link has to do."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cronhpc.batch.port import Batch, BatchError, Submission
from cronhpc.batch.process import elapsed
from cronhpc.cron.values import replace
from cronhpc.doctor.judge import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cronhpc.core.model import Job

NAME = "cronhpc-doctor"
_LATER = 3600  # seconds: the begin that is asked for
_LOOK = 0.5  # seconds between looks at the folder
_LISTED, _LIST_AGAIN = 75.0, 5.0  # seconds for which a job is looked for in the queue, and between two looks
_CACHED = 20.0  # seconds that answers may take to be seen here: attribute caches

# Each node's part is the same script with "node" behind it; the first one's shell then tries to submit.
_SCRIPT = """\
#!/bin/bash
# made by cronhpc doctor, and removed by it
folder=@FOLDER@ python=@PYTHON@ url=@URL@
PATH=@PATH@:${PATH:-/usr/bin:/bin}
job=$SLURM_JOB_ID node=${SLURMD_NODENAME:-$HOSTNAME} nodes=${SLURM_JOB_NUM_NODES:-1}
look() {
  said=$("$python" -m cronhpc.inside.probe "$folder" "$1" "$url" 2>&1) || printf '%s\\n' "$said" >"$folder/$1.failed"
}
if [ "${1-}" = node ]; then look "$node"; exit; fi
begun=$(date +%s)
printf '%s\\n' "$node" >"$folder/first"
if [ "$nodes" -gt 1 ]; then
  timeout 40 srun --ntasks="$nodes" --ntasks-per-node=1 bash "$folder/probe.slurm" node >/dev/null 2>&1
fi
[ -e "$folder/$node.json" ] || [ -e "$folder/$node.failed" ] || look "$node"
for name in $(compgen -e); do
  case $name in
    SLURM_CONF | SLURM_JWT) ;;
    SLURM_* | SLURMD_* | SBATCH_* | SRUN_* | SALLOC_* | SQUEUE_* | SCANCEL_* | SCONTROL_* | PMI*) unset "$name" ;;
  esac
done
export SLURM_TIME_FORMAT=%s
started=$(timeout 20 scontrol show job "$job" 2>/dev/null | grep -o ' *StartTime=[0-9]*' | tr -dc 0-9)
printf '%s %s\\n' "$begun" "${started:-}" >"$folder/clock"
options=(@OPTIONS@ --hold --time=1 --job-name=@NAME@ --output=/dev/null)
if said=$(timeout 30 sbatch --parsable "${options[@]}" --wrap=true 2>&1); then
  : >"$folder/submit"
  said=$(timeout 30 scancel "$(tail -n 1 <<<"$said" | cut -d';' -f1)" 2>&1)
  printf '%s' "$said" >"$folder/cancel"
else
  printf '%s' "${said:-sbatch gave no answer}" >"$folder/submit"
fi
: >"$folder/done"
"""


class ProbeJob:
    """One probe; use it in a `with`, which cancels the job and removes its folder."""

    def __init__(self, batch: Batch, state: Path, python: str, options: Sequence[str], url: str = "") -> None:
        self.batch = batch
        self.folder = Path(tempfile.mkdtemp(prefix="doctor-", dir=state))
        self.job_id = ""
        values = {"FOLDER": str(self.folder), "PYTHON": python, "URL": url, "PATH": batch.tools() or "/usr/bin"}
        text = _SCRIPT.replace("@OPTIONS@", shlex.join(options)).replace("@NAME@", NAME)
        for name, value in values.items():
            text = text.replace(f"@{name}@", shlex.quote(value))
        self.script = self.folder / "probe.slurm"
        self.script.write_text(text, encoding="utf-8", errors="surrogateescape")
        self.options = options

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.job_id and not self._has("done"):
            with contextlib.suppress(BatchError):  # it ends by itself within its minute
                self.batch.cancel([self.job_id])
        shutil.rmtree(self.folder, ignore_errors=True)

    def submit(self) -> None:
        """On two nodes where the site gives them, else on one. Raises BatchError."""
        job = Submission(
            str(self.script),
            options=(*self.options, "--nodes=1-2", "--time=1"),
            job_name=NAME,
            comment=NAME,
            output="/dev/null",
            chdir="/",
            held=False,
            no_requeue=True,
        )
        self.job_id = self.batch.submit(job)

    def read_back(self, now: int) -> tuple[Submission, Job | None]:
        """A held job as runs are submitted, and how the queue shows it; None: not at all. Then it is cancelled.

        Some sites cache that list for a minute. Raises BatchError.
        """
        asked = Submission(
            str(self.script),
            options=(*self.options, "--time=1"),
            job_name=f"{NAME}-held",
            comment=f"{NAME}={os.urandom(4).hex()}",
            output="/dev/null",
            chdir="/",
            begin=now + _LATER,
        )
        job_id = self.batch.submit(asked)
        try:
            until = elapsed() + _LISTED
            while (seen := self._listed(job_id)) is None and elapsed() < until:
                time.sleep(_LIST_AGAIN)
        finally:
            self.batch.cancel([job_id])
        return asked, seen

    def _listed(self, job_id: str) -> Job | None:
        return next((job for job in self.batch.queue().jobs if job.id == job_id), None)

    def wait(self, seconds: float, beside: Callable[[float], None] = time.sleep) -> bool:
        """Whether it came to its end in time; `beside` is done for some seconds again and again while it runs."""
        until = elapsed() + seconds
        while not self._has("done"):
            if elapsed() > until + (_CACHED if self._has("first") else 0):
                return False
            (beside if self._has("first") else time.sleep)(_LOOK)
        return True

    def _has(self, name: str) -> bool:
        return name in self._names()

    def _names(self) -> list[str]:
        """A stat may be a minute old on a shared disk, a listing is not."""
        return sorted(path.name for path in self.folder.iterdir())

    def nodes(self) -> Iterator[Node]:
        """What each node wrote down; the first one has also tried to submit and to cancel, and seen two clocks."""
        first = self._text("first").strip()
        for name in self._names():
            node, dot, kind = name.rpartition(".")
            if not dot or kind not in {"json", "failed"}:
                continue
            text = self._text(name)
            seen = node_of(node, _json(text)) if kind == "json" else Node(node, text.strip()[-200:] or "it failed")
            yield self._as_first(seen) if node == first else seen

    def _as_first(self, node: Node) -> Node:
        begun, _, started = self._text("clock").strip().partition(" ")
        return replace(
            node,
            clock=int(begun) - int(started) if begun.isdecimal() and started.isdecimal() else None,
            submit=" / ".join(self._text("submit").split("\n")).strip() if self._has("submit") else None,
            cancel=self._text("cancel").strip() if self._has("cancel") else None,
        )

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def node_of(name: str, seen: Mapping[str, object]) -> Node:
    """A machine on which the probe was run, from what that found."""
    known: dict[str, Any] = {field: seen[field] for field in Node.__slots__ if field in seen}
    return Node(**{"name": name, "python": "", **known})


def _json(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

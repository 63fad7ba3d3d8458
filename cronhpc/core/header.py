"""A batch script's bytes to what sbatch and cronhpc learn from them: options, the `#CRON` line, and what is wrong.

The rules of reading are sbatch's own, each tried on 22.05.8 (see tests/test_header.py). All lines are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cronhpc.core import cron_line, directives, pbs
from cronhpc.core.cron_line import CronLine
from cronhpc.core.model import Problem
from cronhpc.core.sbatch_options import Option

_GPU_GRES = frozenset({"gpu", "shard", "mps"})
_GPU_COUNTS = ("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task")


@dataclass(frozen=True, slots=True)
class Header:
    """What a script says of itself. Of options given twice the last one counts, as for sbatch."""

    options: tuple[Option, ...]
    cron: CronLine | None
    problems: tuple[Problem, ...]
    default_name: str

    def find(self, *names: str) -> Option | None:
        """The option that counts among `names` (of the first component), or None."""
        return next((o for o in reversed(self.options) if o.name in names and not o.component), None)

    def value(self, name: str) -> str | None:
        """The value that counts for option `name`, or None where it is not given."""
        option = self.find(name)
        return option.value if option else None

    @property
    def job_name(self) -> str:
        """As the queue will show it, unless the command line says otherwise."""
        name = self.value("job-name")
        return self.default_name if name is None else name

    @property
    def output(self) -> str | None:
        """The pattern for standard output, unexpanded."""
        return self.value("output")

    @property
    def error(self) -> str | None:
        """The pattern for standard error, unexpanded."""
        return self.value("error")

    @property
    def chdir(self) -> str | None:
        """The working folder."""
        return self.value("chdir")

    @property
    def partition(self) -> str | None:
        """One partition, or several with commas."""
        return self.value("partition")

    @property
    def account(self) -> str | None:
        """The account to charge."""
        return self.value("account")

    @property
    def comment(self) -> str | None:
        """The script's own comment."""
        return self.value("comment")

    @property
    def array(self) -> str | None:
        """The array's indexes as written."""
        return self.value("array")

    @property
    def begin(self) -> str | None:
        """When the job may start at the earliest, as written."""
        return self.value("begin")

    @property
    def time(self) -> str | None:
        """The time limit as written; `time_limit` reads it."""
        return self.value("time")

    @property
    def hold(self) -> bool:
        """Whether the script asks to be held."""
        return self.find("hold") is not None

    @property
    def wait(self) -> bool:
        """Whether sbatch would not return until the job ends."""
        return self.find("wait") is not None

    @property
    def requeue(self) -> bool | None:
        """What the script says about being requeued; None: nothing."""
        option = self.find("requeue", "no-requeue")
        return option.name == "requeue" if option else None

    @property
    def wants_gpu(self) -> bool:
        """Whether any component asks for a GPU or a part of one."""
        components = {o.component for o in self.options}
        return any(asks_for_gpu({o.name: o.value or "" for o in self.options if o.component == n}) for n in components)


def asks_for_gpu(options: Mapping[str, str]) -> bool:
    """Whether sbatch options (long names without dashes) ask for a GPU or a part of one."""
    if any(_asked(options.get(name, "0")) for name in _GPU_COUNTS):
        return True
    return any(_names_gpu(item) for name in ("gres", "tres-per-task") for item in options.get(name, "").split(","))


def _asked(count: str) -> bool:
    """Whether `4`, `a100:4` or `a100:2,v100:2` asks for any at all."""
    return any(part.rpartition(":")[2] not in {"", "0"} for part in count.split(","))


def _names_gpu(item: str) -> bool:
    """Whether one item of --gres (`gpu:a100:2`, `gres/gpu=1`) is a GPU."""
    parts = item.strip().lower().replace("=", ":").replace("/", ":").split(":")
    if parts[0] == "gres":
        parts = parts[1:]
    return bool(parts) and parts[0] in _GPU_GRES and parts[-1] != "0"


def read_header(data: bytes, default_name: str) -> Header:
    """What `data`, a batch script, says of itself; `default_name` is its job's name where it names none.

    Never raises: what cannot be read is a problem (E1xx of the `#CRON` line, E2xx what sbatch would refuse).
    """
    lines = tuple(directives.comment_lines(data))
    options, problems = directives.sbatch_options_of(lines)
    foreign, foreign_problems = pbs.options(data, ignore=any(o.name == "ignore-pbs" for o in options))
    cron, cron_problems = cron_line.read(lines)
    found = (*problems, *foreign_problems, *cron_problems)
    return Header((*options, *foreign), cron, tuple(sorted(found, key=lambda p: p.line)), default_name)

"""The lab for tests: a private real Slurm. Where it cannot start, tests fail; they are never skipped."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

LAB = Path(__file__).resolve().parents[2] / "deploy" / "lab" / "lab"
BATCH_VARIABLES = ("SLURM", "SBATCH", "SRUN", "SALLOC", "SQUEUE", "SCANCEL", "SACCT", "SCONTROL", "FAKETIME", "LD_PRE")
MOST_WAIT = 90  # seconds a test waits for what has to come: it costs nothing where it comes, however busy the machine
SLACK = 2  # seconds beyond a promise: the clients of a busy machine
SLOWEST = (
    "exactly_once",
    "pbs",
    "lsf",
    "grid_engine_faults",
    "grid_engine",
    "chain",
    "faults",
    "changing_site",
    "switches",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest first: those who share the files end together."""
    ranks = {f"test_{name}.py": rank for rank, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))


def lab_command(*argv: str, timeout: float = 180) -> subprocess.CompletedProcess[str]:
    """Run deploy/lab/lab; raises CalledProcessError with what it said."""
    done = subprocess.run(
        [sys.executable, str(LAB), *argv], capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode:
        pytest.fail(f"lab {' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
    return done


def clean_environment() -> dict[str, str]:
    """This process's environment without what would reach into another cluster, or a cron directory of the tester's."""
    return {
        k: v for k, v in os.environ.items() if not k.startswith(BATCH_VARIABLES) and k not in {"WORK", "CRONHPC_DIR"}
    }


@dataclasses.dataclass
class Lab:
    """A running lab. `facts` is what `lab up --json` printed."""

    root: Path
    facts: dict[str, Any]

    @property
    def conf(self) -> Path:
        """Its slurm.conf."""
        return Path(self.facts["conf"])

    @property
    def env(self) -> dict[str, str]:
        """A clean environment for its clients, its clock included."""
        return {**clean_environment(), **self.facts["env"]}

    def env_of(self, user: str | None) -> dict[str, str]:
        """The same for a user of the lab."""
        if user is None:
            return self.env
        entry = pwd.getpwnam(user)
        return {**self.env, "HOME": entry.pw_dir, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash"}

    def popen(
        self, argv: Sequence[str | os.PathLike[str]], user: str | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command in the lab, as `user`; `env` adds to the lab's environment."""
        extra: Mapping[str, str] = options.pop("env", None) or {}
        who: dict[str, Any] = {}
        if user is not None and user != getpass.getuser():
            entry = pwd.getpwnam(user)
            who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": os.getgrouplist(user, entry.pw_gid)}
        options.setdefault("cwd", pwd.getpwnam(user).pw_dir if user is not None else "/")
        return subprocess.Popen(
            [os.fspath(word) for word in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.env_of(user), **extra},
            umask=0o022,
            start_new_session=True,
            **who,
            **options,
        )

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        user: str | None = None,
        *,
        timeout: float = 120,
        input: str | None = None,  # noqa: A002 -- named as subprocess.run names it
        check: bool = True,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the lab to its end; with `check`, a non-zero exit fails the test with what it printed."""
        place = {} if cwd is None else {"cwd": cwd}
        process = self.popen(argv, user, env=env, **place)
        try:
            out, err = process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if check and process.returncode:
            words = " ".join(map(str, argv))
            pytest.fail(f"{words}: exit {process.returncode}\n{out}{err}")
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)

    def squeue(self, user: str | None = None, states: str | None = None) -> list[dict[str, str]]:
        """The queue (of all, or of one user), array tasks apart: id, name, state, reason, user, partition, comment."""
        form = "%i\x1f%j\x1f%T\x1f%r\x1f%u\x1f%P\x1f%k\x1e"  # a name may hold a line break
        argv = ["squeue", "-h", "-r", "-o", form, *(["-u", user] if user else []), *(["-t", states] if states else [])]
        keys = ("id", "name", "state", "reason", "user", "partition", "comment")
        rows = self.run(argv).stdout.split("\x1e\n")
        return [dict(zip(keys, row.split("\x1f"), strict=False)) for row in rows if row]

    def job(self, job: str | int) -> dict[str, str]:
        """What `scontrol show job` knows, as pairs."""
        text = self.run(["scontrol", "-o", "show", "job", str(job)]).stdout
        return {key: value for key, equals, value in (word.partition("=") for word in text.split()) if equals}

    def submit(self, *argv: str, user: str | None = None, **options: Any) -> str:
        """`sbatch` with these words; the job's id."""
        return self.run(["sbatch", "--parsable", *argv], user, **options).stdout.strip().partition(";")[0]

    def freeze(self) -> None:
        """Stop the controller in its tracks: clients wait for an answer that does not come."""
        self._lab("ctld", "stop")

    def thaw(self) -> None:
        """Let a frozen controller go on."""
        self._lab("ctld", "cont")

    def kill_controller(self, *, crash: bool = False) -> None:
        """End the controller: clients are refused. A `crash` also loses what it has not saved yet, up to 5 s."""
        self._lab("ctld", "kill" if crash else "end")

    def start_controller(self, *, clean: bool = False) -> None:
        """Start it again, with its queue, or `clean`: with none; returns when it answers."""
        self._lab("ctld", "start", *(["--clean-state"] if clean else []))
        self.wait_for(self._up)

    def _up(self) -> bool:
        return " is UP" in self.run(["scontrol", "ping"], check=False).stdout

    def kill_node(self, name: str) -> None:
        """End a node's slurmd and its job steps."""
        self._lab("node", "kill", name)

    def start_node(self, name: str) -> None:
        """Start a node's slurmd again; returns when the node is idle, which it becomes by itself."""
        self._lab("node", "start", name)
        self.wait_for(lambda: self.run(["sinfo", "-h", "-n", name, "-o", "%T"]).stdout.split() == ["idle"])

    def down_node(self, name: str) -> None:
        """Mark a node down, as Slurm does when it stops answering."""
        self._lab("node", "down", name)

    def resume_node(self, name: str) -> None:
        """Take a node back."""
        self._lab("node", "resume", name)

    def drain_queue(self) -> None:
        """Cancel every job, and wait until none is left."""

        def empty() -> bool:
            left = self.run(["squeue", "-h", "-o", "%F"]).stdout.split()  # of an array: its own number, not a task's
            if left:
                self.run(["scancel", *left], check=False)
            return not left

        self.wait_for(empty)

    def begin_now(self, job: str, begun: Callable[[], Any]) -> None:
        """A requeued job waits two minutes: not this one.

        Slurm puts it off for the sake of its first start, which may be ending still: begun in the same second it fails.
        It is put off only after it is pending again, and one that is asked for in each cycle never starts: so it is
        asked for while its begin lies ahead.
        """
        time.sleep(5)

        def ask() -> Any:
            begins = self.job(job).get("EligibleTime", "Unknown")
            if begins > time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 5)) and begins[0].isdigit():
                self.run(["scontrol", "update", f"jobid={job}", "StartTime=now"], check=False)
            return begun()

        self.wait_for(ask, every=0.5)

    def wait_for(self, predicate: Callable[[], Any], timeout: float = MOST_WAIT, every: float = 0.05) -> Any:
        """What `predicate` returns once it is true; fails the test after `timeout` real seconds."""
        deadline = time.monotonic() + timeout
        while True:
            value = predicate()
            if value:
                return value
            if time.monotonic() > deadline:
                name = getattr(predicate, "__doc__", None) or getattr(predicate, "__qualname__", "it")
                pytest.fail(f"waited {timeout:g} s for {name}\n{self.run(['squeue', '-r'], check=False).stdout}")
            time.sleep(every)

    def wait_for_chain(self) -> None:
        """Until a successor and a spare wait for their time, and nothing else is in the queue."""
        self.wait_for(lambda: [job["reason"] for job in self.squeue()] == ["BeginTime"] * 2)

    def wait_ended(self, *jobs: str | int, timeout: float = MOST_WAIT) -> None:
        """Wait until none of these jobs is in the queue any more (COMPLETING counts as in)."""

        def ended() -> bool:
            left = self.run(["squeue", "-h", "-o", "%A %F"]).stdout.split()  # by either number of an array's tasks
            return not {str(job) for job in jobs} & set(left)

        self.wait_for(ended, timeout)

    def _lab(self, *argv: str) -> None:
        lab_command(argv[0], "--dir", str(self.root), *argv[1:])


class MakeLab(Protocol):
    """The factory's shape: options as `lab up` names them, with underscores."""

    def __call__(self, **options: Any) -> Lab:
        """Start a lab."""


def start(**options: Any) -> Lab:
    """Start a lab; it ends with this process at the latest, however that ends."""
    root = Path(tempfile.mkdtemp(prefix="lab-"))
    root.chmod(0o755)
    facts = json.loads(
        lab_command("up", "--dir", str(root), "--json", "--until", str(os.getpid()), *words(options)).stdout
    )
    return Lab(root, facts)


def words(options: Mapping[str, Any]) -> list[str]:
    """`users=["a"], max_submit=3, conf=["X=1"], accounting=True` as `lab up` reads them."""
    argv: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if name == "conf":
            argv += [word for line in ([value] if isinstance(value, str) else value) for word in (option, line)]
        elif name == "users" and not isinstance(value, str):
            argv += [option, ",".join(value)]
        elif value is True:
            argv.append(option)
        elif value is not False and value is not None:
            argv += [option, str(value)]
    return argv


def stop(lab: Lab) -> None:
    """End a lab, and leave nothing."""
    lab_command("down", "--dir", str(lab.root))
    assert not lab.root.exists(), f"lab down left {lab.root}"


def room(seconds: float, of: int = 3600) -> None:
    """Wait for the next whole hour (minute: `of=60`) where less than `seconds` of this one are left."""
    left = of - time.time() % of
    if left < seconds:
        time.sleep(left)


@pytest.fixture(autouse=True)
def within_the_hour() -> None:
    """Links begin at whole hours, and nights and months end there: no short test meets one half-way."""
    room(60)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A plain cluster: alice and bob (when we are root), three CPU nodes of 8 CPUs, one gpu node."""
    made = start(**({"users": ["alice", "bob"]} if os.getuid() == 0 else {}))
    yield made
    stop(made)


@pytest.fixture(autouse=True)
def tidy(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing is left in the queue of the lab that tests share, also by one that has failed."""
    yield
    if "lab" in request.fixturenames:
        request.getfixturevalue("lab").drain_queue()


@pytest.fixture
def make_lab() -> Iterator[MakeLab]:
    """Special clusters: make_lab(accounting=True, speed=600, users=[…], min_job_age=5, conf=["Line=Value"])."""
    made: list[Lab] = []

    def make(**options: Any) -> Lab:
        made.append(start(**options))
        return made[-1]

    yield make
    for one in made:
        if one.root.exists():
            stop(one)


@pytest.fixture
def cluster_user_dir() -> Iterator[Callable[..., Path]]:
    """cluster_user_dir("alice"): a fresh folder of hers that every node reaches; her own folder, parents mode 755."""
    made: list[Path] = []

    def make(user: str | None = None, name: str = "work") -> Path:
        top = Path(tempfile.mkdtemp(prefix="lab-user-"))
        top.chmod(0o755)
        made.append(top)
        folder = top / name
        folder.mkdir(mode=0o755)
        if user is not None and user != getpass.getuser():
            entry = pwd.getpwnam(user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        return folder

    yield make
    for top in made:
        for _ in range(20):  # a job that is just ending may still write there
            with contextlib.suppress(OSError):
                shutil.rmtree(top)
            if not top.exists():
                break
            time.sleep(0.05)

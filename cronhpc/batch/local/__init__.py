"""The local backend: scripts as background processes of this user, and a queue on disk that outlives us."""

from __future__ import annotations

import os
import pwd
import signal
import sys
from contextlib import contextmanager, suppress

from cronhpc.batch.local import supervisor as sv
from cronhpc.batch.port import Batch, BatchError, Ends, JobFiles, Refused, Submission, Unreachable
from cronhpc.batch.process import scrub, start
from cronhpc.core.model import ENDS, Fault, Instant, Job, JobEnd, Queue, decode, log_name
from cronhpc.cron.values import by_field, dataclass, replace, set_fields
from cronhpc.script.dialect import LOCAL, SLURM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any, TypeVar

    from _typeshed import DataclassInstance

    from cronhpc.core.model.site import Site

    Kind = TypeVar("Kind", bound=DataclassInstance)


REMEMBERED = 86400  # seconds that an ended job stays in the queue
_UNHEARD = 120  # seconds in which another machine's supervisor, which looks each second, has seen any file of its job


NO_SLURM = (
    f"No Slurm here: scripts would run on THIS machine. On a cluster load Slurm's commands ({SLURM.load}); "
    "if they shall run here, write backend: local into cronhpc.yaml"
)


# --- what the files of a job hold: supervisor.py says why there are several ------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """job.json: what was submitted, paths absolute."""

    id: int
    script: str
    job_name: str
    chdir: str
    submitted: Instant
    output: str = ""
    error: str | None = None
    arguments: tuple[str, ...] = ()
    append: bool = False
    environment: Any = None  # of many variables, and read by supervisors alone
    submit_dir: str = ""
    user: str = ""
    umask: int = 0
    kill_wait: Any = 0  # seconds from TERM to KILL


@dataclass(frozen=True, slots=True)
class Plan:
    """plan.json: what may change while it waits."""

    begin: Instant | None
    held: bool
    comment: str


@dataclass(frozen=True, slots=True)
class Process:
    """supervisor.json and run.json, and of a job that was started its fate: what names a process for ever."""

    pid: int
    since: str
    boot: str
    host: str
    started: Instant | None = None

    def lives(self) -> bool | None:
        """Whether it still runs; None: it is another machine's."""
        if self.host != os.uname().nodename:
            return None
        now = sv.identity(self.pid)
        return bool(now["since"]) and now.items() <= by_field(self).items()


@dataclass(frozen=True, slots=True)
class Fate:
    """fate: what became of a job that waited, "started" or "cancelled"."""

    fate: str
    ended: Instant | None = None
    by: int | None = None  # the user id that cancelled it


@dataclass(frozen=True, slots=True)
class End:
    """end.json: how it ended."""

    state: str
    ended: Instant
    started: Instant | None = None
    reason: str = ""
    detail: str = ""
    exit_code: int | None = None
    signal: int | None = None
    by: int | None = None  # the user id that cancelled it while it waited

    @property
    def node(self) -> str:
        return "" if self.started is None else os.uname().nodename


def _read(folder: str, name: str, kind: type[Kind]) -> Kind | None:
    """A file of a job, or None where there is none. Raises Unreachable for one that is no work of ours.

    What it says is unknown then, which is not absent: nobody may take the job for gone.
    """
    try:
        value = sv.read(folder, name)
    except (OSError, ValueError, RecursionError) as error:
        raise Unreachable(f"{folder}/{name}: cannot be read: {str(error)[:80]}") from None
    if value is None:
        return None
    record, invalid = decode.read(kind, value)
    if isinstance(record, Request) and str(record.id) != folder.rpartition("/")[2]:
        invalid += ("id",)
    if isinstance(record, End) and record.state not in ENDS:
        invalid += ("state",)
    if record is None or invalid:
        what = f"{folder}/{name}: its {''.join(invalid[:1]) or 'content'} is none that cronhpc writes"
        raise Unreachable(f"{what}. When nothing of that job runs any more, remove its folder.")
    return record


# --- the backend -----------------------------------------------------------------------------------------------------


class Local(Batch):
    """The batch system kept in `folder`. Jobs get `environ`, scrubbed as for Slurm.

    `kill_wait`: seconds from TERM to KILL.
    """

    dialect = LOCAL

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        names: Sequence[str] | None = None,
        kill_wait: float = 5,
        assumed: bool = False,
    ) -> None:
        self.assumed = assumed
        self._jobs = f"{folder}/jobs"
        self._environment = scrub(environ, LOCAL, names)
        self._base = scrub(environ, LOCAL)
        self._kill_wait = kill_wait

    # --- the port --------------------------------------------------------------------------------------------------

    def queue(self) -> Queue:
        """Ended ones for a day. Waiting jobs whose supervisor is gone (reboot) get a new one."""
        ids = sorted(self._ids())
        jobs = []
        for folder in map(self._folder, ids):
            job = self._job_in(folder)
            if job and job.ended is not None and job.ended < sv.now() - REMEMBERED and job.id != str(ids[-1]):
                _remove(folder)  # but for the highest: its number must not be given again
            elif job:
                jobs.append(job)
        return Queue(tuple(jobs))

    def live_files(self) -> tuple[JobFiles, ...]:
        from glob import escape

        files = []
        for job in self.queue().jobs:
            request = _read(self._folder(job.id), "job.json", Request) if job.live else None
            if request is not None:
                names = {request.output, request.error or request.output}
                outputs = tuple(sorted(escape(os.path.join(request.chdir, name)) for name in names))
                files.append(JobFiles(job.id, request.script, request.chdir, outputs))
        return tuple(files)

    def script(self, job_id: str) -> str:
        """The copy in its folder."""
        try:
            with open(f"{self._folder(int(job_id))}/script", encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except (OSError, ValueError) as error:
            raise BatchError(f"job {job_id}: its script cannot be read: {error}") from None

    def submit(self, job: Submission) -> str:
        from cronhpc.script.header import read_header

        if self.assumed:
            raise Unreachable(NO_SLURM)
        script = read_script(job.script)
        options = {each.name: each.value for each in read_header(script, "").options}
        for option in job.options:  # as sbatch takes them: "--chdir=/x", "--hold"
            name, equals, value = option.removeprefix("--").partition("=")
            options[name] = value if equals else None
        if "array" in options:
            raise Refused(f"{job.script}: the local backend has no arrays. Loop in the script, or use Slurm.")
        plan = Plan(job.begin, job.held or "hold" in options, job.comment)
        with self._disk():
            number = self._place(self._request_of(job, options), plan, script)
        self._supervise(self._folder(number), plan)
        return str(number)

    def release(self, job_ids: Sequence[str]) -> None:
        self._replan(job_ids, held=False)

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        """Cancel jobs: waiting ones at once, running ones by TERM and, 5 s later, KILL; not waited for."""
        for folder in self._folders(job_ids):
            fate = by_field(Fate("cancelled", sv.now(), os.getuid()))
            with self._disk():
                waited = not os.path.lexists(f"{folder}/fate") and sv.write_once(folder, "fate", fate)
                if not (waited or pending_only):
                    os.close(os.open(f"{folder}/cancel", os.O_WRONLY | os.O_CREAT, 0o600))
            _wake(folder)

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        try:
            number = signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
        except KeyError:
            raise BatchError(f"{name}: there is no such signal. Write TERM, USR1 and the like.") from None
        for folder in self._folders(job_ids):
            script = _read(folder, "run.json", Process)
            if script and script.lives():
                sv.send(sv.session(script.pid), number)

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:  # noqa: ARG002 - it is one machine
        if not [each for each in self._folders([job_id]) if not os.path.lexists(f"{each}/fate")]:
            raise BatchError(f"job {job_id} is no longer pending")
        self._replan([job_id], begin=at, **({} if comment is None else {"comment": comment}))

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        self._replan(job_ids, held=True, comment=comment)

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        self._replan(job_ids, comment=comment)

    def job_ends(
        self,
        job_ids: Sequence[str],
        since: int,
        tokens: Mapping[str, str] | None = None,  # noqa: ARG002 - ids are never used again here
    ) -> Ends:
        ends: dict[str, JobEnd] = {}
        by: dict[str, int] = {}
        for folder in self._folders(job_ids):
            request, end = _read(folder, "job.json", Request), self._end(folder)
            if request and end and request.submitted >= since:
                exits = ENDS[end.state], end.exit_code, end.signal
                times = request.submitted, end.started, end.ended
                script = _read(folder, "run.json", Process)
                ends[str(request.id)] = JobEnd(*exits, *times, script.host if script else end.node, end.detail)
                with suppress(FileNotFoundError):
                    end = replace(end, by=os.stat(f"{folder}/cancel").st_uid)
                if end.by is not None:
                    by[str(request.id)] = end.by
        return Ends(ends, cancelled_by=by)

    def describe(self, job_id: str) -> Mapping[str, str]:
        for folder in self._folders([job_id]):
            if request := _read(folder, "job.json", Request):
                return {"Command": request.script, "WorkDir": request.chdir, "JobName": request.job_name}
        raise BatchError(f"there is no job {job_id} here")

    # --- beyond the port -------------------------------------------------------------------------------------------

    def site(self) -> Site:
        from cronhpc.core.model.site import Site

        return Site(cluster=os.uname().nodename, accounting=False, min_job_age=REMEMBERED)

    # --- submitting ------------------------------------------------------------------------------------------------

    def _request_of(self, job: Submission, options: Mapping[str, str | None]) -> Request:
        submit_dir = self._environment.get("HOME", "/")
        return Request(
            id=0,  # until it has its place
            script=job.script,
            arguments=job.arguments,
            job_name=job.job_name or options.get("job-name") or job.script.rpartition("/")[2],
            output=job.output or options.get("output") or LOCAL.log,
            error=job.error or options.get("error"),
            chdir=os.path.join(submit_dir, job.chdir or options.get("chdir") or submit_dir),
            append=options.get("open-mode") == "append",
            environment={**self._environment, **(job.export or {})},
            submit_dir=submit_dir,
            submitted=sv.now(),
            user=pwd.getpwuid(os.getuid()).pw_name,
            umask=_umask(),
            kill_wait=self._kill_wait,
        )

    def _place(self, request: Request, plan: Plan, script: bytes) -> int:
        """Make the job's folder under the next free number, whole or not at all: renaming onto a full one fails."""
        os.makedirs(self._jobs, mode=0o700, exist_ok=True)
        number = max(self._ids(), default=0)
        while True:
            number += 1
            fresh = f"{self._jobs}/.{os.getpid()}-{os.urandom(4).hex()}"
            os.mkdir(fresh, 0o700)
            try:
                sv.write(fresh, "job.json", by_field(numbered(request, number)))
                sv.write(fresh, "plan.json", by_field(plan))
                with open(f"{fresh}/script", "wb") as file:
                    file.write(script)
                os.rename(fresh, self._folder(number))
            except OSError:
                _remove(fresh)
                if not os.path.isdir(self._folder(number)):
                    raise
            else:
                return number

    def _supervise(self, folder: str, plan: Plan) -> None:
        """Start a supervisor for a job that is not held and waits without one. Of two, one makes the fate."""
        if not plan.held and not os.path.lexists(f"{folder}/fate"):
            supervisor = _read(folder, "supervisor.json", Process)
            if supervisor is None or not _hears(supervisor, f"{folder}/supervisor.json", plan.begin or 0):
                start([sys.executable, "-I", "-S", os.path.abspath(sv.__file__), folder], env=self._base)

    # --- looking ---------------------------------------------------------------------------------------------------

    def _ids(self) -> Iterator[int]:
        try:
            names = os.listdir(self._jobs)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unreachable(f"{self._jobs}: the local queue cannot be read: {error.strerror}") from None
        yield from (int(name) for name in names if name.isdecimal())

    def _folders(self, job_ids: Sequence[str]) -> list[str]:
        """The folders of those that are here."""
        folders = (self._folder(int(job_id)) for job_id in job_ids if job_id.isdecimal())
        return [folder for folder in folders if os.path.isdir(folder)]

    def _folder(self, number: int | str) -> str:
        return f"{self._jobs}/{number}"

    def _job_in(self, folder: str) -> Job | None:
        """One job as the queue shows it; None: it has just been forgotten."""
        plan, end = _read(folder, "plan.json", Plan), self._end(folder)
        request = _read(folder, "job.json", Request)  # the last: where it is, the others were
        if request is None or plan is None:
            return None
        reason, fault, begin, node = "", None, plan.begin, ""
        if end:
            state, reason, begin, node = end.state, end.reason, end.started, end.node
        elif os.path.lexists(f"{folder}/fate"):
            script = _read(folder, "run.json", Process)
            state = "COMPLETING" if os.path.lexists(f"{folder}/cancel") else "RUNNING"
            begin, node = (script.started, script.host) if script else (None, os.uname().nodename)
        elif plan.held:
            state, reason, fault = "PENDING", Fault.HELD_BY_USER, Fault.HELD_BY_USER
        else:
            state, reason = "PENDING", "BeginTime" if (plan.begin or 0) > sv.now() else ""
            self._supervise(folder, plan)
        return Job(
            id=str(request.id),
            state=state,
            reason=reason,
            fault=fault,
            name=request.job_name,
            comment=plan.comment,
            workdir=request.chdir,
            submitted=request.submitted,
            start=begin,
            ended=end.ended if end else None,
            nodes=node,
            exit_code=end.exit_code if end else None,
            signal=end.signal if end else None,
        )

    def _end(self, folder: str) -> End | None:
        """How a job ended, also where nobody could write it down: its supervisor was killed, or the machine went down.

        None: it has not.
        """
        end = _read(folder, "end.json", End)
        fate = None if end else _read(folder, "fate", Fate)
        if fate is None:
            return end
        if fate.fate == "cancelled":
            return End("CANCELLED", fate.ended or sv.now(), by=fate.by)
        supervisor = _read(folder, "fate", Process)
        if supervisor is None or _hears(supervisor, f"{folder}/cancel"):
            return None
        script = _read(folder, "run.json", Process)
        end = _read(folder, "end.json", End)  # it may have ended while we looked
        if end is None:
            elsewhere = supervisor.lives() is None
            state = "CANCELLED" if elsewhere else "NODE_FAIL"
            detail = f"{supervisor.host} does not answer" if elsewhere else "its supervisor died"
            end = End(state, sv.now(), script.started if script else None, detail=detail)
            with self._disk():
                if script and not elsewhere and _not_used_again(script):
                    sv.send(sv.session(script.pid), signal.SIGKILL)  # as a failed node takes its processes along
                sv.write(folder, "end.json", set_fields(end))  # to earlier versions None in `by` is damage
        return end

    # --- changing --------------------------------------------------------------------------------------------------

    def _replan(self, job_ids: Sequence[str], **changes: Any) -> None:
        """Change the plans of jobs, and let their supervisors see that."""
        for folder in self._folders(job_ids):
            plan = _read(folder, "plan.json", Plan)
            if plan is not None:
                plan = replace(plan, **changes)
                with self._disk():
                    sv.write(folder, "plan.json", by_field(plan))
                _wake(folder)
                self._supervise(folder, plan)

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """What the disk does not take has not happened: to callers it is as a controller that does not answer."""
        try:
            yield
        except OSError as error:
            raise Unreachable(f"{self._jobs}: cannot be written: {error.strerror}") from None


def _not_used_again(script: Process) -> bool:
    """Whether the session that a script's process began, if there is one, is still its own."""
    leader = sv.identity(script.pid)
    return leader["boot"] == script.boot and leader["since"] in {"", script.since}


def _hears(supervisor: Process, file: str, due: Instant = 0) -> bool:
    """Whether a supervisor may see to its job yet: another machine's, until what `file` asks is long not done."""
    alive = supervisor.lives()
    if alive is not None:
        return alive
    try:
        asked = int(os.stat(file).st_mtime)
    except FileNotFoundError:
        return True
    return sv.now() <= max(asked, due) + _UNHEARD


def _wake(folder: str) -> None:
    supervisor = _read(folder, "supervisor.json", Process)
    if supervisor and supervisor.lives():
        sv.send([supervisor.pid], signal.SIGUSR1)


def numbered(request: Request, number: int) -> Request:
    """The same with its number, also in its logs' names; what Slurm puts there for a job that is no array."""
    letters = {**dict.fromkeys("jJA", str(number)), "x": request.job_name, "u": request.user}
    letters |= {"N": os.uname().nodename, "a": "4294967294", "n": "0", "t": "0", "s": "batch"}
    output, error = log_name(request.output, letters), request.error and log_name(request.error, letters)
    return replace(request, id=number, output=output, error=error)


def _umask() -> int:
    """Ours, without changing it for a moment, which other threads would see."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        text = next((line for line in file if line.startswith("Umask:")), "Umask: 0022")
    return int(text.split()[1], 8)


def _remove(folder: str) -> None:
    """Remove a job's folder, at once: with some of its files a job that has ended would look like one that waits."""
    jobs, _, name = folder.rpartition("/")
    with suppress(OSError):  # somebody else forgets it too, or the next one will
        os.rename(folder, f"{jobs}/.{name}")
        for each in os.listdir(f"{jobs}/.{name}"):
            os.unlink(f"{jobs}/.{name}/{each}")
        os.rmdir(f"{jobs}/.{name}")


# --- what it refuses --------------------------------------------------------------------------------------------------

_LARGEST = 4 * 1024 * 1024  # bytes, as Slurm's max_script_size; the copy of each run is kept


def read_script(path: str) -> bytes:
    """The script's bytes, refused where sbatch would refuse them. Raises Refused, Unreachable."""
    from cronhpc.script.advice import word
    from cronhpc.script.header import first_lines

    try:
        with open(path, "rb") as file:
            script = file.read(_LARGEST + 1)
    except OSError as error:
        raise Unreachable(f"{path}: cannot be read: {error.strerror}") from None
    if len(script) > _LARGEST:
        raise Refused(f"{path}: job script exceeds size limit of {_LARGEST} bytes. Put its data into a file of its own")
    for wrong in first_lines(script, LOCAL, word(path)):
        raise Refused(f"{path}: {wrong.what} {wrong.fix}")
    return script

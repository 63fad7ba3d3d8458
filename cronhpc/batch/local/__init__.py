"""The local backend: scripts as background processes of this user, and a queue on disk that outlives us."""

from __future__ import annotations

import os
import pwd
import re
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cronhpc.batch.local import supervisor as sv
from cronhpc.batch.port import Batch, BatchError, Ends, JobFiles, Refused, Submission, Unreachable
from cronhpc.batch.process import scrub, start
from cronhpc.core.model import ENDS, Fault, Job, JobEnd, Queue, log_name
from cronhpc.script.dialect import LOCAL, SLURM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from cronhpc.core.model.site import Site


REMEMBERED = 86400  # seconds that an ended job stays in the queue


NO_SLURM = (
    f"No Slurm here: scripts would run on THIS machine. On a cluster load Slurm's commands ({SLURM.load}); "
    "if they shall run here, write backend: local into cronhpc.yaml"
)


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
            facts = _facts_in(self._folder(job.id), "job.json") if job.live else None
            if facts is not None:
                names = {facts["output"], facts["error"] or facts["output"]}
                outputs = tuple(sorted(escape(os.path.join(facts["chdir"], name)) for name in names))
                files.append(JobFiles(job.id, str(facts["script"]), str(facts["chdir"]), outputs))
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
        asked = {**{each.name: each.value for each in read_header(script, "").options}, **long_options(job.options)}
        if "array" in asked:
            raise Refused(f"{job.script}: the local backend has no arrays. Loop in the script, or use Slurm.")
        facts = self._facts(job, asked)
        plan = {"begin": job.begin, "held": job.held or "hold" in asked, "comment": job.comment}
        with self._disk():
            number = self._place(facts, plan, script)
        if not plan["held"]:
            self._supervise(self._folder(number))
        return str(number)

    def release(self, job_ids: Sequence[str]) -> None:
        for folder in self._folders(job_ids):
            self._replan(folder, held=False)
            if _waits_alone(folder):
                self._supervise(folder)

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        """Cancel jobs: waiting ones at once, running ones by TERM and, 5 s later, KILL; not waited for."""
        for folder in self._folders(job_ids):
            with self._disk():
                if not os.path.lexists(f"{folder}/fate") and sv.write_once(folder, "fate", {"fate": "cancelled"}):
                    sv.write(folder, "end.json", {"state": "CANCELLED", "ended": sv.now(), "by": os.getuid()})
                elif not pending_only:
                    sv.mark(folder, "cancel")
            _wake(folder)

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        try:
            number = signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
        except KeyError:
            raise BatchError(f"{name}: there is no such signal. Write TERM, USR1 and the like.") from None
        for folder in self._folders(job_ids):
            ran = _facts_in(folder, "run.json")
            if ran and sv.lives(ran):
                sv.send(sv.session(ran["pid"]), number)

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:  # noqa: ARG002 - it is one machine
        for folder in self._folders([job_id]):
            if not os.path.lexists(f"{folder}/fate"):
                self._replan(folder, begin=at, **({} if comment is None else {"comment": comment}))
                return
        raise BatchError(f"job {job_id} is no longer pending")

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        for folder in self._folders(job_ids):
            self._replan(folder, held=True, comment=comment)

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        for folder in self._folders(job_ids):
            self._replan(folder, comment=comment)

    def job_ends(
        self,
        job_ids: Sequence[str],
        since: int,
        tokens: Mapping[str, str] | None = None,  # noqa: ARG002 - ids are never used again here
    ) -> Ends:
        ends = {}
        for folder in self._folders(job_ids):
            job = self._job_in(folder)
            if job and not job.live and (job.submitted or 0) >= since:
                why = (_facts_in(folder, "end.json") or {}).get("detail", "")
                exits = ENDS[job.state], job.exit_code, job.signal
                ends[job.id] = JobEnd(*exits, job.submitted, job.start, job.ended, job.nodes, why)
        return Ends(ends)

    def describe(self, job_id: str) -> Mapping[str, str]:
        for folder in self._folders([job_id]):
            job = _facts_in(folder, "job.json")
            if job is not None:
                return {"Command": str(job["script"]), "WorkDir": str(job["chdir"]), "JobName": str(job["job_name"])}
        raise BatchError(f"there is no job {job_id} here")

    def cancelled_by(self, job_id: str, since: int) -> int | None:
        for folder in self._folders([job_id]):
            job, end = (_facts_in(folder, name) or {} for name in ("job.json", "end.json"))
            if job.get("submitted", 0) >= since:
                with suppress(FileNotFoundError):
                    return os.stat(f"{folder}/cancel").st_uid
                return end.get("by")
        return None

    # --- beyond the port -------------------------------------------------------------------------------------------

    def site(self) -> Site:
        from cronhpc.core.model.site import Site

        return Site(cluster=os.uname().nodename, accounting=False, min_job_age=REMEMBERED)

    # --- submitting ------------------------------------------------------------------------------------------------

    def _facts(self, job: Submission, asked: Mapping[str, str | None]) -> sv.Facts:
        submit_dir = self._environment.get("HOME", "/")
        chdir = job.chdir or asked.get("chdir") or submit_dir
        return {
            "script": job.script,
            "arguments": list(job.arguments),
            "job_name": job.job_name or asked.get("job-name") or job.script.rpartition("/")[2],
            "output": job.output or asked.get("output") or LOCAL.log,
            "error": job.error or asked.get("error"),
            "chdir": os.path.join(submit_dir, chdir),
            "append": asked.get("open-mode") == "append",
            "environment": {**self._environment, **(job.export or {})},
            "submit_dir": submit_dir,
            "submitted": sv.now(),
            "user": pwd.getpwuid(os.getuid()).pw_name,
            "umask": _umask(),
            "kill_wait": self._kill_wait,
        }

    def _place(self, facts: sv.Facts, plan: sv.Facts, script: bytes) -> int:
        """Make the job's folder under the next free number, whole or not at all: renaming onto a full one fails."""
        os.makedirs(self._jobs, mode=0o700, exist_ok=True)
        number = max(self._ids(), default=0)
        while True:
            number += 1
            fresh = f"{self._jobs}/.{os.getpid()}-{os.urandom(4).hex()}"
            os.mkdir(fresh, 0o700)
            sv.write(fresh, "job.json", {**facts, **log_names(facts, number), "id": number})
            sv.write(fresh, "plan.json", plan)
            with open(f"{fresh}/script", "wb") as file:
                file.write(script)
            try:
                os.rename(fresh, self._folder(number))
            except OSError:
                _remove(fresh)
                if not os.path.isdir(self._folder(number)):
                    raise
            else:
                return number

    def _supervise(self, folder: str) -> None:
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
        facts, plan = _facts_in(folder, "job.json"), _facts_in(folder, "plan.json")
        end = _facts_in(folder, "end.json") or self._unwritten_end(folder)
        if facts is None or plan is None:
            return None
        fault = None
        if end:
            state, reason, begin = end["state"], end.get("reason", ""), end.get("started")
        elif os.path.lexists(f"{folder}/fate"):
            state, reason, begin = "RUNNING", "", (_facts_in(folder, "run.json") or {}).get("started")
        else:
            state, begin, fault = "PENDING", plan["begin"], Fault.HELD_BY_USER if plan["held"] else None
            reason = fault or ("BeginTime" if (begin or 0) > sv.now() else "")
            if not plan["held"] and _waits_alone(folder):
                self._supervise(folder)
        end = end or {}
        return Job(
            id=str(facts["id"]),
            state=state,
            reason=reason,
            fault=fault,
            name=facts["job_name"],
            comment=plan["comment"],
            workdir=facts["chdir"],
            submitted=facts["submitted"],
            start=begin,
            ended=end.get("ended"),
            nodes=os.uname().nodename if state == "RUNNING" or (end and begin) else "",
            exit_code=end.get("exit_code"),
            signal=end.get("signal"),
        )

    def _unwritten_end(self, folder: str) -> sv.Facts | None:
        """The end of a job that nobody could write down: its supervisor was killed, or the machine went down."""
        fate = _facts_in(folder, "fate")
        if fate is None:
            return None
        if fate["fate"] == "cancelled":
            return {"state": "CANCELLED", "ended": sv.now()}
        if sv.lives(fate) is not False:
            return None
        ran = _facts_in(folder, "run.json")
        end = _facts_in(folder, "end.json")  # it may have ended while we looked
        if end is None:
            end = {"state": "NODE_FAIL", "ended": sv.now(), "detail": "its supervisor died"}
            end["started"] = ran["started"] if ran else None
            with self._disk():
                if ran and ran["boot"] == sv.identity(os.getpid())["boot"]:
                    sv.send(sv.session(ran["pid"]), signal.SIGKILL)  # as a failed node takes its processes along
                sv.write(folder, "end.json", end)
        return end

    # --- changing --------------------------------------------------------------------------------------------------

    def _replan(self, folder: str, **changes: object) -> None:
        plan = _facts_in(folder, "plan.json")
        if plan is not None:
            with self._disk():
                sv.write(folder, "plan.json", {**plan, **changes})
            _wake(folder)

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """What the disk does not take has not happened: to callers it is as a controller that does not answer."""
        try:
            yield
        except OSError as error:
            raise Unreachable(f"{self._jobs}: cannot be written: {error.strerror}") from None


def _wake(folder: str) -> None:
    who = _facts_in(folder, "supervisor.json")
    if who and sv.lives(who):
        sv.send([who["pid"]], signal.SIGUSR1)


def _waits_alone(folder: str) -> bool:
    """Whether a job waits with no supervisor that would start it."""
    if os.path.lexists(f"{folder}/fate"):
        return False
    who = _facts_in(folder, "supervisor.json")
    return who is None or sv.lives(who) is False


def log_names(facts: sv.Facts, number: int) -> dict[str, str | None]:
    """Where the job prints, its patterns filled in; what Slurm puts there for a job that is no array."""
    letters = {**dict.fromkeys("jJA", str(number)), "x": facts["job_name"], "u": facts["user"]}
    letters |= {"N": os.uname().nodename, "a": "4294967294", "n": "0", "t": "0", "s": "batch"}
    return {key: facts[key] and log_name(facts[key], letters) for key in ("output", "error")}


def _umask() -> int:
    """Ours, without changing it for a moment, which other threads would see."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        text = next((line for line in file if line.startswith("Umask:")), "Umask: 0022")
    return int(text.split()[1], 8)


def _remove(folder: str) -> None:
    """Remove a job's folder; it holds plain files of ours only."""
    try:
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
    except OSError:
        return  # somebody else forgets it too, or the next one will


# --- what its files say, what it refuses ------------------------------------------------------------------------------

_WHOLE, _MAYBE = (int,), (int, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "submitted", "ended", "pid", "by"), _WHOLE),
    **dict.fromkeys(("begin", "started", "exit_code", "signal"), _MAYBE),
    **dict.fromkeys(("script", "job_name", "chdir", "comment", "state", "reason", "detail", "fate"), (str,)),
    **dict.fromkeys(("since", "boot", "host"), (str,)),
    "held": (bool,),
}
_NEEDED = {
    "job.json": {"id", "script", "job_name", "chdir", "submitted"},
    "plan.json": {"begin", "held", "comment"},
    "end.json": {"state", "ended"},
    "fate": {"fate"},
    "run.json": {"pid", "since", "boot", "host", "started"},
    "supervisor.json": {"pid", "since", "boot", "host"},
}
_NO_TEXT = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # what no path or variable can hold
_LATEST = 253402128000  # 9999-12-30: a later instant has no date in every zone


def _facts_in(folder: str, name: str) -> sv.Facts | None:
    """A file of a job, or None where there is none. Raises Unreachable for one that is no work of ours.

    What it says is unknown then, which is not absent: nobody may take the job for gone.
    """
    try:
        facts = sv.read(folder, name)
    except (OSError, ValueError, RecursionError) as error:
        raise Unreachable(f"{folder}/{name}: cannot be read: {str(error)[:80]}") from None
    if facts is not None and (flaw := _flaw(facts, folder, name)):
        what = f"{folder}/{name}: its {flaw} is none that cronhpc writes"
        raise Unreachable(f"{what}. When nothing of that job runs any more, remove its folder.")
    return facts


def _flaw(facts: Any, folder: str, name: str) -> str:
    """Which part of it no program of ours would have written; "" where all is well."""
    if not isinstance(facts, dict) or not _NEEDED[name] <= facts.keys():
        return "content"
    for key, value in facts.items():
        kinds = _KINDS.get(key)
        if kinds and (type(value) not in kinds or (type(value) is int and not 0 <= value <= _LATEST)):
            return str(key)
        if isinstance(value, str) and _NO_TEXT.search(value):
            return str(key)
    if name == "end.json" and facts["state"] not in ENDS:
        return "state"
    if name == "fate" and facts["fate"] != "cancelled" and not _NEEDED["supervisor.json"] <= facts.keys():
        return "process"
    return "id" if name == "job.json" and str(facts["id"]) != folder.rpartition("/")[2] else ""


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


def long_options(options: Sequence[str]) -> dict[str, str | None]:
    """Options as sbatch takes them ("--chdir=/x", "--hold"), by name."""
    by_name: dict[str, str | None] = {}
    for option in options:
        name, equals, value = option.removeprefix("--").partition("=")
        by_name[name] = value if equals else None
    return by_name

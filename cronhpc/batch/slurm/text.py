"""What Slurm's commands are told and what their errors mean. Pure; tried on 22.05, meant for 20.11 to 26.05."""

from __future__ import annotations

import os
import re

from cronhpc.batch.commands import NO_CLUSTER, Signs, holds, in_one_line
from cronhpc.batch.port import AtSubmitLimit, BatchError, Denied, NoCluster, Refused, Submission, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpc.batch.process import Finished

# --- what is asked -------------------------------------------------------------------------------------------------


def submit_argv(job: Submission) -> list[str]:
    """The sbatch call. Ours come after the options: of two the last counts, and both beat the script's own lines."""
    ours = {
        "job-name": job.job_name,
        "comment": job.comment or None,
        "output": job.output,
        "error": job.error,
        "chdir": job.chdir,
        "begin": None if job.begin is None else f"uts{job.begin}",  # absolute, in no zone
        "export": _export(job),
    }
    flags = {"--hold": job.held, "--no-requeue": job.no_requeue}
    return [
        *("sbatch", "--parsable"),
        *job.options,
        *(flag for flag, on in flags.items() if on),
        *(f"--{name}={value}" for name, value in ours.items() if value is not None),
        "--",
        job.script,
        *job.arguments,
    ]


def _export(job: Submission) -> str | None:
    """The --export that lets the run's variables in; None where sbatch's own default, ALL, does.

    Only names: the values come from sbatch's environment, where they may hold commas and newlines.
    """
    given = [option.removeprefix("--export=") for option in job.options if option.startswith("--export=")]
    asked = given[-1] if given else job.own_export
    names = list(job.export or ())
    if asked is None or not names or "ALL" in asked.upper().split(","):
        return None
    return ",".join([*([] if asked.upper() in {"NONE", "NIL", ""} else [asked]), *names])


def update_argv(job_ids: Sequence[str], **changes: str | None) -> list[str]:
    """Change jobs: `StartTime="uts1795791600"`, `Comment=…`; None leaves a thing as it is."""
    pairs = [f"{name}={value}" for name, value in changes.items() if value is not None]
    return ["scontrol", "update", f"JobId={','.join(job_ids)}", *pairs]


def new_separator() -> str:
    """A text that no name or comment holds: two control characters around a number that nobody could know."""
    return f"\x1e{os.urandom(4).hex()}\x1f"


# --- what is answered; each pattern is compiled where it is first used, which an idle tick does not ------------------

_ID_LINE = r"(?m)^\d+(?:;[^\s;]+)?\n"
_ID = r"(?:Submitted batch job )?(\d+)(?:;[^\s;]+| on cluster \S+)?"
_NUMBER = r"(?:^|\s)(\d+)(?:;[^\s;]+| on cluster \S+)?$"

_SUBMIT_LIMIT = (
    r"(?i)(?:Assoc|QOS)\w*Submit\w*Limit|Resource temporarily unavailable"
    r"|job submit limit|too many jobs|maximum number of jobs"
)
_ASSOCIATION_LIMIT = r"\b(?:Assoc|QOS)(?!\w*Submit)\w*Limit"
_OTHER_LIMIT = rf"(?i){_ASSOCIATION_LIMIT}|\bQOS\w*Not\w*Allowed"
_PERMANENT = (
    *("invalid account", "invalid partition", "invalid qos", "invalid wckey", "invalid generic resource"),
    *("requested node configuration is not available", "can not be satisfied", "cannot be satisfied"),
    *("job dependency problem", "invalid job array", "invalid feature", "requested reservation is invalid"),
    *("invalid license", "invalid node name", "node count specification invalid", "requested time limit is invalid"),
    *("more processors requested than permitted", "parameter too long", "not permitted to use this"),
    *("burst buffer request invalid", "invalid numeric value", "invalid argument", "mutually exclusive"),
    *("unrecognized option", "unrecognized argument", "invalid option", "unknown option", "requires an argument"),
    *("doesn't allow an argument", "is ambiguous", "does not look like a batch script", "batch script is empty"),
    *("unmatched", "dos line breaks", "batch script contains", "size of script", "script exceeds"),
)
_NO_ANSWER = (
    *("socket timed out", "unable to contact", "connect failure", "connection refused", "connection timed out"),
    *("connection reset", "communication connection", "zero bytes", "unexpected message", "message receive failure"),
    *("message send failure", "transport endpoint", "standby mode", "credential", "munge", "authentication"),
    *("configuration source", "resolve", "no route to host", "in progress"),
)
# Jobs may not submit where this one runs, in Slurm's words and in those of sites' wrappers; the link has the same list.
NO_SUBMIT = (
    *("access/permission denied", "compute node", "worker node", "login node", "login host", "submit node"),
    *("submit host", "head node", "frontend", "front-end", "front end", "within a job", "inside a job", "nested job"),
)
_FULL = ("temporarily unable to accept job", "job queue full")  # the second: 26.05
_TEST_ONLY = r"(?m)^sbatch: Job \d+ to start at"
_USAGE = 255  # what sbatch exits with where it does not understand its command line


class NoJob(Unreachable):
    """The controller knows of no such job, or not any more."""


class NoAccounting(Unreachable):
    """There is none to ask."""


class NoField(Unreachable):
    """Of those asked for, one came with a later version."""


_NO_JOB = "invalid job id"
SIGNS = Signs(
    no_answer=_NO_ANSWER,
    # said about one id of several, and no reason to think that the rest was not done
    gone=(_NO_JOB, "already finished", "already complet", "no longer pending", ": no error"),
    unanswered=(
        *((NO_CLUSTER, NoCluster), (_NO_JOB, NoJob)),
        *(("accounting storage is disabled", NoAccounting), ("invalid field", NoField)),
    ),
)


def has_id(out: str) -> bool:
    """Whether sbatch has said the new job's id: then all is done, also where `--wait` makes it stay."""
    return re.search(_ID_LINE, out) is not None


class Unclear(BatchError):
    """sbatch was content, and what was printed is no single id. `numbers`: those that one of it may be."""

    def __init__(self, text: str, numbers: Sequence[str]) -> None:
        super().__init__(text)
        self.numbers = numbers


def _printed(ended: Finished) -> str:
    """The id on stdout, where nothing else is: wrappers print balances and the like, and some hide the id.

    "" where sbatch has failed. Raises Unclear.
    """
    if "submission failed: " in ended.err:
        return ""
    lines = [line.strip() for line in ended.out.splitlines() if line.strip()]
    numbers = [match[1] for line in lines if (match := re.search(_NUMBER, line))]
    ids = [match[1] for line in lines if (match := re.fullmatch(_ID, line))]
    if ids and len(lines) == 1 and not ended.cut:
        return str(ids[0])
    if numbers or (ended.code == 0 and not ended.err.strip() and not ended.timed_out):
        raise Unclear(f"what sbatch printed names no job for certain: {in_one_line('sbatch', ended)}", numbers)
    return ""


def submitted(ended: Finished) -> str:
    """The new job's id. Raises Unclear, Unreachable, Refused, AtSubmitLimit; BatchError: it may be taken tomorrow.

    The id on stdout counts, whatever the exit code and the warnings. Words that we do not know are never a no for good:
    sites add their own.
    """
    if printed := _printed(ended):
        return printed
    text = in_one_line("sbatch", ended)
    if holds(ended.err, _FULL):  # MaxJobCount: it sleeps and tries again until its time is up
        raise AtSubmitLimit("the controller takes no more jobs now (Slurm temporarily unable to accept job)")
    if re.search(_TEST_ONLY, ended.err):
        raise Refused(f"--test-only: nothing was submitted. {text}")
    failed = ended.err.rpartition("submission failed: ")[2]  # the error itself, without names that others gave
    denied = ended.code > 0 and not ended.timed_out and holds(failed.strip() or ended.out, NO_SUBMIT)
    if not denied and _is_silence(ended, failed):
        raise Unreachable(in_one_line("sbatch", ended, _NO_ANSWER))
    if re.search(_OTHER_LIMIT, ended.err):
        raise Refused(text)
    if limit := re.search(_SUBMIT_LIMIT, ended.err):
        raise AtSubmitLimit(f"the site takes no more jobs of this user ({limit[0]})")
    bad_option = re.search(r"invalid [^\n]*specification", ended.err, re.IGNORECASE)
    if ended.code == _USAGE or bad_option or holds(ended.err, _PERMANENT):
        raise Refused(text)
    if holds(ended.err, _NO_ANSWER):  # last: the name of a script or a partition may hold these words
        raise Unreachable(in_one_line("sbatch", ended, _NO_ANSWER))
    raise Denied(text) if denied else BatchError(text)


def at_limit(answer: str) -> bool:
    """Whether sbatch names a limit that was met, of submissions or of another kind."""
    return re.search(f"{_SUBMIT_LIMIT}|{_ASSOCIATION_LIMIT}", answer) is not None or holds(answer, _FULL)


def is_full(answer: str) -> bool:
    """Whether sbatch refuses for the number of this user's jobs in the queue: later it may take the same job."""
    return holds(answer, _FULL) or bool(re.search(_SUBMIT_LIMIT, answer) and not re.search(_OTHER_LIMIT, answer))


def _is_silence(ended: Finished, failed: str) -> bool:
    if ended.timed_out or ended.code <= 0 or not ended.err.strip():
        return True
    return failed != ended.err and holds(failed, _NO_ANSWER)


_TAKEN = "to start at"  # all versions: "sbatch: Job 7 to start at 2026-…"; a wrapper that swallows it says nothing


def tested(ended: Finished) -> tuple[str, ...]:
    """Why `sbatch --test-only` would refuse a job, sbatch's own word last; () where it takes it. Raises Unreachable."""
    if ended.timed_out or ended.code < 0 or (ended.code and holds(ended.err, _NO_ANSWER)):
        raise Unreachable(in_one_line("sbatch", ended))
    if ended.code == 0 and _TAKEN not in ended.printed:
        raise Unreachable("sbatch exited 0, and did not say when the job would start")
    lines = (line.strip().removeprefix("sbatch: error: ") for line in ended.err.splitlines())
    reasons = dict.fromkeys(line.removeprefix("allocation failure: ") for line in lines if line)
    return tuple(reasons or [in_one_line("sbatch", ended)]) if ended.code else ()


def of_scrontab(answer: str) -> bool:
    """Whether `scontrol show job` shows a scrontab's job: it says so on a line of its own."""
    return re.search(r"^ {3}(?:CronJob=Yes|CrontabSpec=)", answer, re.MULTILINE) is not None


_FREE = ("Command", "SubmitLine", "WorkDir", "StdErr", "StdIn", "StdOut", "JobName")
_NEXT_JOB = r"\n\n(?=JobId=\d)"


def fields(answer: str) -> dict[str, str]:
    """The fields of the first job that `scontrol show job` prints.

    Arguments (Command, SubmitLine) and comments may hold anything, empty lines and whole lines of fields too. They
    stand between Command and StdErr, the last of which is the job's own: of what is between, the first line of each
    field counts.
    """
    first = re.split(_NEXT_JOB, answer.strip(), maxsplit=1)[0]
    head, command, rest = first.partition("\n   Command=")
    middle, logs, last = rest.rpartition("\n   StdErr=")
    if not logs:
        return _of_lines(first)
    return {**_of_lines(f"{command}{middle}"), **_of_lines(head), **_of_lines(f"{logs}{last}")}


def _of_lines(text: str) -> dict[str, str]:
    """Free text stands last on its line."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        words = line.strip()
        while words:
            name, equals, rest = words.partition("=")
            if not equals:
                break
            end = len(rest) if name in _FREE or name.endswith("Comment") else len(rest.partition(" ")[0])
            values.setdefault(name, rest[:end].rstrip())
            words = rest[end:].lstrip()
    return values

"""Doctor: gather what can be known of this site, and hand it to doctor/judge, which judges it.

Nothing is changed unless that is asked for. Every question has a time-out, and after one that the controller did not
answer no other is put to it, so that even a frozen one is told of within half a minute.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cronhpc.batch import connect, dialect_of, examinable, process
from cronhpc.batch.port import Batch, BatchError, Examinable, Submission, Unreachable
from cronhpc.batch.process import elapsed, for_commands
from cronhpc.batch.slurm.text import is_full
from cronhpc.core.chain import link_options
from cronhpc.core.model import (
    CronhpcError,
    Job,
    Problem,
    Settings,
    SettingsError,
    Severity,
    StateError,
    Way,
    command,
    decode,
)
from cronhpc.core.model.site import Finding, Level
from cronhpc.cron.values import dataclass, replace
from cronhpc.doctor import judge
from cronhpc.doctor.judge import Beat, Check, Here, Node
from cronhpc.engine.init import adoptable, other_chains
from cronhpc.engine.link import scrontab_trouble
from cronhpc.engine.site import directory_id, machine_zone, open_site, others_at_work
from cronhpc.inside import probe
from cronhpc.inside.switch_file import owner
from cronhpc.script.dialect import SLURM
from cronhpc.store import disk, scheduler, trust
from cronhpc.store.files import MARKER, Paths, decoded, existing, umask
from cronhpc.store.memory import Cache
from cronhpc.store.settings import emptied, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


# --- the probe job ----------------------------------------------------------------------------------------------------

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
        self.job_id = self.batch.submit(self._job("--nodes=1-2", name=NAME, comment=NAME, held=False, no_requeue=True))

    def read_back(self, now: int) -> tuple[Submission, Job | None]:
        """A held job as runs are submitted, and how the queue shows it; None: not at all. Then it is cancelled.

        Some sites cache that list for a minute. Raises BatchError.
        """
        submission = self._job(name=f"{NAME}-held", comment=f"{NAME}={os.urandom(4).hex()}", begin=now + _LATER)
        job_id = self.batch.submit(submission)
        try:
            until = elapsed() + _LISTED
            while (listed := self._listed(job_id)) is None and elapsed() < until:
                time.sleep(_LIST_AGAIN)
        finally:
            self.batch.cancel([job_id])
        return submission, listed

    def _job(self, *more: str, name: str, **settings: Any) -> Submission:
        options = (*self.options, *more, "--time=1")
        return Submission(str(self.script), options=options, job_name=name, output="/dev/null", chdir="/", **settings)

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
            node_name, dot, kind = name.rpartition(".")
            if not dot or kind not in {"json", "failed"}:
                continue
            text = self._text(name)
            node = (
                node_of(node_name, decoded(text.encode()))
                if kind == "json"
                else Node(node_name, text.strip()[-200:] or "it failed")
            )
            yield self._as_first(node) if node_name == first else node

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


def node_of(name: str, answer: object) -> Node:
    """A machine on which the probe was run, from what that found: a value of no use was not tried."""
    values = answer if isinstance(answer, dict) else {}
    return decode.read(Node, {"python": "", **values, "name": name})[0] or Node(name, "")


# --- the look ---------------------------------------------------------------------------------------------------------

_QUESTION = 8.0  # seconds for one question: three unanswered ones end within half a minute
_LOCAL = 4.0  # for a program of this machine


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look at, and how. `root` may not be there yet; `url` as given on the command line."""

    root: Path
    environ: Mapping[str, str]
    backend: str = ""
    submit: bool = False
    timeout: float = 120.0  # seconds that the probe job may wait for its turn
    url: str = ""


def examine(asked: Asked, clock: Callable[[], int]) -> list[Finding]:
    """All findings, the worst first. Raises CronhpcError where --submit needs a cron directory, and there is none."""
    refused = _refused(asked)
    settings, of_settings = (Settings(), []) if refused else _settings(asked)  # another's are not for us to act by
    here = _here(asked, settings)
    of_batch = list(_batch(asked, settings, here, clock))
    on_nodes = any(each.topic == Check.FILES_SAFE.topic and each.level is Level.FINE for each in of_batch)
    dialect = dialect_of(asked.backend, settings, asked.environ)
    alone = dialect.runs_here and bool(settings.backend) and not asked.backend
    probes = dialect.as_sbatch or dialect.runs_here
    pings = bool(settings.alerts_ping) or any(name == "ping" for name, _, _ in settings.defaults)
    every = [
        *of_settings,
        *_directory(asked, settings, refused, on_nodes=on_nodes, probes=probes, alone=alone),
        *judge.of_machine(here, needs_network=pings and not asked.url),
        *_address(asked.url),
        *of_batch,
    ]
    return sorted(every, key=lambda each: [*Level].index(each.level))


def _refused(asked: Asked) -> Problem | None:
    """Why the directory is not to be opened. Raises SettingsError where something is to be done in it."""
    paths = Paths(asked.root)
    refused = trust.directory_refusal(paths, os.getuid()) if os.path.lexists(paths.settings) else None
    if refused is None or refused.code == "E600":  # which is said of the settings
        return None
    if asked.submit:
        raise SettingsError((refused,))
    return refused


def _settings(asked: Asked) -> tuple[Settings, list[Finding]]:
    path = asked.root / MARKER
    if not os.path.lexists(path):
        where = "is no cron directory" if asked.root.is_dir() else "is not there"
        return Settings(), [
            Check.NO_DIRECTORY(root=asked.root, why=where, fix=command("init", directory=str(asked.root)))
        ]
    empty = [emptied(path)] if path.exists() and not path.stat().st_size else []
    findings = [Check.EMPTY_SETTINGS(path=each.file, why=each.what, fix=each.fix) for each in empty]
    try:
        return read_settings(path), findings
    except SettingsError as error:
        wrong = ((f"{each.file}:{each.line}" if each.line else each.file, each) for each in error.problems)
        findings += [Check.BAD_SETTINGS(place=place, why=each.what, fix=each.fix) for place, each in wrong]
        return error.rest or Settings(), findings


def _directory(
    asked: Asked, settings: Settings, refused: Problem | None, *, on_nodes: bool, probes: bool, alone: bool
) -> Iterator[Finding]:
    paths, me = Paths(asked.root), os.getuid()
    try:
        yield from judge.of_disk(disk.look(asked.root, asked.environ), on_nodes=on_nodes, probes=probes, alone=alone)
    except OSError as error:
        yield Check.DISK_UNSEEN(root=asked.root, why=error.strerror)
        return
    if not os.path.lexists(paths.settings) or (refused is None and trust.directory_refusal(paths, me) is not None):
        return  # said of the settings already
    if refused is None:
        yield from judge.of_rooms(disk.closed(paths))
    refused = refused or trust.link_refusal(paths, settings, me)
    yield from judge.of_trust(refused, trust.way_refusal(paths, settings, me))


def _here(asked: Asked, settings: Settings) -> Here:
    mask, user = umask(), owner(os.getuid())
    return Here(
        umask=mask,
        user=user,
        group=trust.group_name(os.getegid()),
        group_is_private=bool(trust.private_group(mask)),
        python=sys.executable,
        tzdata=probe.tzdata(),
        zone=settings.timezone or machine_zone(),
        beats=tuple(_beats(asked.environ, user)),
    )


def _address(url: str) -> Iterator[Finding]:
    if url:
        why = probe.reaches(url)
        yield Check.NO_WAY_OUT(why=why) if why else Check.WAY_OUT()


# --- what could call ticks from outside ----------------------------------------------------------------------------


def _beats(environ: Mapping[str, str], user: str) -> Iterator[Beat]:
    env = for_commands(environ, SLURM)
    yield _table_listed("crontab", ["crontab", "-l"], env)
    if process.which("scrontab", env):
        yield _table_listed("scrontab", ["scrontab", "-l"], env)
    yield _timer(environ, env, user)


def _table_listed(name: str, argv: Sequence[str], env: Mapping[str, str]) -> Beat:
    """A table that can be listed, or that is said to be empty, can be written."""
    try:
        ended = process.run(argv, timeout=_LOCAL, env=env)
    except process.Missing:
        return Beat(name, usable=False, detail="not installed")
    if ended.timed_out:
        return Beat(name, usable=None, detail="no answer")
    answer = " ".join(ended.printed.split())
    if ended.code == 0 or "no crontab for" in answer:
        return Beat(name, usable=True)
    return Beat(name, usable=False, detail=answer[:100] or f"exit {ended.code}")


def _timer(environ: Mapping[str, str], env: Mapping[str, str], user: str) -> Beat:
    """A systemd user timer; without lingering it ends with the last login."""
    name = "a systemd user timer"
    runtime = {n: environ[n] for n in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS") if n in environ}
    try:
        ended = process.run(["systemctl", "--user", "show-environment"], timeout=_LOCAL, env={**env, **runtime})
    except process.Missing:
        return Beat(name, usable=False, detail="no systemd here")
    if ended.code != 0 or ended.timed_out:
        return Beat(name, usable=False, detail="no user manager runs for you")
    if os.path.exists(f"/var/lib/systemd/linger/{user}"):  # noqa: PTH110 - one stat
        return Beat(name, usable=True)
    return Beat(name, usable=False, detail="it ends with your login: loginctl enable-linger, where that is allowed")


# --- the batch system ----------------------------------------------------------------------------------------------


def _batch(asked: Asked, settings: Settings, here: Here, clock: Callable[[], int]) -> Iterator[Finding]:
    slurm = examinable(asked.backend, settings, asked.environ, _QUESTION)
    if slurm is None:
        yield from _other_system(asked, settings, here, clock)
        return
    times: list[int] = []
    try:
        qos = dict(settings.sbatch).get("qos", "")
        cluster = slurm.cluster_facts(here.user, qos, lambda: times.append(clock()))
    except BatchError as error:
        yield Check.NO_ANSWER(why=error.text.rstrip("."))
        return
    started = scheduler.started(Paths(asked.root))
    via = started.via if started is not None else None
    yield from _ticks(asked, via)
    by_daemon = via is not None and via.links and via.daemon
    yield from judge.of_cluster(cluster, settings, asked=times[0], answered=times[1], by_daemon=by_daemon)
    yield _taken(slurm, settings)
    yield from _others_at_work(asked)
    yield from _other_chains(asked, slurm)
    if asked.submit:
        yield from _nodes(asked, settings, here, clock)
    else:
        yield Check.NOT_TRIED()


def _connected(asked: Asked, settings: Settings) -> Batch:
    return connect(asked.backend, settings, asked.environ, Paths(asked.root).state)


def _other_system(asked: Asked, settings: Settings, here: Here, clock: Callable[[], int]) -> Iterator[Finding]:
    """Whether it answers; with --submit, what a held job looks like there."""
    dialect = dialect_of(asked.backend, settings, asked.environ)
    if dialect.runs_here:
        yield Check.RUNS_HERE() if settings.backend and not asked.backend else Check.NO_SLURM()
        return
    try:
        batch = _connected(asked, settings)
        batch.queue()
    except BatchError as error:
        yield Check.SILENT(title=dialect.title, why=error.text.rstrip("."))
        return
    yield Check.HEARD(title=dialect.title)
    if undoing := batch.undoing():
        yield Check.UNDONE(how=undoing)
    yield Check.NOT_EXAMINED(title=dialect.title)
    if asked.submit:
        yield from _held_job(asked, batch, here, clock)


def _ticks(asked: Asked, via: Way | None) -> Iterator[Finding]:
    """Why those who are to call the ticks call none."""
    paths = Paths(asked.root)
    if via is not None and via.in_scrontab and (cause := scrontab_trouble(paths, asked.environ)):
        yield Check.NO_TICK(why=cause)
    if via is not None and not via.runs_ahead and (why := scheduler.SiteChanges(paths, Cache(paths.state)).no_submit):
        yield Check.NODES_MAY_NOT(why=why)


def _others_at_work(asked: Asked) -> Iterator[Finding]:
    """Another scheduler of the same folder, on another cluster or hand-made; and a zone that is not the one meant."""
    try:
        site = open_site(str(asked.root), asked.backend, asked.environ)
        problems = others_at_work(site)
    except (CronhpcError, OSError):
        return  # no cron directory that can be used: said above
    for problem in problems:
        level = Level.ERROR if problem.severity is Severity.ERROR else Level.WARNING
        yield Check.SCHEDULER(level=level, why=problem.what, fix=problem.fix)


def _other_chains(asked: Asked, slurm: Examinable) -> Iterator[Finding]:
    """Of the user's other cron directories, and hand-made ones: which of them is meant is easily forgotten."""
    try:
        this_id = directory_id(Paths(asked.root))
    except (StateError, OSError):
        this_id = ""
    try:
        chains = other_chains(slurm, asked.root.resolve(), this_id)
    except BatchError as error:
        yield Check.CHAINS_UNKNOWN(why=error.text.rstrip("."))
        return
    for each in chains:
        ids = " ".join(job.shown_id for job in each.jobs)
        if each.is_hand_made:
            folder = adoptable(Path(each.place))
            cancel = f"{slurm.dialect.cancel} {ids}"
            by_hand = f"To let cronhpc do it: give it a #CRON line, in cron.d/, without its sbatch; then {cancel}"
            adopt = "To let cronhpc do it: " + command("init", directory=str(folder)) if folder else by_hand
            yield Check.CHAIN_BY_HAND(place=each.place, ids=ids, fix=adopt)
        elif not each.place:
            yield Check.CHAIN_UNKNOWN(ids=ids)
        elif Path(each.place).is_dir():
            yield Check.CHAIN_OTHER(place=each.place, ids=ids, fix=command("status", directory=each.place))
        else:
            yield Check.CHAIN_LEFT(place=each.place, ids=ids, fix=f"{slurm.dialect.cancel} {ids}")


def _taken(slurm: Examinable, settings: Settings) -> Finding:
    """Whether sbatch would take a link, asked from here; nothing is submitted."""
    job = Submission("", options=link_options(settings), job_name="cronhpc-doctor", held=False)
    try:
        refusal = " / ".join(slurm.refusal(job, "#!/bin/sh\n"))
    except Unreachable as error:
        return Check.SBATCH_UNANSWERED(why=error.text.rstrip("."))
    if not refusal:
        return Check.SBATCH_TAKES()
    return (Check.SBATCH_FULL if is_full(refusal) else Check.SBATCH_REFUSES)(why=refusal)


def _nodes(asked: Asked, settings: Settings, here: Here, clock: Callable[[], int]) -> Iterator[Finding]:
    """The probe job, on one or two nodes."""
    state = existing(str(asked.root), asked.environ).state
    batch = _connected(asked, settings)
    with ProbeJob(batch, state, here.python, link_options(settings), asked.url) as job:
        this = probe.Racer(str(job.folder), "here")  # this machine races with the nodes while they look
        this.look(0)
        try:
            job.submit()
        except BatchError as error:
            check = Check.PROBE_UNKNOWN if isinstance(error, Unreachable) else Check.PROBE_REFUSED
            yield check(why=error.text.rstrip("."))
            return
        yield from _options(job, clock())
        ended = job.wait(asked.timeout, this.race)
        nodes = list(job.nodes())
    if not ended and not nodes:
        yield Check.PROBE_WAITS(job=job.job_id, seconds=asked.timeout)
        return
    yield from judge.of_nodes(nodes, here)
    if any(node.disk == "" for node in nodes):
        yield from judge.of_files([node_of("this machine", this.report()), *nodes])


def _held_job(asked: Asked, batch: Batch, here: Here, clock: Callable[[], int]) -> Iterator[Finding]:
    """What a held job looks like on a system of which no more is examined, and what was learnt of that system."""
    with ProbeJob(batch, existing(str(asked.root), asked.environ).state, here.python, ()) as job:
        yield from _options(job, clock())
    try:
        site = batch.site()
    except BatchError as error:
        yield Check.OPTIONS_UNREAD(why=error.text.rstrip("."))
        return
    if site.version:
        yield Check.LEARNT(title=batch.dialect.title, version=site.version)


def _options(job: ProbeJob, now: int) -> Iterator[Finding]:
    """What this site changes of a submission."""
    try:
        submission, listed = job.read_back(now)
    except BatchError as error:
        yield Check.OPTIONS_UNREAD(why=error.text.rstrip("."))
        return
    yield from judge.of_submission(
        listed, name=submission.job_name or "", comment=submission.comment, begin=submission.begin or 0
    )


# --- putting what was found ----------------------------------------------------------------------------------------


def wanted(of_site: Iterable[Finding]) -> dict[str, str]:
    """The settings that would fix what was found; of two for one key the worse finding's."""
    values: dict[str, str] = {}
    for each in of_site:
        for key, value in each.settings:
            values.setdefault(key, value)
    return values

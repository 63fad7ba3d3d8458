"""Doctor: gather what can be known of this site, and hand it to core/findings and core/diagnosis, which judge it.

Nothing is changed unless that is asked for. Every question has a time-out, and after one that the controller did not
answer no other is put to it, so that even a frozen one is told of within half a minute.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cronhpc.batch import process
from cronhpc.batch.port import BatchError, Submission, Unreachable
from cronhpc.batch.process import for_commands
from cronhpc.core import diagnosis, findings
from cronhpc.core.diagnosis import Beat, Here, Node
from cronhpc.core.model import CronhpcError, Settings, SettingsError, command
from cronhpc.core.model.site import LEVELS, Finding
from cronhpc.inside import probe
from cronhpc.store import disk, rooms, scheduler
from cronhpc.store.paths import MARKER, Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cronhpc.batch.port import Batch, Examinable
    from cronhpc.batch.probe_job import ProbeJob
    from cronhpc.core.model import Problem

_QUESTION = 8.0  # seconds for one question: three unanswered ones end within half a minute
_LOCAL = 4.0  # for a program of this machine


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look at, and how. `root` may not be there yet; `url` as given on the command line."""

    root: Path
    environ: Mapping[str, str]
    backend: str = ""
    submit: bool = False
    patience: float = 120.0  # seconds that the probe job may wait for its turn
    url: str = ""


def examine(asked: Asked, clock: Callable[[], int]) -> list[Finding]:
    """All findings, the worst first. Raises CronhpcError where --submit needs a cron directory, and there is none."""
    refused = _refused(asked)
    settings, found = (Settings(), []) if refused else _settings(asked)  # another's are not for us to act by
    here = _here(asked, settings)
    told = list(_batch(asked, settings, here, clock))
    seen = any(each.topic == "files" and each.level == "fine" for each in told)
    found += _directory(asked, settings, refused, seen=seen)
    pings = bool(settings.alerts_ping) or any(name == "ping" for name, _, _ in settings.defaults)
    found += diagnosis.of_machine(here, needs_network=pings and not asked.url)
    if asked.url:
        found.append(_url(asked.url))
    found += told
    return sorted(found, key=lambda each: LEVELS.index(each.level))


def _refused(asked: Asked) -> Problem | None:
    """Why the directory is not to be opened. Raises SettingsError where something is to be done in it."""
    paths = Paths(asked.root)
    refused = rooms.refusal(paths, os.getuid()) if os.path.lexists(paths.settings) else None
    if refused is None or refused.code == "E600":  # which is said of the settings
        return None
    if asked.submit:
        raise SettingsError((refused,))
    return refused


def _settings(asked: Asked) -> tuple[Settings, list[Finding]]:
    from cronhpc.store.settings import emptied, read_settings

    found: list[Finding] = []
    if not os.path.lexists(asked.root / MARKER):
        where = "is no cron directory" if asked.root.is_dir() else "is not there"
        make = command("init", directory=str(asked.root))
        return Settings(), [Finding("advice", "directory", f"{asked.root} {where} yet.", make)]
    if (asked.root / MARKER).exists() and not (asked.root / MARKER).stat().st_size:
        each = emptied(asked.root / MARKER)
        found.append(Finding("warning", "settings", f"{each.file} {each.what}", each.fix))
    try:
        return read_settings(asked.root / MARKER), found
    except SettingsError as error:
        found += [
            Finding("error", "settings", f"{each.file}{f':{each.line}' if each.line else ''}: {each.what}", each.fix)
            for each in error.problems
        ]
        return error.rest or Settings(), found


def _directory(asked: Asked, settings: Settings, refused: Problem | None, *, seen: bool) -> Iterator[Finding]:
    paths, me = Paths(asked.root), os.getuid()
    try:
        yield from diagnosis.of_disk(disk.look(asked.root, asked.environ), seen=seen)
    except OSError as error:
        yield Finding("error", "disk", f"{asked.root} cannot be looked at: {error.strerror}.", "Is it mounted?")
        return
    if not os.path.lexists(paths.settings) or (refused is None and rooms.refusal(paths, me) is not None):
        return  # said of the settings already
    if refused is None:
        yield from diagnosis.of_rooms(disk.closed((paths.root, paths.state, paths.scheduler, paths.log)))
    refused = refused or rooms.link_refusal(paths, settings, me)
    yield from diagnosis.of_trust(refused, rooms.way_refusal(paths, settings, me))


def _here(asked: Asked, settings: Settings) -> Here:
    from cronhpc.inside.switch_file import owner
    from cronhpc.site import machine_zone

    mask = os.umask(0o077)
    os.umask(mask)
    user = owner(os.getuid())
    group, private = _group(user)
    return Here(
        umask=mask,
        user=user,
        group=group,
        group_is_private=private,
        python=sys.executable,
        tzdata=probe.tzdata(),
        zone=settings.timezone or machine_zone(),
        beats=tuple(_beats(asked.environ, user)),
    )


def _group(user: str) -> tuple[str, bool]:
    """The primary group, and whether the user is alone in it, as far as its own entry tells."""
    import grp

    try:
        entry = grp.getgrgid(os.getgid())
    except KeyError:
        return str(os.getgid()), False
    return entry.gr_name, entry.gr_name == user and set(entry.gr_mem) <= {user}


def _url(url: str) -> Finding:
    said = probe.reaches(url)
    if said:
        return Finding("warning", "network", f"the address given cannot be reached from here: {said}.", "")
    return Finding("fine", "network", "the address given can be reached from here.")


# --- what could call ticks from outside ----------------------------------------------------------------------------


def _beats(environ: Mapping[str, str], user: str) -> Iterator[Beat]:
    env = for_commands(environ)
    yield _asked("crontab", ["crontab", "-l"], env, none="no crontab for")
    if process.which("scrontab", env):
        yield _asked("scrontab", ["scrontab", "-l"], env, none="no crontab for")
    yield _timer(environ, env, user)


def _asked(name: str, argv: Sequence[str], env: Mapping[str, str], none: str) -> Beat:
    """A table that can be listed, or that is said to be empty, can be written."""
    try:
        ended = process.run(argv, timeout=_LOCAL, env=env)
    except process.Missing:
        return Beat(name, usable=False, detail="not installed")
    if ended.timed_out:
        return Beat(name, usable=None, detail="no answer")
    said = " ".join(ended.said.split())
    if ended.code == 0 or none in said:
        return Beat(name, usable=True)
    return Beat(name, usable=False, detail=said[:100] or f"exit {ended.code}")


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
    from cronhpc.batch import examinable

    slurm = examinable(asked.backend, settings, asked.environ, _QUESTION)
    if slurm is None:
        what = "no sbatch on PATH, or backend: local is set: runs are processes of this machine."
        yield Finding(
            "advice", "slurm", what, "On a cluster load Slurm's commands (module load slurm), then ask again."
        )
        return
    times: list[int] = []
    try:
        qos = dict(settings.sbatch).get("qos", "")
        cluster = slurm.cluster_facts(here.user, qos, lambda: times.append(clock()))
    except BatchError as error:
        what = f"Slurm gives no answer: {error.text}."
        yield Finding("error", "slurm", what, "Ask again later; a chain that runs outlives this.")
        return
    via = (scheduler.started(Paths(asked.root)) or {}).get("via")
    yield from _ticks(asked, via)
    resident = via == "daemon"
    yield from findings.of_cluster(cluster, settings, asked=times[0], answered=times[1], resident=resident)
    yield from _taken(slurm, settings)
    yield from _others_at_work(asked)
    if asked.submit:
        yield from _nodes(asked, settings, here, clock)
    else:
        what = "whether compute nodes may submit jobs, and have cronhpc and this folder, was not tried."
        yield Finding(
            "unknown",
            "submit",
            what,
            command("doctor", options=("--submit",)) + " runs a job of a minute that tries it.",
        )


def _ticks(asked: Asked, via: str | None) -> Iterator[Finding]:
    """Why those who are to call the ticks call none."""
    from cronhpc.by_scrontab import trouble

    paths = Paths(asked.root)
    if via == "scrontab" and (said := trouble(paths, asked.environ)):
        yield Finding("error", "ticks", f"no tick comes: {said}.", "Put it back: " + command("start"))
    if via not in {None, "login"} and (said := scheduler.SiteChanges(paths).no_submit):
        fix = "Let a login node submit a day's runs ahead: " + command("start", options=("--via", "login"))
        yield Finding("error", "submit", f"jobs may not submit here ({said}).", fix)


def _others_at_work(asked: Asked) -> Iterator[Finding]:
    """Another scheduler of the same folder, on another cluster or hand-made; and a zone that is not the one meant."""
    from cronhpc.hand_made import hand_made_problem
    from cronhpc.site import of_other_cluster, of_other_zone, open_site

    try:
        site = open_site(str(asked.root), asked.backend, asked.environ)
        problems = [look(site) for look in (of_other_cluster, of_other_zone, hand_made_problem)]
    except (CronhpcError, OSError):
        return  # no cron directory that can be used: said above
    for problem in problems:
        if problem is not None:
            level = "error" if problem.severity == "error" else "warning"
            yield Finding(level, "scheduler", problem.what, problem.fix)


def _taken(slurm: Examinable, settings: Settings) -> Iterator[Finding]:
    """Whether sbatch would take a link, asked from here; nothing is submitted."""
    from cronhpc.store.scheduler import link_options

    job = Submission("", options=link_options(settings), job_name="cronhpc-doctor", held=False)
    try:
        said = slurm.refusal(job, "#!/bin/sh\n")
    except Unreachable as error:
        yield Finding("unknown", "sbatch", f"sbatch --test-only gave no answer: {error.text}.", "Ask again later.")
        return
    if said:
        yield Finding(
            "error", "sbatch", f"sbatch would not take the scheduler's job: {said}.", "See sbatch: in cronhpc.yaml."
        )
    else:
        yield Finding("fine", "sbatch", "sbatch would take the scheduler's job from here.")


def _nodes(asked: Asked, settings: Settings, here: Here, clock: Callable[[], int]) -> Iterator[Finding]:
    """The probe job, on one or two nodes."""
    from cronhpc.batch import connect
    from cronhpc.batch.probe_job import ProbeJob
    from cronhpc.store.paths import existing
    from cronhpc.store.scheduler import link_options

    paths = existing(str(asked.root), asked.environ)
    batch: Batch = connect(asked.backend, settings, asked.environ, paths.state)
    with ProbeJob(batch, paths.state, here.python, link_options(settings), asked.url) as job:
        this = _This(str(job.folder))
        try:
            job.submit()
        except BatchError as error:
            yield Finding(
                "error", "submit", f"the probe job was not taken: {error.text}.", "See sbatch: in cronhpc.yaml."
            )
            return
        yield from _options(job, clock())
        ended = job.wait(asked.patience, this.race)
        nodes = [_node(row) for row in job.rows()]
    if not ended and not nodes:
        what = f"the probe job {job.job_id} did not start within {asked.patience:.0f} s, and was cancelled."
        yield Finding(
            "unknown", "submit", what, "Give it longer: " + command("doctor", options=("--submit", "--wait", "1h"))
        )
        return
    yield from diagnosis.of_nodes(nodes, here)
    if any(node.disk == "" for node in nodes):
        yield from diagnosis.of_files([_node({"name": "this machine", **this.found()}), *nodes])


class _This:
    """This machine, which races with the nodes while they look."""

    def __init__(self, folder: str) -> None:
        self.disk = str(probe.look(folder, "here", 0)["disk"])
        self.racer = probe.Racer(folder, "here")

    def race(self, seconds: float) -> None:
        try:
            self.racer.race(seconds)
        except OSError as error:
            self.disk = self.disk or f"{error.strerror} ({Path(error.filename or '').name})"

    def found(self) -> dict[str, object]:
        return {"disk": self.disk, **self.racer.found()}


def _options(job: ProbeJob, now: int) -> Iterator[Finding]:
    """What this site changes of a submission."""
    try:
        given, seen = job.read_back(now)
    except BatchError as error:
        yield Finding(
            "unknown", "options", f"what a submission looks like here is not known: {error.text}.", "Ask again."
        )
        return
    yield from diagnosis.of_submission(seen, name=given.job_name or "", comment=given.comment, begin=given.begin or 0)


def _node(row: Mapping[str, Any]) -> Node:
    known = {name: row[name] for name in Node.__slots__ if name in row}
    return Node(**{"python": "", **known})


# --- putting what was found ----------------------------------------------------------------------------------------


def wanted(found: Iterable[Finding]) -> dict[str, str]:
    """The settings that would fix what was found; of two for one key the worse finding's."""
    values: dict[str, str] = {}
    for each in found:
        for key, value in each.settings:
            values.setdefault(key, value)
    return values


def put(root: Path, values: Mapping[str, str]) -> None:
    """Write settings into cronhpc.yaml; all else in it stays. Raises EditError, SettingsError, OSError."""
    from cronhpc.store.settings_text import edited, write_settings

    path = root / MARKER
    text = path.read_text(encoding="utf-8")
    write_settings(path, edited(text, values))

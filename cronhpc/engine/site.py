"""One cron directory as one process works on it: where, whose, with which settings, on which batch system."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from cronhpc.batch import connect, present
from cronhpc.batch.port import Batch, BatchError
from cronhpc.batch.process import USUAL_PATH, scrub, which
from cronhpc.core.model import CLOCKS_APART, Problem, Settings, SettingsError, Started, StateError, command
from cronhpc.cron.values import dataclass, field, replace
from cronhpc.inside.switch_file import owner
from cronhpc.script.dialect import KEPT
from cronhpc.store import trust
from cronhpc.store.damage import environment
from cronhpc.store.entries import fingerprint
from cronhpc.store.files import DiskClock, Paths, clock_of, disk_clock, existing, must_be_no_copy, read_bytes
from cronhpc.store.memory import Cache, settings_from_json, settings_to_json
from cronhpc.store.scheduler import SiteChanges, batch_system_found, expected, hand_made_mark, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Site:
    """One cron directory as one process works on it."""

    paths: Paths
    settings: Settings
    batch: Batch
    environment: Mapping[str, str]  # what commands and runs get: scrubbed
    host: str
    user: str
    uid: int
    timezone: str  # IANA key: the settings', else the machine's
    cache: Cache
    problems: tuple[Problem, ...] = ()  # rows of the settings that cannot be used
    disk_clock: DiskClock = field(default_factory=DiskClock)  # of no device: not looked at
    clock_verified: bool = False  # the batch system has said what time it is, whatever this machine's clock says

    @property
    def changes(self) -> SiteChanges:
        """What the batch system here makes of submissions."""
        return SiteChanges(self.paths, self.cache)


def open_site(dir_option: str | None, backend: str | None, environ: Mapping[str, str], *, anew: bool = False) -> Site:
    """`anew`: for a `start` by hand, whose environment takes the place of the saved one, where it leads to sbatch.

    Raises DirectoryError, SettingsError, BatchError (the backend asked for is not here), StateError, OSError.
    """
    paths = existing(dir_option, environ)
    must_be_safe(paths)
    must_be_no_copy(paths)
    _must_be_there(paths)
    cache = Cache(paths.state)
    stamp = os.stat(paths.settings)  # noqa: PTH116 - one stat, before it is read: an edit from then on is another print
    seen, cached = _lasting_print(stamp), _cached_settings(stamp, cache)
    if cached is None:
        cache.forget()  # whatever was read with other settings
    settings, problems = (cached, ()) if cached is not None else _read_settings(paths)
    if not stamp.st_size:
        from cronhpc.store.settings import emptied

        problems = (*problems, emptied(paths.settings))
    saved = dict(environ)
    with suppress(OSError):  # what `start` was called in
        saved = environment(paths.state / "environment.json")[0] or saved
    if anew and present(environ):
        saved = {**{name: saved[name] for name in KEPT if name in saved}, **environ}
    saved = {**saved, **{n: environ[n] for n in KEPT if n in environ}}
    saved = _with_commands(saved, environ)
    # what a tick has once found, for ever: crontab's PATH must not make runs local ones
    backend = backend or settings.backend or ("" if present(saved) else batch_system_found(paths))
    site = site_here(paths, settings, backend, saved, cache)
    if cache.get("zone", site.timezone) != site.timezone:
        cache.forget()
    if not problems and (cache.get("zone") != site.timezone or not cache.get("settings")):
        cache.keep("zone", site.timezone)
        cache.keep("settings", [seen, settings_to_json(settings)])
    return replace(site, problems=problems)


def site_here(paths: Paths, settings: Settings, backend: str, environ: Mapping[str, str], cache: Cache) -> Site:
    """As this process works on it. `environ`: what commands and runs get, before it is scrubbed. Raises BatchError."""
    noted = cache.get("accounting")  # whether there is any; what asking taught an earlier tick
    learnt = {"accounting": noted[0], "submit_line": all(noted[2:])} if noted else {}
    batch = connect(backend, settings, environ, paths.state, **learnt)
    uid, zone = os.getuid(), settings.timezone or machine_zone()
    environment = scrub(environ, batch.dialect, settings.environment)
    return Site(paths, settings, batch, environment, os.uname().nodename, owner(uid), uid, zone, cache)


def _with_commands(saved: dict[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Should the saved PATH not lead to the batch system's commands any more, the caller's does."""
    here = None if present(saved) else present(environ)
    program = which(here.commands[0], environ) if here else None
    return {**saved, "PATH": f"{saved.get('PATH', USUAL_PATH)}:{program.rpartition('/')[0]}"} if program else saved


def elsewhere(root: Path, here: str, there: str) -> Problem:
    """The scheduler of this directory runs on another cluster, which has the same files."""
    what = f"this is cluster {here}, and the scheduler of {root} runs on {there}, whose jobs nobody sees here."
    fix = f"Use a directory of its own here; or first, on {there}: " + command("stop")
    return Problem("E363", what, fix)


def of_other_cluster(site: Site, how: Started | None = None) -> Problem | None:
    """Why nothing is to be done from here, where another cluster's `start` has been; asked once on a machine.

    `how`: what that `start` wrote down, where `stop` may have come since.
    """
    if site.batch.dialect.runs_here or not (cluster := (how or started(site.paths) or Started()).cluster):
        return None
    key = f"{site.host} {site.environment.get(site.batch.dialect.kept[0], '')}"
    names = site.cache.get("clusters", {})
    if key not in names:
        try:
            names = {**names, key: site.batch.cluster_name()}
        except BatchError:
            return None  # unknown: said where it is needed
        site.cache.keep("clusters", names)
    return elsewhere(site.paths.root, names[key], cluster) if names[key] not in {cluster, ""} else None


def of_other_zone(site: Site) -> Problem | None:
    """Where no setting names the zone, machines with zones of their own see other slots."""
    if site.settings.timezone or (noted := (started(site.paths) or Started()).zone) in {"", site.timezone}:
        return None
    what = f"{site.host} is in the time zone {site.timezone}, and the scheduler was started in {noted}: slots shift."
    return Problem("W364", what, f"Write into cronhpc.yaml: timezone: {noted}", "cronhpc.yaml")


def others_at_work(site: Site, *, is_link: bool = False) -> list[Problem]:
    """Another scheduler at work on this folder: of another cluster, hand-made; and a zone that is not the one meant.

    `is_link`: asked in a scheduler's job, which is on the cluster that it was submitted on.
    """
    problems = [None if is_link else of_other_cluster(site), of_other_zone(site)]
    if os.path.lexists(hand_made_mark(site.paths)):
        from cronhpc.engine.init import hand_made_problem

        with suppress(BatchError, OSError):  # no answer: looked at again
            problems.append(hand_made_problem(site.batch, site.paths))
    return [problem for problem in problems if problem is not None]


def _lasting_print(status: os.stat_result) -> list[int]:
    """None where an edit in this very second could have the same: the disk tells whole seconds."""
    whole = not status.st_mtime_ns % 10**9
    young = whole and abs(time.time() - status.st_mtime) < _YOUNG  # noqa: TID251 - nothing is decided by it
    return [] if young else fingerprint(status)


_YOUNG = 3  # seconds


def _cached_settings(status: os.stat_result, cache: Cache) -> Settings | None:
    """None where the file has changed since, or another version of cronhpc kept them: then it is parsed anew."""
    cached = cache.get("settings")
    try:
        if cached and cached[0] == fingerprint(status):
            return settings_from_json(cached[1])
    except ValueError:
        pass
    return None


def _read_settings(paths: Paths) -> tuple[Settings, tuple[Problem, ...]]:
    """Wrong rows under `entries:` and `defaults:` harm only themselves, and are not cached: each look names them."""
    from cronhpc.core.policy import parse_policies
    from cronhpc.store.settings import read_settings

    problems: tuple[Problem, ...] = ()
    try:
        settings = read_settings(paths.settings)
    except SettingsError as error:
        if error.rest is None:
            raise
        settings, problems = error.rest, error.problems
    _, wrong = parse_policies(settings.defaults)
    return settings, (*problems, *(replace(each, file="cronhpc.yaml") for each in wrong))


def _must_be_there(paths: Paths) -> None:
    """By one stat. Raises StateError, OSError where it cannot be looked at: what is shut is not gone."""
    try:
        status = os.stat(paths.claims)  # noqa: PTH116 - beside the other stat calls
    except FileNotFoundError:
        make = command("init", directory=str(paths.root))
        raise StateError(f"{paths.claims} is missing: state/ was removed. Make it again: " + make) from None
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(paths.claims))


def must_be_safe(paths: Paths) -> None:
    """Others cannot have written the settings, or what lies in state/. Raises SettingsError."""
    refused = trust.directory_refusal(paths, os.getuid())
    if refused is not None:
        raise SettingsError((refused if refused.file == "state" else replace(refused, file="cronhpc.yaml"),))


def directory_id(paths: Paths) -> str:
    """What marks this cron directory's jobs. Raises StateError where `init` has not been here."""
    for path in (paths.state / "id", paths.scheduler / "id"):  # kept twice: a lost one would orphan what is queued
        data = read_bytes(path)
        if data and data.endswith(b"\n") and data.strip().isalnum():  # one cut off would be another directory's
            return data.strip().decode("ascii")
    raise StateError(f"{paths.state / 'id'} is missing. Make it with: " + command("init", directory=str(paths.root)))


def machine_zone() -> str:
    """As `machine_zone_key`; UTC where none tells."""
    return machine_zone_key() or "UTC"


def machine_zone_key() -> str:
    """The machine's time zone as an IANA key: /etc/localtime's name, /etc/timezone; "" where none tells.

    A shell's $TZ is its user's view of times: it must not move slots, which another shell would see elsewhere.
    """
    from cronhpc.cron.zones import is_zone

    candidates = [os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]]
    try:
        candidates.append(Path("/etc/timezone").read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        candidates.append("")
    for key in candidates:
        if not key.startswith(("posix/", "right/")) and is_zone(key):
            return key
    return ""


# --- whose clock a tick goes by ---------------------------------------------------------------------------------------
#
# Its node's, but where that is far off the batch system's. One that is ahead would use up slots that have not come, and
# hours ahead it would take the chain there with it. So Slurm is asked where a tick's clock does not fit what the last
# one has noted, or a link began at another minute by Slurm than by its node; otherwise nothing is.
#
# Where there is no Slurm, a clock that has jumped by years is held against the file system's: that of a file server is
# another machine's. A disk of this machine's own has the same clock: there nothing tells the jump from a long silence.


_MINUTE, _YEAR = 60, 366 * 86400


def reckoned(site: Site, now: int, *, doubt: bool = False) -> tuple[Site, int]:
    """`now` as it is, by one stat, where it fits the last tick's; else what the batch system says. Raises OSError.

    The site is told whether that has said so, and of a wrong clock as a problem.

    `doubt`: Slurm and this node differ on when the link began, so it is asked in any case, and minutes count.
    """
    noted = expected(site.paths)
    if not doubt and noted is not None and noted[0] <= now + CLOCKS_APART and now <= noted[1]:
        return site, now
    try:
        right = site.batch.clock()
    except BatchError:
        return site, now
    if right is None:
        right = _long_before(site.paths.state, now, noted[1] if noted else now)
        if right is None:
            return site, now
        off = f"{(now - right) // 86400} days ahead of the file system's"
    elif abs(right - now) <= (_MINUTE if doubt else CLOCKS_APART):
        return replace(site, clock_verified=True), now
    else:
        off = f"{abs(right - now) // 60} minutes {'behind' if right > now else 'ahead of'} the batch system's"
    fix = f"Tell the administrators: the clock of {site.host} wants ntp."
    problem = Problem("W360", f"this machine's clock is {off}, which is used.", fix)
    return replace(site, problems=(*site.problems, problem), clock_verified=True), right


def _long_before(state: Path, now: int, awaited: int) -> int | None:
    """The file system's clock, where ours is years beyond it, and beyond `awaited`, when the next tick was."""
    if now - awaited <= _YEAR:
        return None
    try:
        disk = clock_of(state)
    except OSError:
        return None
    return disk if now - disk > _YEAR else None


_FAR = 300  # seconds: a clock that far off is told of, and not counted by


def by_its_disks_clock(site: Site, now: int) -> Site:
    """With the clock that stamps the cron directory's files, against the one that `now` is of."""
    try:
        clock = disk_clock(site.paths.state)
    except OSError:
        return site
    ahead = clock.ahead
    if site.clock_verified:
        off = int(time.time()) - now  # noqa: TID251 - two clocks are compared
        ahead += off if abs(off) > _CORRECTED else 0
    if abs(ahead) >= _NOTABLE:
        way = "ahead of" if ahead > 0 else "behind"
        what = f"the clock that dates files here is {abs(ahead)} s {way} this machine's"
        counted = "ages of files are counted by it" if abs(ahead) <= _FAR else "ages of files are not what they seem"
        fix = f"Tell the administrators: the file server or {site.host} wants ntp."
        site = replace(site, problems=(*site.problems, Problem("W362", f"{what}: {counted}.", fix)))
    return replace(site, disk_clock=replace(clock, ahead=ahead if abs(ahead) <= _FAR else 0))


_CORRECTED, _NOTABLE = 60, 30  # seconds

"""Hand-built worlds for the tests of views: Friday 27 November 2026, 14:07:20 in Paris."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from cronhpc.core.model import (
    ChainFacts,
    Claim,
    ClaimState,
    Entry,
    EntryState,
    Job,
    Key,
    Problem,
    Queue,
    SchedulerState,
    Settings,
    Switch,
    Switches,
    SwitchKind,
    World,
    entry_id,
    token,
)
from cronhpc.core.plan import plan
from cronhpc.views import status
from cronhpc.views.facts import Status
from cronhpc.views.style import Style

PARIS = ZoneInfo("Europe/Paris")
DIRECTORY_ID = "abc123"
ABOUT = status.About("/home/alice/cron", "slurm", "alice", "login1")


def at(clock: str, day: int = 27) -> int:
    """An instant of November 2026 in Paris: `14:00` or `14:00:04`."""
    hour, minute, second = (*map(int, clock.split(":")), 0)[:3]
    return int(datetime(2026, 11, day, hour, minute, second, tzinfo=PARIS).timestamp())


NOW = at("14:07:20")


def style(width: int = 0, height: int = 0, *, now: int = NOW, colour: bool = False) -> Style:
    """How alice looks at it."""
    return Style(now, PARIS, width, height, colour, "/home/alice")


def entry(name: str, schedule: str = "0 4 * * *", **facts: object) -> Entry:
    """One that lies there for a week already."""
    plain = Entry(name, f"cron.d/{name}.slurm", f"/x/{name}.slurm", schedule, "Europe/Paris", "", born=at("10:00", 20))
    return replace(plain, job_name=name, options=("--partition=cpu",), **facts)  # type: ignore[arg-type]  # by name


def state(name: str, slot: int, result: str = "ok", **facts: object) -> EntryState:
    """An entry whose newest slot ended with `result`; `facts` that are no EntryState's go to its row."""
    own = {key: facts.pop(key) for key in list(facts) if key in EntryState.__slots__}
    row = {"what": "run", "key": str(Key(entry_id(name), slot)), "entry": name, "slot": slot, "result": result, **facts}
    return EntryState(watermark=slot, last=row, **own)  # type: ignore[arg-type]  # by name


def job(number: str, comment: str, start: int, **facts: object) -> Job:
    """A pending job of this directory."""
    mark = token(DIRECTORY_ID, comment)
    return replace(Job(number, "PENDING", comment=mark, reason="BeginTime", start=start), **facts)  # type: ignore[arg-type]  # by name


LINK = job("4711", f"link {at('15:00')} fp", at("15:00"), name="cronhpc-abc123")
SPARE = job("4712", f"spare {at('15:30')} fp", at("15:30"), name="cronhpc-abc123-spare")
CHAIN = ChainFacts(wanted=True, fingerprint="fp")

ENTRIES = (
    entry("hub-sync", "*/30 8-18 * * mon-fri"),
    entry("backup"),
    entry("gpu-health", "20 5 * * *"),
    entry("train-watch", "0 22 * * *"),
)
STATES = {
    "hub-sync": state(
        "hub-sync",
        at("14:00"),
        submitted=at("14:00:05"),
        started=at("14:00:08"),
        ended=at("14:01:20"),
        job="4600",
        successes=41,
    ),
    "backup": state(
        "backup",
        at("04:00"),
        "failed",
        exit_code=1,
        submitted=at("04:00:06"),
        started=at("04:02:06"),
        ended=at("04:02:18"),
        job="4655",
        node="cpu2",
        log="log/backup/20261127T0300Z-4655.out",
        failures=3,
    ),
    "gpu-health": state(
        "gpu-health",
        at("05:20"),
        submitted=at("05:20"),
        started=at("05:38"),
        ended=at("05:38:41"),
        job="4660",
        successes=9,
    ),
    "train-watch": state(
        "train-watch",
        at("22:00", 26),
        submitted=at("22:00", 26),
        started=at("22:00:01", 26),
        ended=at("22:00:03", 26),
        job="4501",
    ),
}
BOBS = Switch(
    SwitchKind.KILL, "train-watch", "/home/alice/cron/kill/train-watch", "bob", at("22:14", 26), "loss spikes"
)
BACKUP_FILE = Problem("W002", "skipped: an editor's backup file.", "Remove it.", "cron.hourly/sync~")

WORLD = World(
    NOW,
    DIRECTORY_ID,
    Settings(cluster="lab"),
    ENTRIES,
    states=STATES,
    queue=Queue((LINK, SPARE)),
    switches=Switches((BOBS,)),
    skipped=(BACKUP_FILE,),
    chain=CHAIN,
    kept=SchedulerState(last_tick=at("14:00:04")),
)


def running(name: str, slot: int, number: str, **facts: object) -> tuple[Claim, Job]:
    """A released attempt and its job."""
    key = Key(entry_id(name), slot)
    claim = Claim(key, ClaimState.RELEASED, name, number, at=slot, recorded=slot)
    return claim, job(number, str(key), slot + 3, **{"state": "RUNNING", "reason": "None", "nodes": "cpu1", **facts})


def facts_of(world: World, **more: object) -> Status:
    """As `cronhpc status` has them."""
    return status.facts(world, plan(world), world.states, ABOUT, **more)  # type: ignore[arg-type]  # by name

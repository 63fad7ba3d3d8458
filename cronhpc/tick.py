"""One pass of the scheduler: read, plan, act, record. Everything that runs is this.

    files + queue  --read-->  World  --plan-->  Decisions  --act-->  Outcomes  --record-->  files

The scheduler's job calls it once and ends; the daemon calls it whenever something happens; `cronhpc plan` stops after
the second step and prints the very value that the third one would carry out.
"""

from __future__ import annotations

import os
from contextlib import nullcontext

from cronhpc.batch.port import Batch, BatchError
from cronhpc.batch.process import elapsed
from cronhpc.core.model import SCHEDULED, Call, CronhpcError, Done, Outcome, Plan, Problem, Scope, Severity, World
from cronhpc.core.plan import plan
from cronhpc.core.slots import UNFINISHED_WAKE
from cronhpc.cron.values import dataclass, replace
from cronhpc.engine.act import run_pass
from cronhpc.engine.read import read_world
from cronhpc.engine.site import Site, by_its_disks_clock, of_other_cluster
from cronhpc.logs.housekeeping import clean_when_due
from cronhpc.store import lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from cronhpc.core.retention import Cleaned
    from cronhpc.engine.record import Recorded
_PAUSE = 2 * 86400  # seconds without a tick, after which a clock has to be confirmed before logs are judged by it


@dataclass(frozen=True, slots=True)
class Report:
    """What a tick saw, decided and did."""

    world: World
    plan: Plan
    outcomes: tuple[Outcome, ...]
    problems: tuple[Problem, ...] = ()
    lease_holder: str = ""  # another tick, whose lease stood: this one went on without it
    unreachable: str = ""  # what the batch system gave no answer with: another look soon may be worth it
    cleaned: Cleaned | None = None  # what became of old logs, where it was time to look at them

    @property
    def attention(self) -> bool:
        """Whether a person should look: exit 1."""
        trouble = any(outcome.done in {Done.FAILED, Done.PASSING} for outcome in self.outcomes)
        invalid = any(entry.problem is not None for entry in self.world.entries)
        return (
            trouble or invalid or self.world.queue is None or any(p.severity is Severity.ERROR for p in self.problems)
        )


def tick(site: Site, now: int, call: Call = SCHEDULED) -> Report:
    """One pass at `now`, also beside a holder of the lease.

    Raises CronhpcError on another cluster than the scheduler's, StateError, and OSError where state/ can be neither
    read nor written.
    """
    looked = elapsed()
    mine = call.scope is Scope.LINKS  # the lease: `start` and `stop` hold it, and know that this is their cluster
    is_link = call.link != ""  # on the cluster that it was submitted on
    if not is_link and not mine and (other := of_other_cluster(site)) is not None:
        raise CronhpcError(other.what, " Nothing was done. ", other.fix)
    with nullcontext() if mine else leased(site, call.link) as holder:
        site = by_its_disks_clock(site, now)
        reading = read_world(site, now, call)
        if holder is not None and lease.is_at_work(site.paths.state / "lease", holder, site.host):
            chain = replace(reading.world.chain, lease_holder=str(holder))
            reading = replace(reading, world=replace(reading.world, chain=chain))
        planned = plan(reading.world)
        outcomes, recorded, progress = run_pass(site, reading, planned, looked)
        cleaned = _cleaned(site, reading.world) if call.whole else None
    lease_holder = str(holder) if holder is not None else ""
    of_page = _page_drawn(site, now) if call.whole else ()
    of_logs = cleaned.problems if cleaned is not None else ()
    of_alerts = () if mine else _alerted(site, recorded, now)
    problems = (*reading.problems, *recorded.problems, *of_logs, *of_page, *of_alerts)
    unreachable = progress.unreachable or progress.unanswered or reading.world.queue_error
    if not unreachable and planned.wake - now > UNFINISHED_WAKE:
        unreachable = progress.at_submit_limit  # exit 75 makes the link tick again before the deadline
    return Report(reading.world, planned, outcomes, problems, lease_holder, unreachable, cleaned)


def _cleaned(site: Site, world: World) -> Cleaned | None:
    """Old logs go last: whatever is wrong with them, the work is done.

    After a pause of days the next tick cleans: this one's clock may have jumped, and then all logs would look old.
    """
    if not world.clock_verified and world.kept.last_tick is not None and world.now - world.kept.last_tick > _PAUSE:
        return None
    return clean_when_due(site, world.now, world.queue, world.claims)


def _page_drawn(site: Site, now: int) -> tuple[Problem, ...]:
    """The page, where one is wanted."""
    if not site.settings.page:
        return ()
    from cronhpc.page.write import write_when_due

    return write_when_due(site, now)


def _alerted(site: Site, recorded: Recorded, now: int) -> tuple[Problem, ...]:
    """Alerts go out last, without the lease: a mail server that hangs holds up nobody."""
    outbox = site.paths.state / "outbox.json"
    if not recorded.alerts and not recorded.pings and not os.path.exists(outbox):  # noqa: PTH110 - one stat
        return ()
    from cronhpc.engine.notify import about, send

    return send(site.settings, recorded.alerts, recorded.pings, about(site), outbox=outbox, now=now)


def leased(site: Site, link: str = "") -> AbstractContextManager[lease.Holder | None]:
    """The lease for the length of a `with`, as a tick of this site takes it."""
    path, job = site.paths.state / "lease", site.batch.dialect.job
    me = lease.myself(site.host, link or os.environ.get(job.id, ""), os.environ.get(job.restarts, ""))
    return lease.held(path, me, lambda job_id: _job_gone(site.batch, job_id))


def _job_gone(batch: Batch, job_id: str) -> bool:
    """Only the batch system's word counts; no answer is none."""
    try:
        queue = batch.queue()
    except BatchError:
        return False
    return not any(job.id == job_id and job.live for job in queue.jobs)

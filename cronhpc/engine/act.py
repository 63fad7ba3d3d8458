"""Act: decisions to outcomes. It may refuse a decision, never add one.

The order is that of what must not be lost: jobs that must stop, the chain, ends, and last the submissions: claimed,
submitted held, recorded, and released all at once.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from cronhpc.batch.port import AtSubmitLimit, BatchError, Denied, Submission, Unreachable
from cronhpc.core import model
from cronhpc.core.chain import bad_nodes_text, comment_words, link_comment, link_exclude, link_options
from cronhpc.core.model import Decision, Done, Job, LinkKind, LinkRecord, Obstacle, Outcome, Plan, token
from cronhpc.core.stop import whole_comment, with_pause_tag
from cronhpc.cron.values import grouped, replace
from cronhpc.engine.record import record
from cronhpc.engine.submit import Progress, Releaser, Submitter
from cronhpc.store import scheduler, trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from cronhpc.engine.read import Reading
    from cronhpc.engine.record import Recorded
    from cronhpc.engine.site import Site

    Answer = TypeVar("Answer")

_AT_ONCE = 64  # ends that are written between two looks at the disk


def run_pass(
    site: Site, reading: Reading, plan: Plan, looked: float | None = None
) -> tuple[tuple[Outcome, ...], Recorded, Progress]:
    """Carry the plan out and record it: one outcome for each decision. `looked`: the `elapsed` of the reading's now.

    Raises OSError only where state/ itself cannot be written.
    """
    progress = Progress(site, reading.world, looked)
    for step, rows in Actor(progress).steps(plan):
        step(rows)
    outcomes = progress.outcomes_of(plan)
    return outcomes, record(site, reading, plan, outcomes), progress


class Actor:
    """How a plan is carried out: `steps`. What came of it, and what it may still ask, is in its `progress`."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.site, self.world, self.claims = progress.site, progress.world, progress.claims
        self.releaser = Releaser(progress)
        self.submitter = Submitter(progress, self.releaser)
        self.emptied: set[str] = set()  # arrays whose pending tasks were cancelled in this tick
        self.link_refused = ""
        self.linked: set[str] = set()  # job ids of the links that were submitted since the queue was asked

    def steps(self, plan: Plan) -> list[tuple[Callable[[Sequence[Any]], None], Sequence[Decision]]]:
        """Begin the plan: what is to be done in which order, each step with its decisions."""
        steps: tuple[tuple[type | tuple[type, ...], Callable[[Sequence[Any]], None]], ...] = (
            (model.Stop, partial(self._one_by_one, self._stop)),
            (model.Cancel, partial(self._one_by_one, self._cancel)),
            (model.Withdraw, self._withdraw),
            ((model.CancelLink, model.MoveLink, model.SubmitLink), partial(self._one_by_one, self._link)),
            (model.Adopt, partial(self._one_by_one, self._adopt, asks=False)),
            (model.Finish, self._finish),
            (model.Release, self.releaser.release),  # held, these may be what fills the site's limits
            (model.Submit, self.submitter.submit),
            (model.Hold, partial(self._one_by_one, self._hold)),
            (model.Unhold, partial(self._one_by_one, self._unhold)),
            (model.Skip, self._skip),
        )
        self.progress.begin(plan)
        self.link_refused = self._refused_link(plan)
        to_do = [d for d in plan.decisions if not isinstance(d, model.Wait)]
        by_step = ((step, [d for d in to_do if isinstance(d, kind)]) for kind, step in steps)
        return [(step, rows) for step, rows in by_step if rows]

    def _one_by_one(self, step: Callable[..., Outcome | None], rows: Sequence[Decision], *, asks: bool = True) -> None:
        """Run `step` for each decision; an error of the batch system or the disk is that decision's outcome.

        `asks` the batch system: not tried any more once that gave no answer.
        """
        for row in rows:
            if asks and (why := self.progress.unreachable):
                self.progress.note(row, Done.PASSING, f"not tried: {why}", cause=why)
                continue
            try:
                outcome = step(row)
            except BatchError as error:
                self.progress.failed(error)
                met = Obstacle.SUBMIT_LIMIT if isinstance(error, AtSubmitLimit) else None
                self.progress.note(row, Done.PASSING, error.text, obstacle=met, cause=error.cause)
            except OSError as error:
                self.progress.note(row, Done.PASSING, f"{error.strerror}: {error.filename}")
            else:
                self.progress.add([outcome or Outcome(row, Done.OK)])

    # --- what must stop

    def _stop(self, stop: model.Stop) -> Outcome | None:
        """Pending tasks first: with some of them left a signal to an array blocks for 95 s, and is sent ten times.

        What has begun since the look is warned first where the switch warns; elsewhere it ends with the others.
        """
        self.emptied.update(stop.pending)
        if stop.pending and stop.grace:
            self.site.batch.cancel(stop.pending, pending_only=True)
        if ends := stop.running if stop.grace else tuple(dict.fromkeys((*stop.pending, *stop.running))):
            self.site.batch.cancel(ends)
        if stop.warn:
            if self.emptied.intersection(stop.warn):
                jobs = self.site.batch.queue().jobs
                if still := sorted({job.shown_id for job in jobs if job.id in stop.warn and job.pending}):
                    why = f"{', '.join(still)} is still pending: warned at the next look"
                    return Outcome(stop, Done.REFUSED, why)
            self.site.batch.signal(stop.warn, stop.warn_signal)
        return None

    def _cancel(self, cancel: model.Cancel) -> Outcome | None:
        """What is to go has not begun."""
        if why := self.progress.meanwhile([cancel])[0].objection():
            return Outcome(cancel, Done.REFUSED, why)
        self.site.batch.cancel([cancel.job_id], pending_only=True)
        return None

    def _withdraw(self, rows: Sequence[model.Withdraw]) -> None:
        """The jobs go first, all at once, and then what their claims say of them.

        So the queue is asked once more: one that begins by the controller's clock at this moment is not cancelled. Its
        answer may be a minute old, and this tick may die: that it was us is noted before.
        """
        going = [row.job_id for row in rows if row.job_id and not row.gone]
        live: dict[str, Job] = {}
        failed = self.progress.unreachable
        with suppress(OSError):  # on a full disk, too, what is stopped goes
            noted = {row.key: row.job_id for row in rows if row.job_id and (row.gone or not failed)}
            self.claims.take_back(noted, self.progress.clock)
        try:
            if going and not failed:
                self.site.batch.cancel(going, pending_only=True)
                live = {job.id: job for job in self.site.batch.queue().jobs if not job.never_began}
        except BatchError as error:
            self.progress.failed(error)
            failed = error.text
        try:
            since = self.progress.meanwhile(rows, live)
        except OSError as error:
            why = f"{error.strerror}: {error.filename}"
            self.progress.add(Outcome(row, Done.PASSING, why) for row in rows)
            return
        for it in since:
            row, why = it.decision, it.objection()
            done = Done.REFUSED if why else Done.OK
            if failed and row.job_id and not row.gone:
                done, why = Done.PASSING, failed
            elif not why:
                try:
                    self._open_again(row, it.now)
                except OSError as error:
                    done, why = Done.PASSING, f"{error.strerror}: {error.filename}"
                else:
                    self.progress.is_now(row.key, model.ClaimState.CLAIMED, None)
            self.progress.note(row, done, why, obstacle=it.obstacle)

    def _open_again(self, row: model.Withdraw, claim: model.Claim | None) -> None:
        """Its claim has no job any more. That this was us is noted by then, also where the disk refused it before."""
        if row.job_id and claim is not None and claim.taken_back != row.job_id:
            self.claims.take_back({row.key: row.job_id}, self.progress.clock)
        self.claims.end_job(row.key, row.job_id)
        if row.drops:
            self.claims.give_up(row.key)

    # --- the chain

    def _link(self, link: model.CancelLink | model.MoveLink | model.SubmitLink) -> Outcome | None:
        if isinstance(link, model.CancelLink):
            self.site.batch.cancel([link.job_id])
            return None
        if self.link_refused and not isinstance(link, model.MoveLink):  # a link that waits holds the text of before
            return Outcome(link, Done.FAILED, self.link_refused)
        chain, settings = self.world.chain, self.site.settings
        own = LinkRecord(link.kind, link.at, chain.fingerprint, self.progress.clock)
        comment = token(self.world.directory_id, comment_words(own))
        comment += link_comment(settings)
        exclude = link_exclude(settings, [bad.node for bad in chain.bad_nodes])
        if isinstance(link, model.MoveLink):
            avoided = exclude if chain.bad_nodes or chain.bad_nodes_changed else None
            _avoiding(avoided, None, lambda nodes: self.site.batch.move(link.job_id, link.at, comment, nodes))
            if link.job_id in self.world.links:
                self._remember_link(link.job_id, replace(own, at=self.world.links[link.job_id].at))
            return None
        if job_id := self._submitted_meanwhile(own.kind):
            self.linked.add(job_id)
            return Outcome(link, Done.OK, job_id=job_id)
        least = link_exclude(settings)
        try:
            job_id = _avoiding(
                exclude, least, lambda nodes: self.site.batch.submit(self._link_submission(link, comment, nodes or ""))
            )
        except AtSubmitLimit as error:
            from cronhpc.engine.link import comes_again

            again = link.again if link.again and comes_again(self.site.paths) else ""
            if link.kind is not LinkKind.SPARE and not again:
                raise
            self.progress.failed(error)
            if again:  # its text reads there when to come
                self._remember_link(again, own)
            # a site that takes two jobs at a time: it goes on without a spare
            return Outcome(link, Done.REFUSED, error.text, obstacle=Obstacle.SUBMIT_LIMIT)
        if self.world.chain.drops_begin:
            self._let_begin(job_id, link.at)
        self._remember_link(job_id, own)
        return Outcome(link, Done.OK, job_id=job_id)

    def _submitted_meanwhile(self, kind: LinkKind) -> str:
        """The link of this kind that another has submitted since the queue was asked: a tick may stand still."""
        with suppress(OSError):
            links = scheduler.links(self.site.paths).items()
            listed = {job.id for job in self.world.listed}
            older = (job_id for job_id, link in self.world.links.items() if not link.fresh)
            before = listed | self.linked | {self.world.call.link, *older}
            return next((job_id for job_id, link in links if link.kind is kind and job_id not in before), "")
        return ""

    def _let_begin(self, job_id: str, at: int) -> None:
        """Where the site drops --begin: a held link gets its begin, and is released. Raises BatchError: it is gone."""
        try:
            self.site.batch.move(job_id, at)
            self.site.batch.release([job_id])
        except BatchError:
            self.site.batch.cancel([job_id])
            raise

    def _remember_link(self, job_id: str, link: LinkRecord) -> None:
        """A disk that refuses it is no reason to fail: it has its comment and its name as well."""
        self.linked.add(job_id)
        with suppress(OSError):
            scheduler.remember_link(self.site.paths, job_id, link)

    def _refused_link(self, plan: Plan) -> str:
        """Why the link's text is not to be submitted, where that is planned: it may be another's by now."""
        if not any(isinstance(decision, model.SubmitLink) for decision in plan.decisions):
            return ""
        from cronhpc.engine.link import fix_link

        refused = trust.link_refusal(self.site.paths, self.site.settings, self.site.uid)
        return f"{refused.what} " + refused.fix if refused else fix_link(self.site)

    def _link_submission(self, link: model.SubmitLink, comment: str, exclude: str) -> Submission:
        """It needs none of the user's folders to start: on a node without them it says so, and goes on elsewhere."""
        chain, paths = self.world.chain, self.site.paths
        options = link_options(self.site.settings, chain.via)
        whose = f"{self.world.directory_id}/{chain.fingerprint}"
        return Submission(
            script=str(paths.script),
            arguments=(str(link.at), link.kind.word, "0", bad_nodes_text(chain.bad_nodes), whose),
            options=(*options, f"--exclude={exclude}") if exclude else options,
            job_name=model.link_names(self.world.directory_id)[link.kind is LinkKind.SPARE],
            comment=comment,
            output="/dev/null",
            chdir="/",
            begin=link.at,
            held=self.world.chain.drops_begin != "",
            no_requeue=True,
        )

    # --- attempts

    def _adopt(self, adopt: model.Adopt) -> Outcome | None:
        if not self.claims.record(adopt.key, adopt.job_id, self.progress.clock):
            return Outcome(adopt, Done.REFUSED, "another id was recorded meanwhile")
        self.progress.is_now(adopt.key, model.ClaimState.SUBMITTED, adopt.job_id)
        return None

    def _finish(self, rows: Sequence[model.Finish]) -> None:
        """Some at a time, but those whose job could not be cancelled."""
        failed = (each.decision for each in self.progress.outcomes if each.done is not Done.OK)
        stays = {decision.key for decision in failed if isinstance(decision, model.Cancel)}
        for row in rows:
            if row.key in stays:
                self.progress.note(row, Done.REFUSED, "its job could not be cancelled: looked at again")
        ends = [row for row in rows if row.key not in stays]
        for some in (ends[at : at + _AT_ONCE] for at in range(0, len(ends), _AT_ONCE)):
            self.progress.add(self.progress.end(some))

    def _skip(self, rows: Sequence[model.Skip]) -> None:
        """A slot that another tick has claimed since is none that is passed over: looked at again."""
        try:
            listed, known = self.claims.names(), self.progress.planned
        except OSError:  # told where it is recorded
            return
        claimed = [key for key, steps in listed.items() if "" in steps and key not in known]
        for row in rows:
            entry = model.entry_id(row.entry.name)
            if any(key.entry == entry and not key.by_hand and key.slot <= row.slot for key in claimed):
                self.progress.note(row, Done.REFUSED, "another tick has claimed one of its slots meanwhile")

    # --- pause

    def _hold(self, hold: model.Hold) -> None:
        """Held and tagged in one update: a tag without its hold, or the reverse, would be read as the user's own."""
        for comment, ids in _alike(hold.jobs, lambda job: with_pause_tag(self.world, job)).items():
            self.site.batch.hold(ids, comment)

    def _unhold(self, unhold: model.Unhold) -> None:
        for comment, ids in _alike(unhold.jobs, lambda job: whole_comment(self.world, job)).items():
            self.site.batch.unhold(ids, comment)


def _avoiding(nodes: str | None, else_: str | None, call: Callable[[str | None], Answer]) -> Answer:
    """What `call` gives with those nodes excluded; where Slurm has no other for it, or does not know one, without."""
    try:
        return call(nodes)
    except (Denied, AtSubmitLimit, Unreachable):
        raise
    except BatchError:
        if nodes == else_:
            raise
        return call(else_)


def _alike(jobs: Sequence[Job], comment: Callable[[Job], str]) -> dict[str, list[str]]:
    """The comment that each job is to get, and the jobs that share it: one call for those."""
    return {words: [job.shown_id for job in alike] for words, alike in grouped(jobs, comment).items()}

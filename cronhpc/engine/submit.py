"""Attempts of slots in two phases: claimed; submitted held, the id recorded; and when all ids are on disk one release.

A run executes only after its release, and only the recorded id is ever released. So whatever dies in between leaves at
worst a held job with a token, and the next tick knows what to do with it (core/attempts.py).
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from cronhpc.batch.port import AtSubmitLimit, BatchError, Denied, Refused, Submission, Unreachable
from cronhpc.batch.process import elapsed, side_by_side
from cronhpc.core.attempts import Meanwhile, had_its_turn, replaced, with_log
from cronhpc.core.identity import counted, frees, queued
from cronhpc.core.model import (
    NEW_STATE,
    Claim,
    ClaimState,
    Done,
    EntryState,
    Finish,
    JobEnd,
    Key,
    Obstacle,
    Outcome,
    Plan,
    Reason,
    Release,
    Result,
    cut_comment,
    token,
)
from cronhpc.core.model.decode import iso
from cronhpc.core.slots import holds
from cronhpc.core.stop import switch_on
from cronhpc.cron.values import grouped, replace
from cronhpc.engine.read import with_switches
from cronhpc.script.advice import word
from cronhpc.store import history, scheduler
from cronhpc.store import memory as store_memory
from cronhpc.store.claims import Claims
from cronhpc.store.files import read_bytes, replace_file
from cronhpc.store.scheduler import Asked
from cronhpc.store.trust import Trust, trust_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from cronhpc.core.model import Decision, Entry, Job, Submit, World
    from cronhpc.engine.site import Site

_TIMEOUT = 45.0  # seconds: a tick under a controller that does not answer ends within a minute
_LOOK_AGAIN = 86400  # seconds
_EARLY = 60  # seconds
_AT_ONCE = 64  # runs to come that are claimed before the first of them is tried
_LOST = 8  # submissions in a row without an answer: then there is nobody to answer
_TAKEN = "another tick has claimed it"


class Progress:
    """One pass: what came of it so far, what it may still ask, and what has become of its claims since it looked."""

    def __init__(self, site: Site, world: World, looked: float | None = None) -> None:
        """`looked`: the `elapsed` of `world.now`; a look at a slow disk or queue takes seconds."""
        self.site = site
        self.world = world
        self.claims = Claims(site.paths.claims)
        self.planned = dict(world.claimed())  # as this tick was planned with, and as its own steps have made it since
        self.plan = Plan((), world.now)  # that is carried out
        self.outcomes: list[Outcome] = []
        self.unreachable = ""  # what the batch system gave no answer with: nothing more is asked of it in this tick
        self.unanswered = ""  # what a submission gave no answer with: its job may be there, as the next look sees
        # The limit that was met, the site's or of time: nothing more is submitted in this tick.
        self.at_submit_limit = ""
        self._began = elapsed()
        self._looked = self._began if looked is None else looked

    @property
    def clock(self) -> int:
        """The instant that it is by now, epoch seconds."""
        return int(self.world.now + elapsed() - self._looked)

    def has_time(self, seconds: float) -> bool:
        """Whether what takes so long ends in time."""
        return elapsed() + seconds <= self._began + _TIMEOUT

    @property
    def ended_by(self) -> str:
        """Why nothing more is submitted in this tick; "" as long as more may be. Asked where there is more."""
        if not self.at_submit_limit and not self.has_time(0):
            self.at_submit_limit = "this tick has no time left"
        why = self.unreachable or self.at_submit_limit
        with suppress(OSError):
            if not why and self.world.chain.wanted and scheduler.marks(self.site.paths).stopped:
                why = "the scheduler was stopped meanwhile"  # what was submitted by then is released, as runs go on
        return why

    def failed(self, error: BatchError) -> None:
        """What an error means for the rest of this tick; a plain no to one thing means nothing."""
        if isinstance(error, Denied) and (self.world.call.link or self.site.batch.dialect.job.id in os.environ):
            self.site.changes.note(Asked.SUBMIT, f"{self.site.host}: {error.text}", self.world.now)
        if isinstance(error, Unreachable):
            self.unreachable = error.text
        elif isinstance(error, AtSubmitLimit):
            self.at_submit_limit = error.text

    def begin(self, plan: Plan) -> None:
        """What is carried out from now on."""
        self.plan = plan

    def no_reply(self, error: BatchError) -> None:
        """A submission gave no answer, so its job may be there."""
        self.unanswered = error.text

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """What came of some decisions."""
        self.outcomes.extend(outcomes)

    def outcomes_of(self, plan: Plan) -> tuple[Outcome, ...]:
        """All that came of `plan`: a decision of which nothing was noted is done."""
        noted = {id(outcome.decision) for outcome in self.outcomes}
        return (*self.outcomes, *(Outcome(d, Done.OK) for d in plan.decisions if id(d) not in noted))

    def note(
        self,
        decision: Decision,
        done: Done,
        detail: str = "",
        job_id: str | None = None,
        *,
        obstacle: Obstacle | None = None,
        cause: str = "",
    ) -> None:
        """What came of a decision."""
        self.add([Outcome(decision, done, detail, job_id, obstacle, cause)])

    def claim(self, row: Submit) -> None:
        """This tick has claimed it."""
        self.planned[row.key] = Claim(row.key, ClaimState.CLAIMED, row.entry.name, at=self.world.now)

    def is_now(self, key: Key, state: ClaimState, job_id: str | None) -> None:
        """What this tick has made of its claim."""
        self.planned[key] = replace(self.planned[key], state=state, job_id=job_id)

    def meanwhile(self, decisions: Sequence[Any], listed: Mapping[str, Job] | None = None) -> list[Meanwhile]:
        """Each with its claim as the disk has it now; `listed`: jobs that the queue shows now. Raises OSError."""
        now, planned = self.claims.look(each.key for each in decisions) if decisions else {}, self.planned
        jobs = (listed.get(each.job_id) if listed else None for each in decisions)
        return [
            Meanwhile(each, planned.get(each.key), now.get(each.key), self.clock, job)
            for each, job in zip(decisions, jobs, strict=True)
        ]

    def end(self, ends: Sequence[Finish]) -> list[Outcome]:
        """Write ends down that still stand: one listing tells where each is, and one sync makes them durable.

        What the disk refuses the next tick finds out by itself.
        """
        outcomes: list[Outcome] = []
        written: list[Finish] = []
        try:
            for it in self.meanwhile(ends):
                if why := it.objection():
                    outcomes.append(Outcome(it.decision, Done.REFUSED, why))
                    continue
                try:
                    self._write(it)
                except OSError as error:
                    outcomes.append(Outcome(it.decision, Done.PASSING, f"{error.strerror}: {error.filename}"))
                else:
                    written.append(it.decision)
            if written:
                self.claims.sync()
                self.claims.drop_steps_of(end.key for end in written)
        except OSError as error:
            refused = {id(outcome.decision) for outcome in outcomes}
            left = (end for end in ends if id(end) not in refused)
            return outcomes + [Outcome(end, Done.PASSING, f"{error.strerror}: {error.filename}") for end in left]
        return outcomes + [Outcome(end, Done.OK) for end in written]

    def _write(self, it: Meanwhile) -> None:
        end, job_id = it.decision, it.job or it.decision.job_id
        at = max(self.world.now, it.planned.at if it.planned is not None else 0)  # by whose clock its slot had come
        job_end = with_log(self.world, end.key, end.job_end, job_id)
        self.claims.write_end(replace(end, job_end=job_end, job_id=job_id), at, self.plan.due_before(end.key))

    def cancel_held(self, job_id: str) -> bool:
        """Cancel a job of ours that is held; False: it stays so, and the next tick cancels it.

        One that was released meanwhile, and runs, is left alone.
        """
        try:
            self.site.batch.cancel([job_id], pending_only=True)
        except BatchError as error:
            self.failed(error)
            return False
        return True


class Submitter:
    """Attempts of slots, claimed, submitted held and recorded: `submit`."""

    def __init__(self, progress: Progress, releaser: Releaser) -> None:
        self.progress, self.releaser = progress, releaser
        self.site, self.world, self.claims = progress.site, progress.world, progress.claims
        self.by = f"{self.site.host}:{os.getpid()}:{os.urandom(4).hex()}"
        self.lost = 0  # submissions in a row that gave no answer
        self.refused: set[str] = set()  # entry ids of which sbatch has refused a run in this tick

    def submit(self, rows: Sequence[Submit]) -> None:
        """Claim, submit held, record, and release what was recorded. Raises OSError."""
        prepared: list[Submit] = []
        limit = self.world.kept.job_limit
        asked = sum(counted(self.world, row) for row in rows) if limit else 0
        one_by_one = asked > 0 and queued(self.world) + asked > limit  # else chance decided who is taken
        taken = limit > 0 and frees(self.world, self.progress.outcomes)
        for row in rows:
            if row.begin is not None and taken:
                self.progress.note(row, Done.REFUSED, "a run is being taken back: the tick that sees it gone submits")
            elif obstacle := self._obstacle(row):
                self.progress.note(row, Done.PASSING, obstacle)
            else:
                prepared.append(row)
        due, ahead = ([row for row in prepared if (row.begin is None) == now] for now in (True, False))
        at_once = 1 if one_by_one else self.site.settings.parallel
        held: list[Submit] = []
        for some in filter(None, (due, *(ahead[at : at + _AT_ONCE] for at in range(0, len(ahead), _AT_ONCE)))):
            if some is not due and (why := self.progress.ended_by):  # unclaimed they cost the next looks nothing
                self.progress.add(_not_tried(row, why) for row in some)
                continue
            ended: list[Finish] = []
            claimed = self._claimed(some)
            for row, answer in zip(claimed, side_by_side(self._submit_held, claimed, at_once), strict=True):
                if isinstance(answer, str):
                    self.progress.is_now(row.key, ClaimState.SUBMITTED, answer)
                    held.append(row)
                else:
                    self.progress.add([answer])
                    if answer.done is Done.FAILED and row.begin is None:  # before its slot has come it may be fixed
                        ended.append(Finish(row.key, row.entry.name, JobEnd(Result.REFUSED, detail=answer.detail)))
            self.progress.end(ended)
        self.releaser.release_held(held)

    # --- before a claim

    def _obstacle(self, row: Submit) -> str:
        """Why a job could not start that sbatch would take; "" where its folders and its script are there by now."""
        entry = row.entry
        if entry.chdir and not os.path.isdir(entry.chdir):  # noqa: PTH112 - a text
            from cronhpc.script.spelling import spelt

            named = spelt("chdir", self.site.batch.dialect) or "its name"
            return f"its working folder {entry.chdir} is not there: mount or make it, or correct {named}"
        try:
            if entry.output and (refused := self._no_log(self.site.paths.log / row.key.entry)):
                return refused
            if entry.command:
                path, data = Path(self._script(row)), entry.command.encode("utf-8", "surrogateescape")
                if read_bytes(path) != data:
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    replace_file(path, data, 0o700)
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        return ""

    def _no_log(self, folder: Path) -> str:
        """Why a log cannot be made in `folder`, which is made; the job would fail where it starts. Raises OSError."""
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except PermissionError:
            folder = folder.parent
        if refused := self._trust.folder_refusal(folder):
            return f"its log could be led astray: {refused.what} " + refused.fix
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"its log cannot be made: chmod u+wx {word(str(folder))}"
        return ""

    @cached_property
    def _trust(self) -> Trust:
        return trust_of(self.site.paths, self.site.settings, self.site.uid)

    def _script(self, row: Submit) -> str:
        command = self.site.paths.state / "commands" / f"{row.key.entry}.slurm"
        return str(command) if row.entry.command else row.entry.script

    # --- phase one: claims

    def _claimed(self, rows: Sequence[Submit]) -> list[Submit]:
        """Those that are ours alone: claimed by us, durably, and not used up by anyone while we were planning."""
        again = [row for row in rows if row.reason is Reason.AGAIN]
        refused = {
            it.decision.key: Outcome(it.decision, Done.REFUSED, why)
            for it in self.progress.meanwhile(again)
            if (why := it.objection())
        }
        for row in rows:
            if row.reason is not Reason.AGAIN and (refusal := self._claim(row)):
                refused[row.key] = refusal
        self.progress.add(refused.values())
        mine = [row for row in rows if row.key not in refused]
        try:
            return self._in_time(mine)
        except OSError as error:  # the claims stand, and the next tick goes on from there
            for row in mine:
                self.progress.note(row, Done.PASSING, f"claimed, and not submitted: {_disk_words(error)}")
            return []

    def _claim(self, row: Submit) -> Outcome | None:
        """What came of it where the attempt is not ours; None: it is."""
        now, of = self.world.now, holds(self.world, row)
        try:
            made = self.claims.make(row.key, row.entry.name, self.by, now, holds=of, tasks=row.tasks)
        except OSError as error:
            return Outcome(row, Done.PASSING, f"it could not be claimed: {_disk_words(error)}")
        if not made:
            return Outcome(row, Done.REFUSED, _TAKEN, obstacle=Obstacle.TAKEN)
        self.progress.claim(row)
        return None

    def _in_time(self, mine: list[Submit]) -> list[Submit]:
        """Those of our claims that do not come too late, durable. Raises OSError."""
        fresh = [row for row in mine if row.reason is not Reason.AGAIN]
        late = self._late(fresh) if fresh else set()
        if mine:
            self.claims.sync()
        for row in fresh:
            if row.key in late:
                self._give_back(row)
                if row.key.by_hand:
                    self.progress.note(row, Done.REFUSED, _TAKEN, obstacle=Obstacle.TAKEN)
                else:
                    self.progress.note(row, Done.REFUSED, "its slot was used up meanwhile")
        return [row for row in mine if row.key not in late]

    def _late(self, rows: Sequence[Submit]) -> set[Key]:
        """Read again after claiming: this tick may have been stopped since it read, and another went past the slot."""
        by_entry = grouped(rows, lambda row: row.key.entry).items()
        since = {entry: min(row.key.slot for row in of) for entry, of in by_entry}
        claims, believed = self.claims.ends(since), self.world.believed
        states = store_memory.load(self.site.paths.entries).entries
        late = set()
        for row in rows:
            key, state = row.key, states.get(row.entry.name, NEW_STATE)
            archived = key.by_hand and key.attempt > 1 and history.tells_of(self.site.paths.history, key)
            if had_its_turn(key, claims, state, believed, archived=archived):
                late.add(key)
        return late

    def _give_back(self, row: Submit) -> None:
        """Our claim goes where its slot had ended before that; else others saw it, and a later one has ended since."""
        with suppress(OSError):
            if not row.key.by_hand and row.key.attempt == 1 and not history.tells_of(self.site.paths.history, row.key):
                why = "a later slot has had its turn, while the tick that claimed this one stood still"
                self.progress.end([Finish(row.key, row.entry.name, JobEnd(Result.MISSED, detail=why))])
                return
        self.claims.give_up(row.key)

    # --- phase two: held submission, the id on disk

    def _submit_held(self, row: Submit) -> str | Outcome:
        """Submit held, and record the id at once: the job's id, or what came of it."""
        if row.begin is not None and row.key.entry in self.refused:
            return Outcome(row, Done.REFUSED, "refused as its slot before that")
        if why := self.progress.ended_by:
            return _not_tried(row, why)
        began = elapsed()
        try:
            job = self._submission(row)
            if row.replaces:
                self.site.batch.cancel(row.replaces)
                self.progress.end([*replaced(self.world, row)])  # at once: a tick may die before all are submitted
            job_id = self.site.batch.submit(job)
            self.lost = 0
        except OSError as error:  # its wrapper could not be written: no other's matter
            return _not_tried(row, _disk_words(error))
        except BatchError as error:
            return self._of_error(row, error, elapsed() - began)
        try:
            if self.claims.record(row.key, job_id, self.progress.clock, holds=holds(self.world, row)):
                return job_id
            now = self.claims.look([row.key]).get(row.key)
        except OSError as error:  # a full disk: the job stays held, and is found by its token
            why = f"job {job_id} is held, its id could not be recorded ({error.strerror}); the next tick will"
            return Outcome(row, Done.PASSING, why, obstacle=Obstacle.NO_ANSWER)
        if now is not None and now.job_id == job_id:  # another tick has found this very job and adopted it
            return job_id
        self.progress.cancel_held(job_id)
        return Outcome(row, Done.REFUSED, f"another tick submitted it as well; job {job_id} is cancelled, still held")

    def _of_error(self, row: Submit, error: BatchError, took: float) -> Outcome:
        if isinstance(error, Refused):
            self.refused.add(row.key.entry)
            (it,) = self.progress.meanwhile([row])
            why = it.objection()
            return Outcome(row, Done.REFUSED if why else Done.FAILED, why or error.text)
        silent = isinstance(error, Unreachable)
        if silent:  # a lost reply keeps no run waiting, but time-outs do
            self.progress.no_reply(error)
            self.lost += 1
        if not silent or self.lost >= _LOST or not error.passing or not self.progress.has_time(took):
            self.progress.failed(error)
        if isinstance(error, AtSubmitLimit):
            done = Done.PASSING if row.begin is None else Done.REFUSED  # before its slot has come it is not due, either
            why = f"{error.text} (no more tries in this tick)"
            return Outcome(row, done, why, obstacle=Obstacle.SUBMIT_LIMIT, cause=error.cause)
        if silent and error.passing:  # it was called, and nobody knows what came of that
            why = f"no reply came, and its job may be there: the next tick sees it ({error.text})"
            return Outcome(row, Done.PASSING, why, obstacle=Obstacle.NO_ANSWER, cause=error.text)
        return Outcome(row, Done.PASSING, error.text, cause=error.cause)

    def _submission(self, row: Submit) -> Submission:
        entry, key = row.entry, row.key
        previous = self.world.states.get(entry.name, EntryState()).previous_success
        variables = {
            "CRONHPC_ENTRY": entry.name,
            "CRONHPC_SLOT": iso(key.slot) or "",
            "CRONHPC_ATTEMPT": str(key.attempt),
            "CRONHPC_PREVIOUS_SUCCESS": iso(previous) or "",
            "CRONHPC_DIR": str(self.site.paths.root),
        }
        script, arguments, ping = self._script(row), entry.arguments, entry.policies.ping
        wrapped = entry.own_options is not None
        if wrapped:
            record, state = entry.policies.record, self.site.paths.state
            from cronhpc.store import wrappers

            script, *before = wrappers.run(
                state, script, key, self.site.batch.dialect.job, record=record, ping=ping is not None
            )
            arguments = (*before, *arguments)
            variables |= {"CRONHPC_PING": _place_of(ping)} if ping else {}
        folder = str(self.site.paths.log / key.entry).replace("%", "%%")
        name = key.log_for_sbatch(array=bool(entry.array)).rpartition("/")[2]
        log = f"{folder}/{name}" if entry.output else None
        return Submission(
            script=script,
            arguments=arguments,
            options=(*(entry.own_options or ()), *entry.options, *_some_tasks(entry, row.tasks)),
            job_name=entry.job_name if entry.command or wrapped or not entry.schedule else None,
            comment=token(self.world.directory_id, str(key), entry.comment),
            output=log,
            error=log if entry.error else None,
            chdir=entry.chdir,
            begin=row.begin,
            export=variables,
            own_export=entry.own_export or None,
            holds_itself=entry.holds_itself,
        )


class Releaser:
    """Held jobs whose ids are on disk: released all at once, or not, where something stands against it by then."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.site, self.world, self.claims = progress.site, progress.world, progress.claims
        self.drops_begin = self.world.chain.drops_begin != ""  # whether this site does, as far as known by now

    def release(self, rows: Sequence[Release]) -> None:
        """Release attempts that an earlier tick left recorded, or whose release it may have sent."""
        held: list[Submit | Release] = []
        for row in rows:
            claim = self.progress.planned.get(row.key)
            if claim is None or claim.job_id != row.job_id:
                self.progress.note(row, Done.REFUSED, f"another job than {row.job_id} is recorded for it")
                continue
            if not row.marked:
                held.append(row)
                continue
            try:
                if why := self.progress.meanwhile([row])[0].objection():
                    self.progress.note(row, Done.REFUSED, why, row.job_id)
                    continue
                if claim.state is ClaimState.SUBMITTED:
                    self.claims.step(row.key, ClaimState.RELEASING)
                self.claims.step(row.key, ClaimState.RELEASED)
            except OSError as error:
                self.progress.note(row, Done.PASSING, f"it was released already; {_disk_words(error)}", row.job_id)
            else:
                self.progress.note(row, Done.OK, "it was released already", row.job_id)
        self.release_held(held)

    def release_held(self, rows: Sequence[Submit | Release]) -> None:
        """One release for all whose ids are on disk, after a last look at the disk and at the switches."""
        if not rows:
            return
        self._look_at_submissions(rows)
        planted = {row.key: log for row in rows if (log := self._planted(row))}
        sending: list[Submit | Release] = []
        try:  # looked at after the logs: a log of a job that another tick has released since is no planted one
            self.claims.sync()
            ours = self._ours(rows)
            for row in ours:
                if row.key in planted:
                    self._not_its_own(row, planted[row.key])
            ready = self._not_stopped([row for row in ours if row.key not in planted])
            sending = self._ours([row for row in ready if self._releasing(row)])
            if sending:
                self.claims.sync()
        except OSError as error:
            self._unreleased(rows, f"is held: {_disk_words(error)}")
        else:
            self._send(sending)

    def _job_id(self, row: Submit | Release) -> str:
        return self.progress.planned[row.key].job_id or ""

    def _is_new(self, row: Submit | Release) -> bool:
        """Whether nobody has sent its release, as far as this tick knows."""
        return self.progress.planned[row.key].state is ClaimState.SUBMITTED

    def _ours(self, rows: Sequence[Submit | Release]) -> list[Submit | Release]:
        """Those with which no other tick has gone further, while this one stood still. Raises OSError."""
        ours = []
        releases = [Release(row.key, self._job_id(row)) for row in rows]
        for row, it in zip(rows, self.progress.meanwhile(releases), strict=True):
            why, job_id = it.objection(), self._job_id(row)
            if not why:
                ours.append(row)
                continue
            if self._is_new(row) and not it.is_its_job:
                self.progress.cancel_held(job_id)
                why = f"{why}; job {job_id} is cancelled, still held"
            if it.now is None or it.now.state not in {ClaimState.CLAIMED, ClaimState.SUBMITTED}:
                self.claims.drop_record(row.key)
            self.progress.note(row, Done.REFUSED, why, job_id)
        return ours

    def _look_at_submissions(self, rows: Sequence[Submit | Release]) -> None:
        """Once a day: does this site keep --hold? Where it does not, a run may begin before it is written down.

        And does it keep --begin, which a run submitted ahead of its slot needs?
        """
        ids = {self._job_id(row): row.key for row in rows if self._is_new(row)}
        site, now = self.site, self.world.now
        begins = {self._job_id(row): begin for row in rows if (begin := self._begin(row)) > self.progress.clock}
        old = [not 0 <= now - site.changes.looked_at(kind) < _LOOK_AGAIN for kind in (Asked.HOLD, Asked.BEGIN)]
        asks_now = ids and (old[0] or (old[1] and begins)) and not site.batch.dialect.runs_here
        if not asks_now or self.progress.unreachable:
            return
        try:
            jobs = [job for job in self.site.batch.queue().jobs if job.id in ids]
        except BatchError as error:
            self.progress.failed(error)
            return
        if jobs:
            begun = {ids[job.id]: job.id for job in jobs if not job.held}
            claims = self.claims.look(begun).values() if begun else ()  # another tick may have released it
            lost = next((begun[c.key] for c in claims if c.state is ClaimState.SUBMITTED), "")
            site.changes.note(Asked.HOLD, lost, now)
        if asked := [job for job in jobs if begins.get(job.id, 0) > self.progress.clock]:  # else it shows none
            early = [job.id for job in asked if job.held and (job.start or 0) < begins[job.id] - _EARLY]
            site.changes.note(Asked.BEGIN, early[0] if early else "", now)
            self.drops_begin = self.drops_begin or bool(early)

    def _begin(self, row: Submit | Release) -> int:
        """When it is to begin where that is later than now; 0: at once."""
        begin = row.key.slot if isinstance(row, Release) else row.begin or 0
        return begin if begin > self.world.now and not row.key.by_hand else 0  # by hand: a clock ahead of ours says so

    def _not_its_own(self, row: Submit | Release, log: Path) -> None:
        """What stands where its log is to be made was planted: Slurm would follow a link, and cut off its target.

        Unless its user has released it before us, so that its log is its own. Raises OSError.
        """
        job_id, begun = self._job_id(row), False
        try:
            jobs = self.site.batch.queue().jobs
            begun = any(job.state != "PENDING" for job in jobs if job.id == job_id)
        except BatchError as error:
            self.progress.failed(error)
        if begun:
            for step in (ClaimState.RELEASING, ClaimState.RELEASED):
                self.claims.step(row.key, step)
            self.progress.note(row, Done.OK, "somebody else has released it", job_id)
            return
        why = f"{log} was there before the run: somebody put it there. Remove it: rm {log}"
        if self.progress.cancel_held(job_id):
            name = self.progress.planned[row.key].name
            self.progress.end([Finish(row.key, name, JobEnd(Result.REFUSED, detail=why))])
            self.progress.note(row, Done.FAILED, why, job_id)
        else:
            self.progress.note(row, Done.REFUSED, f"{why}. Job {job_id} stays unreleased", job_id)

    def _planted(self, row: Submit | Release) -> Path | None:
        """A file under the log's name of a job that has not begun; a script that names its own log minds it itself."""
        entry = self.world.entries_by_id().get(row.key.entry)
        if not self._is_new(row) or (entry is not None and not entry.output):
            return None
        folder = self.site.paths.log / row.key.entry
        begins = row.key.log_stem(self._job_id(row))
        if os.path.lexists(folder / f"{begins}.out"):
            return folder / f"{begins}.out"
        return next(folder.glob(f"{begins}_*"), None) if entry is None or entry.array else None

    def _releasing(self, row: Submit | Release) -> bool:
        """Note that the release may be sent; False where another has gone further. Raises OSError."""
        if self._is_new(row) and not self.claims.step(row.key, ClaimState.RELEASING):
            self.progress.note(row, Done.REFUSED, "another tick has released it")
            return False
        self.progress.is_now(row.key, ClaimState.RELEASING, self._job_id(row))
        return True

    def _unreleased(self, rows: Sequence[Submit | Release], why: str) -> None:
        noted = {id(outcome.decision) for outcome in self.progress.outcomes}
        for row in rows:
            if id(row) not in noted:
                self.progress.note(row, Done.PASSING, f"job {self._job_id(row)} {why}", self._job_id(row))

    def _send(self, sending: Sequence[Submit | Release]) -> None:
        held_on_purpose = {name for name, entry in self.world.entries_by_id().items() if entry.holds_itself}
        ids = [self._job_id(row) for row in sending if row.key.entry not in held_on_purpose]
        if ids and self.progress.unreachable and not self.progress.has_time(self.site.settings.timeout):
            self._unreleased(sending, f"is held: {self.progress.unreachable}")
            return
        self._give_own_comments(sending)
        try:
            for row in sending if self.drops_begin else ():
                if begin := self._begin(row):
                    self.site.batch.move(self._job_id(row), begin)
            still, why = self._released(ids)
        except BatchError as error:
            self.progress.failed(error)
            self._unreleased(sending, f"is held; its release failed: {error.text}")
            return
        self._unreleased([row for row in sending if self._job_id(row) in still], f"is held; its release failed: {why}")
        for row in sending:
            if self._job_id(row) in still:
                continue
            with suppress(OSError):  # the next tick sees that it is released, and marks it
                self.claims.step(row.key, ClaimState.RELEASED)
            self.progress.note(row, Done.OK, job_id=self._job_id(row))

    def _give_own_comments(self, sending: Sequence[Submit | Release]) -> None:
        """A script's own comment stands alone from now on, as the site's programs read it: the job's id is recorded."""
        comments = {name: entry.comment for name, entry in self.world.entries_by_id().items() if entry.comment}
        commented = (row for row in sending if row.key.entry in comments)
        for comment, alike in grouped(commented, lambda row: comments[row.key.entry]).items():
            with suppress(BatchError):  # it stands behind the token then
                ids = [self._job_id(row) for row in alike]
                self.site.batch.comment(ids, cut_comment(" ".join(comment.split("\n"))))

    def _released(self, ids: Sequence[str]) -> tuple[frozenset[str], str]:
        """Those that are still held, and why: for one that can never start scontrol reports the call as failed."""
        try:
            if ids:
                self.site.batch.release(ids)
        except Unreachable:
            raise
        except BatchError as error:
            jobs = self.site.batch.queue().jobs
            return frozenset(job.id for job in jobs if job.id in ids and job.live and job.held_by_user), error.text
        return frozenset(), ""

    def _not_stopped(self, rows: Sequence[Submit | Release]) -> list[Submit | Release]:
        """A switch set while we submitted: what it covers is cancelled, still held."""
        if not rows:
            return []
        world = with_switches(self.site, self.world)
        ready = []
        ended: list[Finish] = []
        for row in rows:
            entry, claim = world.entries_by_id().get(row.key.entry), self.progress.planned[row.key]
            job_id = claim.job_id or ""
            switch = switch_on(world, entry) if entry is not None else None
            if switch is None and not world.switches.unknown:
                ready.append(row)
                continue
            why = switch.in_words if switch else f"{world.switches.unknown[0]} cannot be read"
            goes = switch is not None and self._is_new(row)
            ahead = row.key.slot > self.world.now  # the switch may be lifted before its slot comes
            if goes and ahead:
                self.claims.take_back({row.key: job_id}, self.progress.clock)
            if goes and self.progress.cancel_held(job_id):
                if ahead:
                    with suppress(OSError):
                        self.claims.end_job(row.key, job_id)
                else:
                    ended.append(Finish(row.key, claim.name, JobEnd(Result.STOPPED, detail=why)))
            done = Done.REFUSED if switch else Done.PASSING
            self.progress.note(row, done, f"{why}: job {job_id} stays unreleased", job_id)
        self.progress.end(ended)
        return ready


def _not_tried(row: Submit, why: str) -> Outcome:
    """No sbatch was called: surely there is no job. Before its slot has come it is not due, either."""
    return Outcome(row, Done.PASSING if row.begin is None else Done.REFUSED, f"not tried: {why}", cause=why)


def _some_tasks(entry: Entry, tasks: str) -> tuple[str, ...]:
    """A further attempt of an array runs those tasks that failed, as many at once as the script says."""
    _, percent, limit = str(entry.array).partition("%")  # True in what an older version has cached
    return (f"--array={tasks}{percent}{limit}",) if tasks and entry.array else ()


def _place_of(ping: str) -> str:
    """An address as written: what is secret in a file, or a variable, is looked up where the job runs."""
    kind, _, path = ping.partition(":")
    return f"file:{os.path.expanduser(path)}" if kind == "file" else ping  # noqa: PTH111 - a text


def _disk_words(error: OSError) -> str:
    return f"{error.filename or 'state/claims'}: {error.strerror}"

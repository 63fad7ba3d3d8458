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
from cronhpc.core.attempts import with_log
from cronhpc.core.identity import absences, counted, queued
from cronhpc.core.model import (
    ClaimState,
    Done,
    EntryState,
    JobEnd,
    Key,
    Obstacle,
    Outcome,
    Plan,
    Reason,
    Release,
    Result,
    cut_comment,
    slot_text,
    token,
)
from cronhpc.core.slots import text_key
from cronhpc.core.stop import switch_on
from cronhpc.cron.values import dataclass, grouped, replace
from cronhpc.engine.read import with_switches
from cronhpc.script.advice import word
from cronhpc.store import history, scheduler
from cronhpc.store import memory as store_memory
from cronhpc.store.claims import Claims
from cronhpc.store.decode import iso
from cronhpc.store.files import read_bytes, replace_file
from cronhpc.store.trust import Trust, trust_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cronhpc.core.model import Decision, Entry, Submit, World
    from cronhpc.engine.site import Site

_TIMEOUT = 45.0  # seconds: a tick under a controller that does not answer ends within a minute
_LOOK_AGAIN = 86400  # seconds
_EARLY = 60  # seconds
_AT_ONCE = 64  # runs to come that are claimed before the first of them is tried
_LOST = 8  # submissions in a row without an answer: then there is nobody to answer
_BEFORE_ITS_SLOT = 3600  # seconds: what waited ahead of its slot may have ended before it


class Progress:
    """One plan carried out: what came of its decisions so far, and what may still be asked of the batch system."""

    def __init__(self, site: Site, world: World, looked: float | None = None) -> None:
        """`looked`: the `elapsed` of `world.now`; a look at a slow disk or queue takes seconds."""
        self.site = site
        self.world = world
        self.claims = Claims(site.paths.claims)
        self.plan = Plan((), world.now)  # that is carried out
        self.outcomes: list[Outcome] = []
        self.unreachable = ""  # what the batch system gave no answer with: nothing more is asked of it in this tick
        self.unanswered = ""  # what a submission gave no answer with: its job may be there, as the next look sees
        self.lost = 0  # submissions in a row that gave none
        self.at_submit_limit = (
            ""  # the limit that was met, the site's or of time: nothing more is submitted in this tick
        )
        self._began = elapsed()
        self._looked = self._began if looked is None else looked

    @property
    def clock(self) -> int:
        """The instant that it is by now, epoch seconds."""
        return int(self.world.now + elapsed() - self._looked)

    @property
    def ended_by(self) -> str:
        """Why nothing more is submitted in this tick; "" as long as more may be. Asked where there is more."""
        if not self.at_submit_limit and elapsed() > self._began + _TIMEOUT:
            self.at_submit_limit = "this tick has no time left"
        return self.unreachable or self.at_submit_limit or self._stopped

    @property
    def _stopped(self) -> str:
        """What `stop` since this tick looked means; what was submitted by then is released, as runs go on."""
        with suppress(OSError):
            if self.world.chain.wanted and scheduler.marks(self.site.paths).stopped:
                return "the scheduler was stopped meanwhile"
        return ""

    @property
    def has_time_for_one(self) -> bool:
        """Whether one more command may run into its time-out."""
        return elapsed() + self.site.settings.timeout <= self._began + _TIMEOUT

    def failed(self, error: BatchError) -> None:
        """What an error means for the rest of this tick; a plain no to one thing means nothing."""
        if isinstance(error, Denied) and (self.world.call.link or self.site.batch.dialect.job.id in os.environ):
            self.site.changes.note("submit", f"{self.site.host}: {error.text}", self.world.now)
        if isinstance(error, Unreachable):
            self.unreachable = error.text
        elif isinstance(error, AtSubmitLimit):
            self.at_submit_limit = error.text

    def submission_failed(self, error: BatchError, took: float) -> None:
        """The same of a submission after `took` seconds: a lost reply keeps no run waiting, but time-outs do."""
        if not isinstance(error, Unreachable):
            self.failed(error)
            return
        self.unanswered = error.text
        self.lost += 1
        if self.lost >= _LOST or not error.passing or elapsed() + took > self._began + _TIMEOUT:
            self.failed(error)

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
        self.outcomes.append(Outcome(decision, done, detail, job_id, obstacle, cause))


@dataclass(slots=True)
class Held:
    """A held job whose id is on disk: it waits for the one release."""

    decision: Submit | Release
    key: Key
    job_id: str
    state: ClaimState


class Submitter:
    """Submits and releases the attempts of one plan; what came of each is noted in `progress`."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.site, self.world, self.claims, self.note = progress.site, progress.world, progress.claims, progress.note
        self.by = f"{self.site.host}:{os.getpid()}:{os.urandom(4).hex()}"
        self.refused: set[str] = set()  # entry ids of which sbatch has refused a run in this tick
        taken_back = [claim.job_id for claim in self.world.claims if claim.taken_back]
        absent = absences(self.world) if taken_back else {}
        # Whether a job that is taken back may have its place still: its slot is to have that again.
        self.frees = any((why := absent.get(job_id or "")) and why.may_live for job_id in taken_back)
        self.drops_begin = self.world.chain.drops_begin

    def submit(self, rows: Sequence[Submit]) -> None:
        """Claim, submit held, record, and release what was recorded. Raises OSError."""
        prepared: list[Submit] = []
        limit = self.world.kept.job_limit
        asked = sum(counted(self.world, row) for row in rows) if limit else 0
        one_by_one = asked > 0 and queued(self.world) + asked > limit  # else chance decided who is taken
        for row in rows:
            if row.begin is not None and self.frees and limit:
                self.note(row, Done.REFUSED, "a run is being taken back: the tick that sees it gone submits")
            elif obstacle := self._obstacle(row):
                self.note(row, Done.PASSING, obstacle)
            else:
                prepared.append(row)
        due, ahead = ([row for row in prepared if (row.begin is None) == now] for now in (True, False))
        at_once = 1 if one_by_one else self.site.settings.parallel
        held: list[Held] = []
        for some in filter(None, (due, *(ahead[at : at + _AT_ONCE] for at in range(0, len(ahead), _AT_ONCE)))):
            if some is not due and (why := self.progress.ended_by):  # unclaimed they cost the next looks nothing
                for row in some:
                    self._note_error(row, NotTried(why))
                continue
            claimed = self._claimed(some)
            for row, answer in zip(claimed, side_by_side(self._submit_held, claimed, at_once), strict=True):
                if isinstance(answer, str):
                    held.append(Held(row, row.key, answer, ClaimState.SUBMITTED))
                    self._finish_replaced(row)
                else:
                    self._note_error(row, answer)
        self._release_held(held)

    def release(self, rows: Sequence[Release]) -> None:
        """Release attempts that an earlier tick left recorded, or whose release it may have sent."""
        claimed = self.world.claimed()
        held: list[Held] = []
        for row in rows:
            state = claimed[row.key].state if row.key in claimed else ClaimState.SUBMITTED
            if state is ClaimState.CLAIMED:  # just adopted
                state = ClaimState.SUBMITTED
            if not row.marked:
                held.append(Held(row, row.key, row.job_id, state))
                continue
            try:
                if state is ClaimState.SUBMITTED:
                    self.claims.step(row.key, ClaimState.RELEASING)
                self.claims.step(row.key, ClaimState.RELEASED)
            except OSError as error:
                self.note(row, Done.PASSING, f"it was released already; {_disk_words(error)}", row.job_id)
            else:
                self.note(row, Done.OK, "it was released already", row.job_id)
        self._release_held(held)

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
        """Those that are ours alone: claimed by us, and not used up by anyone while we were planning."""
        mine = []
        listed = self.claims.names() if any(row.reason is Reason.AGAIN for row in rows) else {}
        for row in rows:
            if refusal := self._claim(row, listed.get(row.key)):
                self.progress.outcomes.append(refusal)
            else:
                mine.append(row)
        try:
            return self._in_time(mine)
        except OSError as error:  # the claims stand, and the next tick goes on from there
            for row in mine:
                self.note(row, Done.PASSING, f"claimed, and not submitted: {_disk_words(error)}")
            return []

    def _claim(self, row: Submit, steps: Collection[str] | None) -> Outcome | None:
        """What came of it where the attempt is not ours; None: it is. `steps`: of one that is claimed already."""
        if row.reason is Reason.AGAIN:
            if steps is None or "" not in steps:
                return Outcome(row, Done.REFUSED, "it was finished meanwhile")
            job_id = self.claims.job_id(row.key) if len(steps) > 1 else None
            return Outcome(row, Done.REFUSED, f"job {job_id} is there still") if job_id else None
        try:
            made = self.claims.make(
                row.key, row.entry.name, self.by, self.world.now, holds=self._holds(row), tasks=row.tasks
            )
        except OSError as error:
            return Outcome(row, Done.PASSING, f"it could not be claimed: {_disk_words(error)}")
        return None if made else Outcome(row, Done.REFUSED, Obstacle.TAKEN, obstacle=Obstacle.TAKEN)

    def _holds(self, row: Submit) -> str:
        """Of what waits for its slot, which text it was made of."""
        before = self.world.claimed().get(row.key)
        ahead = row.reason is Reason.AHEAD or (before is not None and before.holds and row.begin is not None)
        return text_key(row.entry) if ahead else ""

    def _in_time(self, mine: list[Submit]) -> list[Submit]:
        """Those of our claims that do not come too late, durable. Raises OSError."""
        if not mine:
            return []
        fresh = [row for row in mine if row.reason is not Reason.AGAIN]
        late = self._late(fresh)
        self.claims.sync()
        for row in fresh:
            if row.key in late:
                self._passed(row)
                taken = Obstacle.TAKEN if row.key.by_hand else None
                self.note(row, Done.REFUSED, taken or "its slot was used up meanwhile", obstacle=taken)
        return [row for row in mine if row.key not in late]

    def _passed(self, row: Submit) -> None:
        """Our claim goes where its slot had ended before that; else others saw it, and a later one has ended since."""
        told = row.key.by_hand or row.key.attempt > 1
        with suppress(OSError):
            if not told and not self._archived(row.key):
                if self.claims.job_id(row.key) is None:
                    why = "a later slot has had its turn, while the tick that claimed this one stood still"
                    self._finish(row.key, row.entry.name, JobEnd(Result.MISSED, detail=why))
                return
        self.claims.give_up(row.key)

    def _late(self, rows: list[Submit]) -> set[Key]:
        """Read again after claiming: this tick may have been stopped since it read, and another went past the slot."""
        if not rows:
            return set()
        believed = self.world.believed
        names = self.claims.names()
        late = self.claims.late([row.key for row in rows], believed, names)
        states = store_memory.load(self.site.paths.entries).entries
        for row in rows:
            key = row.key
            if key.by_hand and key.attempt > 1:
                if self._archived(key):
                    late.add(key)
                continue
            if key.attempt > 1:
                if "" not in names.get(replace(key, attempt=key.attempt - 1), ()):
                    late.add(key)  # its first attempt is archived, so the further one has been made
                continue
            state = states.get(row.entry.name, EntryState())
            if state.last.get("key") == str(key) if key.by_hand else key.slot <= state.watermark <= believed:
                late.add(key)  # a run by hand: another of this second has ended already
        return late

    def _archived(self, key: Key) -> bool:
        """Whether history has this attempt, or tells of its slot with others: it has ended, its claim is forgotten."""
        for row in history.rows(self.site.paths.history):
            last = Key.of(row.get("key", "")) if row.get("what") == "slot" and row.get("count") != 1 else None
            with_others = last is not None and last.entry == key.entry and last >= key and not key.by_hand
            if row.get("key") == str(key) or with_others:
                return True
            if row.get("at", 0) < key.slot - _BEFORE_ITS_SLOT:
                return False
        return False

    # --- phase two: held submission, the id on disk

    def _submit_held(self, row: Submit) -> str | BatchError:
        """Submit held, and record the id at once."""
        if row.begin is not None and row.key.entry in self.refused:
            return AsBefore("refused as its slot before that")
        if why := self.progress.ended_by:
            return NotTried(why)
        began = elapsed()
        try:
            job = self._submission(row)
            if row.replaces:
                self.site.batch.cancel(row.replaces)
            job_id = self.site.batch.submit(job)
            self.progress.lost = 0
        except OSError as error:  # its wrapper could not be written: no other's matter
            return NotTried(_disk_words(error))
        except Refused as error:
            self.refused.add(row.key.entry)
            return error
        except BatchError as error:
            self.progress.submission_failed(error, elapsed() - began)
            return NoReply(error.text) if isinstance(error, Unreachable) and error.passing else error
        try:
            recorded = self.claims.record(row.key, job_id, self.progress.clock, holds=self._holds(row))
            if not recorded and self.claims.job_id(row.key) != job_id:
                return Twin(job_id)  # unless another tick has found this very job and adopted it
        except OSError as error:  # a full disk: the job stays held, and is found by its token
            return Unreachable(
                f"job {job_id} is held, its id could not be recorded ({error.strerror}); the next tick will"
            )
        return job_id

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

    def _note_error(self, row: Submit, error: BatchError) -> None:
        if isinstance(error, Refused):
            if other := self.claims.job_id(row.key):
                self.note(row, Done.REFUSED, f"another tick has submitted it as job {other}", other)
                return
            if row.begin is None:  # before its slot has come it may be fixed
                self._finish(row.key, row.entry.name, JobEnd(Result.REFUSED, detail=error.text))
            self.note(row, Done.FAILED, error.text)
        elif isinstance(error, AsBefore):
            self.note(row, Done.REFUSED, error.text)
        elif isinstance(error, Twin):
            self._cancel_held(error.text)
            self.note(
                row, Done.REFUSED, f"another tick submitted it as well; job {error.text} is cancelled, still held"
            )
        else:
            met = Obstacle.SUBMIT_LIMIT if isinstance(error, AtSubmitLimit) else None
            known = Obstacle.NO_ANSWER if isinstance(error, Unreachable) and error.passing else met
            not_yet = row.begin is not None and isinstance(error, AtSubmitLimit | NotTried)  # it is not due, either
            why = f"{error.text} (no more tries in this tick)" if met else error.text
            self.note(row, Done.REFUSED if not_yet else Done.PASSING, why, obstacle=known, cause=error.cause)

    def _finish_replaced(self, row: Submit) -> None:
        """The runs that made room (overlap: replace) have ended by our hand."""
        for claim in self.world.claims if row.replaces else ():
            if claim.job_id in row.replaces and claim.job_end is None:
                job_end = JobEnd(Result.KILLED, detail=f"replaced by the slot {slot_text(row.key.slot)}")
                job_end = with_log(self.world, claim.key, job_end, claim.job_id)
                self._finish(claim.key, claim.name, job_end, claim.job_id)

    # --- the release, and what stands against it

    def _release_held(self, recorded: Sequence[Held]) -> None:
        """One release for all whose ids are on disk, after a last look at the disk and at the switches."""
        self._look_at_submissions(recorded)
        planted = {each.key: found for each in recorded if (found := self._planted(each))}
        mine: list[Held] = []
        sending: list[Held] = []
        try:  # looked at after the logs: a log of a job that another tick has released since is no planted one
            gone = self.claims.superseded(each.key for each in recorded if each.state is ClaimState.SUBMITTED)
            mine = [each for each in recorded if not self._is_gone(each, gone)]
            mine = [each for each in mine if not self._begun(each, planted)]
            ready = self._not_stopped([each for each in mine if not self._led_astray(each, planted)])
            ready = [each for each in ready if self._releasing(each)]
            recorded_now = self.claims.job_ids(each.key for each in ready) if ready else {}
            sending = [each for each in ready if self._is_recorded(each, recorded_now.get(each.key))]
            if sending:
                self.claims.sync()
        except OSError as error:
            self._unreleased(mine or recorded, f"is held: {_disk_words(error)}")
        else:
            self._send(sending)

    def _look_at_submissions(self, recorded: Sequence[Held]) -> None:
        """Once a day: does this site keep --hold? Where it does not, a run may begin before it is written down.

        And does it keep --begin, which a run submitted ahead of its slot needs?
        """
        ids = {each.job_id: each.key for each in recorded if each.state is ClaimState.SUBMITTED}
        site, now, clock = self.site, self.world.now, self.progress.clock
        begins = {each.job_id: begin for each in recorded if (begin := self._begin(each)) > clock}
        old = [not 0 <= now - site.changes.looked_at(kind) < _LOOK_AGAIN for kind in ("hold", "begin")]
        asks_now = ids and (old[0] or (old[1] and begins)) and not site.batch.dialect.runs_here
        if not asks_now or self.progress.unreachable:
            return
        try:
            jobs = [job for job in self.site.batch.queue().jobs if job.id in ids]
        except BatchError as error:
            self.progress.failed(error)
            return
        if jobs:
            begun = (job.id for job in jobs if not job.held)  # or another tick has adopted and released it
            site.changes.note("hold", next((each for each in begun if self.claims.awaits_release(ids[each])), ""), now)
        if asked := [job for job in jobs if job.id in begins]:
            early = [job.id for job in asked if job.held and (job.start or 0) < begins[job.id] - _EARLY]
            site.changes.note("begin", early[0] if early else "", now)
            self.drops_begin = early[0] if early else self.drops_begin

    def _begin(self, each: Held) -> int:
        """When it is to begin where that is later than now; 0: at once."""
        begin = each.key.slot if isinstance(each.decision, Release) else each.decision.begin or 0
        return begin if begin > self.world.now and not each.key.by_hand else 0  # by hand: a clock ahead of ours says so

    def _is_gone(self, each: Held, gone: set[Key]) -> bool:
        """Another tick has gone further, while this one stood still. Raises OSError."""
        if each.key not in gone:
            return False
        if self.claims.knows(each.key, each.job_id):
            why = f"another tick has released job {each.job_id}"
        else:
            self._cancel_held(each.job_id)
            why = f"it was finished meanwhile; job {each.job_id} is cancelled, still held"
        self.note(each.decision, Done.REFUSED, why, each.job_id)
        return True

    def _begun(self, each: Held, planted: dict[Key, Path]) -> bool:
        """Its user has released it before us, so that its log is its own. Raises OSError."""
        if each.key not in planted:
            return False
        try:
            jobs = self.site.batch.queue().jobs
        except BatchError as error:
            self.progress.failed(error)
            return False
        if all(job.pending for job in jobs if job.id == each.job_id):
            return False
        for step in (ClaimState.RELEASING, ClaimState.RELEASED):
            self.claims.step(each.key, step)
        self.note(each.decision, Done.OK, "somebody else has released it", each.job_id)
        return True

    def _led_astray(self, each: Held, planted: dict[Key, Path]) -> bool:
        """What stands where the log is to be made was planted: Slurm would follow a link, and cut off its target."""
        found = planted.get(each.key)
        if found is None:
            return False
        why = f"{found} was there before the run: somebody put it there. Remove it: rm {found}"
        if self._cancel_held(each.job_id):
            entry = self.world.known().get(each.key.entry)
            self._finish(each.key, entry.name if entry else "", JobEnd(Result.REFUSED, detail=why), each.job_id)
            self.note(each.decision, Done.FAILED, why, each.job_id)
        else:
            self.note(each.decision, Done.REFUSED, f"{why}. Job {each.job_id} stays unreleased", each.job_id)
        return True

    def _planted(self, each: Held) -> Path | None:
        """A file under the log's name of a job that has not begun; a script that names its own log minds it itself."""
        entry = self.world.known().get(each.key.entry)
        if each.state is not ClaimState.SUBMITTED or (entry is not None and not entry.output):
            return None
        folder = self.site.paths.log / each.key.entry
        begins = each.key.log_stem(each.job_id)
        if os.path.lexists(folder / f"{begins}.out"):
            return folder / f"{begins}.out"
        return next(folder.glob(f"{begins}_*"), None) if entry is None or entry.array else None

    def _releasing(self, each: Held) -> bool:
        """Note that the release may be sent; False where another has gone further. Raises OSError."""
        if each.state is not ClaimState.SUBMITTED or self.claims.step(each.key, ClaimState.RELEASING):
            return True
        self.note(each.decision, Done.REFUSED, "another tick has released it")
        return False

    def _is_recorded(self, each: Held, job_id: str | None) -> bool:
        if each.job_id != job_id:
            self.note(each.decision, Done.REFUSED, f"another job than {each.job_id} is recorded for it")
        return each.job_id == job_id

    def _unreleased(self, rows: Sequence[Held], why: str) -> None:
        noted = {id(outcome.decision) for outcome in self.progress.outcomes}
        for each in rows:
            if id(each.decision) not in noted:
                self.note(each.decision, Done.PASSING, f"job {each.job_id} {why}", each.job_id)

    def _send(self, sending: list[Held]) -> None:
        held_on_purpose = {name for name, entry in self.world.known().items() if entry.holds_itself}
        ids = [each.job_id for each in sending if each.key.entry not in held_on_purpose]
        if ids and self.progress.unreachable and not self.progress.has_time_for_one:
            self._unreleased(sending, f"is held: {self.progress.unreachable}")
            return
        self._give_own_comments(sending)
        try:
            for each in sending if self.drops_begin else ():
                if begin := self._begin(each):
                    self.site.batch.move(each.job_id, begin)
            still, why = self._released(ids)
        except BatchError as error:
            self.progress.failed(error)
            self._unreleased(sending, f"is held; its release failed: {error.text}")
            return
        self._unreleased([each for each in sending if each.job_id in still], f"is held; its release failed: {why}")
        for each in sending:
            if each.job_id in still:
                continue
            with suppress(OSError):  # the next tick sees that it is released, and marks it
                self.claims.step(each.key, ClaimState.RELEASED)
            self.note(each.decision, Done.OK, job_id=each.job_id)

    def _give_own_comments(self, sending: Sequence[Held]) -> None:
        """A script's own comment stands alone from now on, as the site's programs read it: the job's id is recorded."""
        comments = {name: entry.comment for name, entry in self.world.known().items() if entry.comment}
        commented = (each for each in sending if each.key.entry in comments)
        for comment, alike in grouped(commented, lambda each: comments[each.key.entry]).items():
            with suppress(BatchError):  # it stands behind the token then
                ids = [each.job_id for each in alike]
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

    def _not_stopped(self, recorded: list[Held]) -> list[Held]:
        """A switch set while we submitted: what it covers is cancelled, still held."""
        if not recorded:
            return []
        world = with_switches(self.site, self.world)
        entries = world.known()
        ready = []
        for each in recorded:
            entry = entries.get(each.key.entry)
            switch = switch_on(world, entry) if entry is not None else None
            if switch is None and not world.switches.unknown:
                ready.append(each)
                continue
            why = switch.said if switch else f"{world.switches.unknown[0]} cannot be read"
            goes = switch is not None and each.state is ClaimState.SUBMITTED
            ahead = each.key.slot > self.world.now  # the switch may be lifted before its slot comes
            if goes and ahead:
                self.claims.take_back({each.key: each.job_id}, self.progress.clock)
            if goes and self._cancel_held(each.job_id):
                if ahead:
                    with suppress(OSError):
                        self.claims.end_job(each.key, each.job_id)
                else:
                    job_end = JobEnd(Result.STOPPED, detail=why)
                    self._finish(each.key, entry.name if entry else "", job_end, each.job_id)
            done = Done.REFUSED if switch else Done.PASSING
            self.note(each.decision, done, f"{why}: job {each.job_id} stays unreleased", each.job_id)
        return ready

    def _cancel_held(self, job_id: str) -> bool:
        """Cancel a job of ours that is held; False: it stays so, and the next tick cancels it.

        One that was released meanwhile, and runs, is left alone.
        """
        try:
            self.site.batch.cancel([job_id], pending_only=True)
        except BatchError as error:
            self.progress.failed(error)
            return False
        return True

    def _finish(self, key: Key, name: str, job_end: JobEnd, job_id: str | None = None) -> None:
        """Write an end down; where the disk refuses, the next tick finds out by itself."""
        with suppress(OSError):
            due = self.progress.plan.due_before(key)
            self.claims.finish(key, name, job_end, job_id, now=self.world.now, due=due)


class Twin(BatchError):
    """Another job was recorded for the attempt while ours was being submitted; `text` is our job's id."""


class NoReply(Unreachable):
    """sbatch was called, and nobody knows what came of it."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"no reply came, and its job may be there: the next tick sees it ({cause})")
        self.cause = cause


class NotTried(BatchError):
    """sbatch was not called, and why: surely there is no job."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"not tried: {cause}")
        self.cause = cause


class AsBefore(BatchError):
    """sbatch was not called: it has refused another slot of the entry in this tick."""


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

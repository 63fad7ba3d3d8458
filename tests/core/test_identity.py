"""Whose a job is, whatever its script, its site and its user make of its comment and its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cronhpc.core.chain import Links
from cronhpc.core.identity import other_marks, records
from cronhpc.core.model import (
    Cancel,
    Claim,
    ClaimState,
    Finish,
    Job,
    KeepLink,
    LinkKind,
    LinkRecord,
    Series,
    Submit,
    SubmitLink,
    Switches,
    World,
)
from cronhpc.core.plan import plan
from tests.worlds import ID, PRINT, at, chain, claim, entry, job, key, link, state, switch, world

E = entry("e", overlap="skip")
K = key("e", "14:00")
RAN = claim("e", "14:00", ClaimState.RELEASED, "7", recorded=at("14:00:05"))
SCRIPT = "/cron/cron.d/e.slurm"
LINK_SCRIPT = f"/var/spool/slurmd/job10/slurm_script {at('15:00')} link 0"


def of(run: Claim, *jobs: Job, **more: Any) -> World:
    return world("14:30", E, jobs=jobs, claims=(run,), states={"e": state("14:00")}, **more)


OURS = {
    "a run as it was submitted": job(7, of=K, name="e", submitted=at("14:00:02"), command=SCRIPT),
    "a run that has changed its comment": job(7, comment="epoch 5", name="e", submitted=at("14:00:02")),
    "a run that has changed its comment and its name": job(7, comment="epoch 5", name="x", submitted=at("14:00:02")),
    "the same, within the second of its record": job(
        7, comment="epoch 5", name="x", submitted=at("14:00:05"), command=SCRIPT
    ),
    "the same, and its command is not known": job(7, comment="epoch 5", name="x", submitted=at("14:00:05")),
    "the same, and it is recorded: its command is its recorder": job(
        7, comment="epoch 5", name="x", submitted=at("14:00:05"), command="/cron/state/stubs/run.slurm"
    ),
    "a run whose comment a site has replaced": job(7, comment="proj=abc", name="e", submitted=at("14:00:02")),
    "a run behind whose prefix the token stands": job(
        7, comment=f"proj=abc cronhpc={ID}/{K}", submitted=at("14:00:02")
    ),
    "a run with the token of another one copied into its comment": job(
        7, comment=f"cronhpc={ID}/{key('o', '14:00')}", name="e", submitted=at("14:00:02")
    ),
    "a run that was requeued, with its token": job(7, of=K, name="e", submitted=at("14:50")),
    "a run that was requeued, comment and name changed": job(
        7, comment="x", name="x", submitted=at("14:50"), restarts=1
    ),
    "a run by a tick whose clock was ahead": job(7, of=K, name="e", submitted=at("11:00"), command=SCRIPT),
    "the same, comment and name changed, and its log is the run's": job(
        7, name="x", submitted=at("11:00"), command=SCRIPT, output="/cron/log/e/20261127T1400Z-7.out"
    ),
    "a run by a controller whose clock is ahead": job(7, comment="x", name="e", submitted=at("14:09"), command=SCRIPT),
    "the same, and its log is the run's": job(
        7, name="x", submitted=at("14:09"), command="/x", output="/cron/log/e/20261127T1400Z-7.out"
    ),
}
ANOTHERS = {
    "submitted long after the id was recorded": job(7, name="e", submitted=at("15:10"), command=SCRIPT),
    "submitted long before the claim": job(7, comment="x", name="e", submitted=at("12:00"), command=SCRIPT),
    "the id was given anew minutes later, to another script of that name": job(
        7, name="e", submitted=at("14:09"), command="/home/u/e.slurm"
    ),
    "the id was given anew minutes later, to a command": job(7, name="e", submitted=at("14:09"), command=""),
    "the id was given anew minutes later, to a job with another log": job(
        7, name="e", submitted=at("14:09"), command=SCRIPT, output="/home/u/slurm-7.out"
    ),
    "the id was given anew within the second, to another script": job(
        7, name="mine", submitted=at("14:00:05"), command="/home/u/mine.sh"
    ),
    "the id was given anew within the second, to a run of another directory": job(
        7, comment="cronhpc=ffffff/e@20261127T1400Z.1", name="x", submitted=at("14:00:05"), command="/home/u/x.slurm"
    ),
    "the id was given anew within the second, to another entry's run in the same wrapper": job(
        7, comment="x", name="x", submitted=at("14:00:05"), command="/cron/state/stubs/run.slurm /cron/cron.d/o.slurm"
    ),
    "the id was given anew, to a run of another directory": job(
        7, comment="cronhpc=ffffff/e@20261127T1400Z.1", name="e", submitted=at("14:09")
    ),
}


@pytest.mark.parametrize("row", [*OURS.values(), *ANOTHERS.values()], ids=[*OURS, *ANOTHERS])
def test_a_job_of_a_recorded_id(row: Job) -> None:
    """What the record says counts for kill switches, overlap and the end of a run alike."""
    ours = row in OURS.values()
    one = of(RAN, row)
    assert (row in records(one).rows_of(RAN)) == ours
    stopped = of(RAN, row, switches=(switch("ALL"),))
    assert ("Stop" in {type(d).__name__ for d in plan(stopped).decisions}) == ours
    assert any(isinstance(d, Finish) for d in plan(one).decisions) != ours
    later = replace(one, now=at("15:00"))
    assert any(isinstance(d, Submit) for d in plan(later).decisions) != ours, "overlap: skip"


def test_a_hand_made_job_of_the_runs_number_and_name_is_not_replaced() -> None:
    """After a controller has lost its state."""
    other = ANOTHERS["the id was given anew minutes later, to another script of that name"]
    one = replace(of(RAN, other), entries=(entry("e", overlap="replace"),), now=at("15:00"))
    (submit,) = (d for d in plan(one).decisions if isinstance(d, Submit))
    assert submit.replaces == ()


# --- what only its token tells -----------------------------------------------------------------------------------


def held(number: int, **more: Any) -> Job:
    return job(number, "PENDING", reason="JobHeldUser", **{"of": K, "submitted": at("14:00:04"), **more})


@pytest.mark.parametrize(
    ("row", "cancelled"),
    [
        pytest.param(held(9, name="e", command=SCRIPT), True, id="a second submission of the attempt"),
        pytest.param(held(9, name="e", command=""), True, id="one that a wrapper gave to sbatch by a pipe"),
        pytest.param(held(9, name="mine", command="/home/u/mine.sh"), False, id="a user's own, the token copied"),
        pytest.param(held(9, name="wrap", command=""), False, id="a user's own command, the token copied"),
        pytest.param(held(9, name="e", submitted=at("12:00")), False, id="submitted hours before the recorded one"),
        pytest.param(held(9, name="e", submitted=at("18:00")), False, id="submitted hours after it"),
    ],
)
def test_a_held_job_with_the_token_of_a_recorded_attempt(row: Job, *, cancelled: bool) -> None:
    one = of(RAN, job(7, name="e", submitted=at("14:00:02")), row)
    assert [d.job_id for d in plan(one).decisions if isinstance(d, Cancel)] == (["9"] if cancelled else [])


# --- links -------------------------------------------------------------------------------------------------------

LOG = "/cron/log/e/20261127T1400Z-9.out"


@pytest.mark.parametrize(
    ("row", "adopted"),
    [
        pytest.param(job(9, "PENDING", of=K, reason="JobHeldUser", submitted=at("11:00")), True, id="its token"),
        pytest.param(
            job(9, comment="proj", name="x", command=SCRIPT, output=LOG, submitted=at("14:01")), True, id="its log"
        ),
        pytest.param(
            job(9, "COMPLETED", comment="proj", name="x", command=SCRIPT, output=LOG, submitted=at("14:01")),
            False,
            id="its log, and it has ended: it is finished",
        ),
        pytest.param(
            job(9, name="e", command=SCRIPT, output="/home/u/slurm-9.out", submitted=at("14:01")), None, id="by hand"
        ),
        pytest.param(job(9, name="e", command=SCRIPT, output=LOG, submitted=at("12:00")), None, id="long before"),
        pytest.param(
            job(
                9,
                "COMPLETED",
                comment="own",
                command="/cron/state/stubs/run.slurm",
                submitted=at("14:01"),
                output=LOG.replace("/e/", "/f/"),
            ),
            None,
            id="another entry's run of that slot",
        ),
    ],
)
def test_a_claim_without_id_finds_its_job(row: Job, *, adopted: bool | None) -> None:
    """What sbatch printed was lost, or was no id; the site replaces comments, and may drop --hold."""
    (first, *_) = plan(of(claim("e", "14:00", ClaimState.CLAIMED), row, job_ends={})).decisions
    assert type(first).__name__ == {True: "Adopt", False: "Finish", None: "Submit"}[adopted]


def test_of_a_script_that_names_its_own_log_script_name_and_time_do() -> None:
    wrapper, end = "/cron/state/stubs/run.slurm", "/cron/state/ends/e@20261127T1400Z.1.json"
    others = f"{wrapper} /cron/cron.d/other.slurm {end.replace('e@', 'other@')}"
    for its, adopted in ((SCRIPT, True), (f"{wrapper} {SCRIPT} {end}", True), (wrapper, True), (others, False)):
        row = job(9, name="e", command=its, submitted=at("14:01"))
        one = replace(of(claim("e", "14:00", ClaimState.CLAIMED), row), entries=(entry("e", output=False),))
        assert any(type(d).__name__ == "Adopt" for d in plan(one).decisions) == adopted, its


KNOWN = {
    "10": LinkRecord(LinkKind.SUCCESSOR, at("15:00"), PRINT, at("14:00")),
    "11": LinkRecord(LinkKind.SPARE, at("15:30"), PRINT, at("14:00")),
}
GOOD = (link(10, "15:00"), link(11, "15:30", "spare"))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"comment": "proj=abc"}, id="replaced comments"),
        pytest.param({"comment": ""}, id="comments removed"),
        pytest.param({"comment": "proj=abc", "name": "abc-job"}, id="replaced comments and names"),
    ],
)
def test_links_whose_comments_a_site_replaces_are_known_by_their_records(change: dict[str, Any]) -> None:
    jobs = tuple(replace(each, submitted=at("14:00"), **change) for each in GOOD)
    one = world("14:30", jobs=jobs, links=KNOWN, chain=chain())
    found = Links.of(one)
    assert ([j.id for j in found.successors], [j.id for j in found.spares]) == (["10"], ["11"])
    assert {type(d).__name__ for d in plan(one).decisions} == {"KeepLink"}
    by_name = Switches((switch(jobs[0].name),))
    assert not list(plan(replace(one, switches=by_name)).decisions[2:]), "nor does a name reach them"


def test_a_link_that_nobody_recorded_is_known_by_its_name_and_script_and_gets_a_new_one_in_its_place() -> None:
    """The disk was full, or a version before this one has submitted it, on a site that replaces comments."""
    bare = replace(GOOD[0], comment="proj=abc", command=LINK_SCRIPT)
    assert [j.id for j in Links.of(world("14:30", jobs=(bare,), chain=chain())).successors] == ["10"]


@pytest.mark.parametrize("kind", ["link", "spare"])
def test_a_link_of_which_a_site_changes_all_is_known_by_its_arguments_and_stays(kind: str) -> None:
    """Its name and its comment, and the id that sbatch prints is garbled, so that nobody could record it."""
    command = f"/var/spool/slurmd/job10/slurm_script {at('15:00')} {kind} 0  {ID}/{PRINT}"
    row = replace(link(9, "15:00" if kind == "link" else "15:30"), name="abc-job", comment="proj=abc", command=command)
    one = world("14:30", jobs=(row,), chain=chain())
    assert [each.id for each in getattr(Links.of(one), "successors" if kind == "link" else "spares")] == ["9"]
    assert [d.job_id for d in plan(one).decisions if isinstance(d, KeepLink)] == ["9"]
    elsewhere = replace(row, command=command.replace(ID, "0ther0"))
    assert not Links.of(world("14:30", jobs=(elsewhere,), chain=chain())).successors


@pytest.mark.parametrize(
    "mine",
    [
        pytest.param(replace(GOOD[0], id="12", name="mine", command="/home/u/mine.sh"), id="its comment copied"),
        pytest.param(replace(GOOD[0], id="12", comment="", command="/home/u/mine.sh"), id="its name copied"),
        pytest.param(replace(GOOD[0], comment="", name="mine", submitted=at("14:50")), id="the number given anew"),
    ],
)
def test_a_users_own_job_is_no_link(mine: Job) -> None:
    one = world("14:55", jobs=(mine,), chain=chain(), links={"10": replace(KNOWN["10"], at=at("14:00"))})
    assert not Links.of(one).successors
    assert any(isinstance(d, SubmitLink) for d in plan(one).decisions)


# --- series ------------------------------------------------------------------------------------------------------


def test_the_first_piece_of_a_series_is_known_by_its_record() -> None:
    """A person started it, so there is no claim; its script has changed comment and name above `again`."""
    first = job(8, name="x", comment="x", submitted=at("12:00"))
    series = Series(entry("tr", schedule="", job_name="tr"), newest="8", at=at("13:00"))
    one = world("14:30", jobs=(first,), series=(series,))
    owner = records(one).of(first)
    assert owner is not None
    assert owner.entry == "tr"
    assert records(one).of(replace(first, submitted=at("14:00"))) is None, "another job of that number"


def test_a_later_piece_whose_comment_is_its_scripts_own_is_its_claims_and_lives() -> None:
    """Both its claim and the record of its series, which is the newer one, have its id."""
    piece = job(9, name="tr", comment="mine", submitted=at("14:00:02"))
    made = claim("tr", "14:00", ClaimState.RELEASED, "9", recorded=at("14:00:03"))
    series = Series(entry("tr", schedule="", job_name="tr"), newest="9", at=at("14:00:20"))
    one = world("14:30", jobs=(piece,), claims=(made,), series=(series,), job_ends={})
    assert records(one).key(piece) == made.key
    assert not [each for each in plan(one).decisions if isinstance(each, Finish)], "it runs"


def test_links_of_other_cron_directories_are_the_live_ones_that_carry_another_ids_mark() -> None:
    theirs, spare = replace(link(21, "16:00"), comment="cronhpc=ffffff/link x"), replace(link(22, "16:30", "spare"))
    spare = replace(spare, comment="cronhpc=ffffff/spare x")
    run, ended = job(23, comment=f"cronhpc=ffffff/{K}"), replace(theirs, id="24", state="COMPLETED")
    assert other_marks((link(11, "16:00"), theirs, spare, run, ended), ID) == {"ffffff": (theirs, spare)}

"""What doctor says of a cluster, from what Slurm told: a table of sites."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronhpc.core.model import Settings
from cronhpc.core.model.site import Cluster, Finding, Limit, Partition, Site
from cronhpc.doctor.judge import cheap, of_cluster

CPU = Partition("cpu", default=True, nodes=3)
GPU = Partition("gpu", gpus=True, nodes=9)
WELL = Cluster(
    Site("lab", "24.11.5", "abc", ("abc", "xyz"), accounting=True, min_job_age=300),
    offers=(CPU, GPU),
    limits=(Limit("QOS normal", 100),),
    kill_wait=60,
    requeue=False,
    clock=1000,
)
PLAIN = Settings()
NO_ACCOUNTING = replace(WELL, site=replace(WELL.site, accounting=False), limits=())


UNKNOWN_ACCOUNTING = replace(WELL, site=replace(WELL.site, accounting=None))
SILENT_ACCOUNTING = replace(WELL, site=replace(WELL.site, account="", accounts=()), limits=None, accounts_enforced=True)


def at_submit_limit(*numbers: int) -> Cluster:
    return replace(WELL, limits=tuple(Limit("QOS x", number) for number in numbers))


def says(cluster: Cluster, settings: Settings = PLAIN, clock: tuple[int, int] = (1000, 1001)) -> list[Finding]:
    return [each for each in of_cluster(cluster, settings, asked=clock[0], answered=clock[1]) if each.level != "fine"]


def test_nothing_is_to_be_said_of_a_site_where_all_is_well() -> None:
    assert says(WELL) == []
    fine = [each.topic for each in of_cluster(WELL, PLAIN, asked=1000, answered=1001)]
    assert fine == ["slurm", "clock", "partition", "account", "limits", "ends"]


def with_default(*names: str) -> Cluster:
    return replace(WELL, offers=tuple(replace(each, default=each.name in names) for each in WELL.offers))


def offer(**changes: object) -> Cluster:
    return replace(WELL, offers=(replace(CPU, **changes),))  # type: ignore[arg-type]  # a row of the table


def asks(**options: str) -> Settings:
    return Settings(sbatch=tuple(options.items()))


NO_DEFAULT_ACCOUNT = replace(WELL, site=replace(WELL.site, account="", accounts=("abc",)), accounts_enforced=True)
Put = tuple[tuple[str, str], ...]
TAKE_CPU = (("sbatch.partition", "cpu"),)

# cluster, settings; then of its one finding: level and topic, words, settings to put
SITES: dict[str, tuple[Cluster, Settings, str, str, Put]] = {
    "GPUs by default": (with_default("gpu"), PLAIN, "warning partition", "go to gpu, with GPUs, 9 nodes", TAKE_CPU),
    "no default partition": (with_default(), PLAIN, "warning partition", "go to nowhere", TAKE_CPU),
    "the settings name one with GPUs": (WELL, asks(partition="gpu"), "warning partition", "which has GPUs", ()),
    "the settings name one that is gone": (WELL, asks(partition="old"), "error partition", "partition old", TAKE_CPU),
    "links name one that is gone": (
        WELL,
        Settings(link_sbatch=(("partition", "old"),)),
        "error partition",
        "partition old",
        TAKE_CPU,
    ),
    "GPUs everywhere": (offer(gpus=True), PLAIN, "warning partition", "no partition without GPUs", ()),
    "whole nodes": (offer(whole_nodes=True), PLAIN, "warning partition", "whole nodes", ()),
    "a partition that is down": (offer(up=False), PLAIN, "warning partition", "is not up", ()),
    "five minutes at most": (
        offer(time_limit=300),
        Settings(link_sbatch=(("time", "10"),)),
        "error partition",
        "at most 5m; a link asks for 10m",
        (("scheduler.sbatch.time", "5"),),
    ),
    "login nodes alone submit": (offer(submitters="login[1-2]"), PLAIN, "warning submit", "only login[1-2] may", ()),
    "an account of somebody else": (
        WELL,
        asks(account="zzz"),
        "error account",
        "none of yours (abc, xyz)",
        (("sbatch.account", "abc"),),
    ),
    "accounts are asked for, and there is no default": (
        NO_DEFAULT_ACCOUNT,
        PLAIN,
        "error account",
        "jobs need an account",
        (("sbatch.account", "abc"),),
    ),
    "one job at a time": (at_submit_limit(1), PLAIN, "error limits", "QOS x lets you have 1", ()),
    "two jobs": (at_submit_limit(2), PLAIN, "warning limits", "no room for the spare", ()),
    "four jobs": (at_submit_limit(90, 4), PLAIN, "warning limits", "QOS x lets you have 4", ()),
    "no accounting": (
        NO_ACCOUNTING,
        PLAIN,
        "warning ends",
        "forgets an ended job after 5m, while ticks come every 1h",
        (("defaults.record", "true"),),
    ),
    "nobody knows of accounting": (UNKNOWN_ACCOUNTING, PLAIN, "unknown ends", "accounting", ()),
    "accounting gives no answer": (SILENT_ACCOUNTING, PLAIN, "unknown ends", "limits on jobs", ()),
    "scripts run again": (replace(WELL, requeue=True), PLAIN, "advice requeue", "JobRequeue=1", ()),
    "two seconds to live": (replace(WELL, kill_wait=2), PLAIN, "advice kill", "KillWait is 2 s", ()),
    "no clock": (replace(WELL, clock=None), PLAIN, "unknown clock", "could not be read", ()),
    "the controller is behind": (replace(WELL, clock=940), PLAIN, "warning clock", "60 s ahead of", ()),
    "the controller is ahead": (replace(WELL, clock=1200), PLAIN, "error clock", "199 s behind", ()),
}


@pytest.mark.parametrize(("cluster", "settings", "kind", "words", "put"), SITES.values(), ids=SITES)
def test_one_thing_is_said_of_a_site(cluster: Cluster, settings: Settings, kind: str, words: str, put: Put) -> None:
    (finding,) = says(cluster, settings)
    assert (f"{finding.level} {finding.topic}", finding.settings) == (kind, put)
    assert words in finding.what
    assert finding.fix or finding.settings or finding.level == "unknown"


def test_runs_that_write_their_own_end_need_no_accounting() -> None:
    for word in ("true", "yes"):
        assert says(NO_ACCOUNTING, Settings(defaults=(("record", word, 3),))) == []


def test_a_question_that_took_long_says_nothing_of_the_clock() -> None:
    assert says(replace(WELL, clock=1030), clock=(1000, 1060)) == []


CHEAP = {
    "the default of two": ((CPU, Partition("other", nodes=99)), "cpu"),
    "one that is up": ((replace(CPU, up=False), Partition("other")), "other"),
    "one where jobs share nodes": ((replace(CPU, whole_nodes=True), Partition("shared")), "shared"),
    "the cheaper one": ((replace(CPU, price=1.0), Partition("slow", price=0.25)), "slow"),
    "one that lets the account in": ((replace(CPU, accounts=("xyz",)), Partition("mine", accounts=("abc",))), "mine"),
    "the larger of equals": ((Partition("a", nodes=1), Partition("b", nodes=5)), "b"),
    "none": ((GPU,), None),
}


@pytest.mark.parametrize(("offers", "name"), CHEAP.values(), ids=CHEAP)
def test_the_partition_for_housekeeping(offers: tuple[Partition, ...], name: str | None) -> None:
    found = cheap(replace(WELL, offers=offers), "abc")
    assert (found.name if found else None) == name

"""What Slurm prints about partitions and limits, as doctor reads it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cronhpc.batch.port import Unreachable
from cronhpc.batch.slurm.site import cluster_of, offers_of
from cronhpc.core.model.site import Limit, Partition

CONFIG = """Configuration data as of 1795826219
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = lab
JobRequeue              = 1
KillWait                = 30 sec
MinJobAge               = 300 sec
SLURM_VERSION           = 24.11.5
"""
PARTITIONS = (
    "PartitionName=cpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "MaxTime=1-00:00:00 Nodes=cpu[1-3] OverSubscribe=NO State=UP TotalCPUs=24 TotalNodes=3 "
    "TRES=cpu=24,mem=12000M,node=3,billing=24 TRESBillingWeights=CPU=0.5,Mem=0.25G\n"
    "PartitionName=gpu AllowAccounts=abc,xyz AllocNodes=login1 Default=NO QoS=part MaxTime=UNLIMITED "
    "OverSubscribe=EXCLUSIVE State=DOWN TotalNodes=9 TRES=cpu=24,gres/gpu=36\n"
)
SINFO = "cpu|cpu*|up|1-00:00:00|3|(null)\ngpu|gpu|down|infinite|9|gpu:4\n"
ANSWERS = {
    "scontrol show config": CONFIG,
    "scontrol --oneliner show partition": PARTITIONS,
    "sinfo --noheader --format=%R|%P|%a|%l|%D|%G": SINFO,
    "sacctmgr -n -P show user alice format=DefaultAccount": "abc\n",
    "sacctmgr -n -P show assoc where user=alice cluster=lab format=Account": "abc\nxyz\n",
    "sacctmgr -n -P show assoc where user=alice cluster=lab"
    " format=Account,DefaultQOS,QOS,MaxSubmitJobs,GrpSubmitJobs": "abc||normal|9|\nxyz|long|long,normal||20\n",
    "sacctmgr -n -P show qos format=Name,MaxSubmitJobsPerUser,MaxSubmitJobsPerAccount,GrpSubmitJobs": (
        "normal|4||\nlong||50|\npart|6||\nother|1||\n"
    ),
}


def ask(program: str, arguments: Sequence[str]) -> str:
    """A strict stand-in: a question that it does not know fails the test."""
    return ANSWERS[" ".join((program, *arguments))]


def test_a_partition_has_its_limit_price_and_who_may_submit() -> None:
    cpu, gpu = offers_of(PARTITIONS, set())
    assert cpu == Partition("cpu", default=True, time_limit=86400, nodes=3, price=0.5)
    assert gpu == Partition(
        "gpu", up=False, gpus=True, nodes=9, whole_nodes=True, accounts=("abc", "xyz"), submitters="login1", qos="part"
    )


def test_what_a_cluster_offers_and_limits_is_read_from_its_commands() -> None:
    found = cluster_of(ask, "alice")
    assert (found.site.cluster, found.site.version, found.site.account) == ("lab", "24.11.5", "abc")
    assert (found.kill_wait, found.requeue, found.clock) == (30, True, 1795826219)
    assert found.accounts_enforced
    assert found.limits == (
        Limit("account abc", 9),
        Limit("account xyz", 20),
        Limit("QOS normal", 4),
        Limit("QOS long", 50),
        Limit("QOS part", 6),
    )


def test_each_question_is_put_once() -> None:
    asked: list[tuple[str, ...]] = []

    def counted(program: str, arguments: Sequence[str]) -> str:
        asked.append((program, *arguments))
        return ask(program, arguments)

    cluster_of(counted, "alice")
    assert len(asked) == len(set(asked))


def test_accounting_that_does_not_answer_leaves_the_rest() -> None:
    def without(program: str, arguments: Sequence[str]) -> str:
        if program == "sacctmgr":
            raise Unreachable("away")
        return ask(program, arguments)

    found = cluster_of(without, "alice")
    assert found.limits is None, "unknown is no absence of limits"
    assert found.offers


def test_a_controller_that_does_not_answer_is_said() -> None:
    def unreachable(program: str, arguments: Sequence[str]) -> str:
        raise Unreachable("away")

    with pytest.raises(Unreachable):
        cluster_of(unreachable, "alice")


@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ("OverSubscribe=EXCLUSIVE", True),
        ("OverSubscribe=NO", False),
        ("OverSubscribe=NO Exclusive=NODE", True),
        ("OverSubscribe=NO Exclusive=NO", False),
        ("OverSubscribe=NO Exclusive=USER", False),
    ],
)
def test_a_partition_that_gives_whole_nodes_is_known_by_either_field(fields: str, whole: bool) -> None:  # noqa: FBT001 - a table
    (offer,) = offers_of(f"PartitionName=cpu MaxTime=1-00:00:00 State=UP TotalNodes=2 {fields}\n", set())
    assert offer.whole_nodes is whole

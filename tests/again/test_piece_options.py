"""`cronhpc again`, decided: which sbatch options the next piece gets, as tables."""

from __future__ import annotations

import pytest

from cronhpc.again.submit import log_pattern, merged, told_by_slurm
from cronhpc.script.dialect import option_text

SHOWN = {
    "Partition": "gpu",
    "Account": "(null)",
    "QOS": "normal",
    "TimeLimit": "20:00:00",
    "NumNodes": "2-2",
    "NumTasks": "8",
    "NtasksPerN:B:S:C": "0:0:*:*",
    "CPUs/Task": "1",
    "MinMemoryNode": "0",
    "MinMemoryCPU": "4000M",
    "MinTmpDiskNode": "0",
    "Features": "(null)",
    "ReqNodeList": "(null)",
    "ExcNodeList": "",
    "OverSubscribe": "OK",
    "Licenses": "(null)",
    "Nice": "100",
}


@pytest.mark.parametrize(
    ("shown", "own", "kept"),
    [
        pytest.param({}, {}, "", id="Slurm tells nothing"),
        pytest.param(
            SHOWN,
            {},
            "--partition=gpu --time=20:00:00 --nodes=2 --ntasks=8 --mem-per-cpu=4000M --nice=100",
            id="what was asked for, and no defaults",
        ),
        pytest.param(
            SHOWN,
            {"time": "20:00:00", "nodes": "2", "ntasks": "8", "nice": "100", "partition": "gpu"},
            "--mem-per-cpu=4000M",
            id="what the script says itself is read from it each time",
        ),
        pytest.param({"MinMemoryCPU": "4000M"}, {"mem": "8G"}, "", id="memory is one thing under three names"),
        pytest.param({"TimeLimit": "UNLIMITED"}, {}, "", id="no limit is none"),
        pytest.param({"TresPerNode": "gres:gpu:2"}, {}, "--gres=gpu:2", id="GPUs"),
        pytest.param(
            {"TresPerNode": "gres/gpu:a100:2,gres/ssd:1"}, {}, "--gres=gpu:a100:2,ssd:1", id="by a newer Slurm"
        ),
        pytest.param({"TresPerNode": "gres/gpu=2"}, {}, "--gres=gpu:2", id="GPUs, counted by ="),
        pytest.param({"TresPerNode": "gpu:2"}, {}, "--gres=gpu:2", id="GPUs, by an older Slurm"),
        pytest.param({"TresPerNode": "gres:gpu:2"}, {"gpus-per-node": "2"}, "", id="GPUs of each node, by the script"),
        pytest.param({"TresPerJob": "gres:gpu:4"}, {}, "--gpus=4", id="GPUs of the job"),
        pytest.param({"TresPerJob": "gres/gpu:a100:4"}, {}, "--gpus=a100:4", id="GPUs of a kind"),
        pytest.param({"TresPerTask": "cpu=2,gres/gpu=1"}, {}, "--gpus-per-task=1", id="GPUs of each task"),
        pytest.param({"OverSubscribe": "NO"}, {}, "--exclusive", id="whole nodes"),
        pytest.param({"OverSubscribe": "USER"}, {}, "--exclusive=user", id="nodes of one's own"),
        pytest.param({"OverSubscribe": "NO"}, {"exclusive": None}, "", id="whole nodes, by the script"),
        pytest.param({"OverSubscribe": "NO", "Exclusive": "NO"}, {}, "", id="shared nodes, by Slurm 26.05"),
        pytest.param({"OverSubscribe": "NO", "Exclusive": "NODE"}, {}, "--exclusive", id="whole nodes, by Slurm 26.05"),
        pytest.param({"OverSubscribe": "OK", "Exclusive": "NODE"}, {}, "--exclusive", id="whole nodes beside OK"),
        pytest.param({"OverSubscribe": "NO", "Exclusive": "USER"}, {}, "--exclusive=user", id="by user, in that field"),
        pytest.param({"OverSubscribe": "NO", "Exclusive": "MCS"}, {}, "--exclusive=mcs", id="by label, in that field"),
        pytest.param({"OverSubscribe": "NO", "Exclusive": "TOPO"}, {}, "--exclusive=topo", id="by switch, there"),
        pytest.param(
            {"Features": "a100&ib", "ExcNodeList": "n[7-9]", "Reservation": "course", "Licenses": "x:2"},
            {},
            "--reservation=course --constraint=a100&ib --exclude=n[7-9] --licenses=x:2",
            id="where it may run",
        ),
        pytest.param(
            {"NumNodes": "2", "NumTasks": "8", "NtasksPerN:B:S:C": "4:0:*:1"},
            {},
            "--nodes=2 --ntasks-per-node=4",
            id="tasks that follow from the nodes are not fixed: other nodes would get as few",
        ),
        pytest.param({"NumNodes": "4", "NumTasks": "4"}, {"nodes": "4"}, "", id="one task a node, by default"),
    ],
)
def test_what_slurm_tells_of_the_first_command_line(
    shown: dict[str, str], own: dict[str, str | None], kept: str
) -> None:
    assert " ".join(option_text(*option) for option in told_by_slurm(shown, own).items()) == kept


@pytest.mark.parametrize(
    ("option", "field", "shown", "said", "differs"),
    [
        pytest.param("time", "TimeLimit", "01:00:00", "20:00:00", True, id="another time limit"),
        pytest.param("time", "TimeLimit", "01:00:00", "60", False, id="the same in minutes"),
        pytest.param("time", "TimeLimit", "1-00:00:00", "24:00:00", False, id="the same in hours"),
        pytest.param("time", "TimeLimit", "00:01:00", "00:00:30", False, id="Slurm counts whole minutes"),
        pytest.param("nodes", "NumNodes", "8", "4", True, id="other nodes"),
        pytest.param("nodes", "NumNodes", "3-3", "2-4", False, id="nodes of a range"),
        pytest.param("partition", "Partition", "gpu", "cpu", True, id="another partition"),
        pytest.param("partition", "Partition", "gpu", "cpu,gpu", False, id="one of several partitions"),
        pytest.param("mem", "MinMemoryNode", "8G", "8192", False, id="memory in megabytes"),
        pytest.param("mem", "MinMemoryNode", "16G", "8G", True, id="more memory"),
        pytest.param("gres", "TresPerNode", "gres:gpu:1", "gpu", False, id="one GPU"),
        pytest.param("gres", "TresPerNode", "gres:gpu:2", "gpu", True, id="two GPUs"),
        pytest.param("constraint", "Features", "a&b", '"a&b"', False, id="quoted"),
    ],
)
def test_the_first_command_line_beats_the_script(
    option: str, field: str, shown: str, said: str, *, differs: bool
) -> None:
    assert (option in told_by_slurm({field: shown}, {option: said})) is differs


@pytest.mark.parametrize(
    ("shown", "said", "pattern"),
    [
        pytest.param("/w/slurm-4711.out", None, "", id="nothing was said"),
        pytest.param("/w/my-4711.log", None, "/w/my-%j.log", id="with its number"),
        pytest.param("/w4711/x.log", None, "/w4711/x.log", id="a number in a folder is no job's"),
        pytest.param("/w/14711.log", None, "/w/14711.log", id="nor is a longer one"),
        pytest.param("/w/log/4711-tr.txt", "log/%j-%x.txt", "", id="as the script says"),
        pytest.param("/w/other.log", "log/%j.txt", "/w/other.log", id="otherwise than the script says"),
        pytest.param("/w/n1.log", "%N.log", "", id="what cannot be compared stands"),
        pytest.param("(null)", None, "", id="Slurm tells nothing"),
    ],
)
def test_where_the_command_line_sends_the_log(shown: str, said: str | None, pattern: str) -> None:
    assert log_pattern(shown, said, {"JobId": "4711", "JobName": "tr", "WorkDir": "/w"}) == pattern


@pytest.mark.parametrize(
    ("script", "kept", "given", "options"),
    [
        pytest.param([("time", "60")], [], [], ["--time=60"], id="the script's own"),
        pytest.param([("exclusive", None)], [], [], ["--exclusive"], id="a flag"),
        pytest.param(
            [("time", "60")], [], ["--time=90"], ["--time=60", "--time=90"], id="what `again` is given comes last"
        ),
        pytest.param([("mem", "8G")], ["--mem-per-cpu=4G"], [], ["--mem=8G"], id="memory, once"),
        pytest.param(
            [],
            ["--partition=gpu", "--mem=1G"],
            ["--mem-per-cpu=2G"],
            ["--partition=gpu", "--mem-per-cpu=2G"],
            id="given memory",
        ),
        pytest.param(
            [("mem", "8G")], [], ["--mem-per-cpu=2G"], ["--mem-per-cpu=2G"], id="given instead of the script's"
        ),
    ],
)
def test_the_next_pieces_options(
    script: list[tuple[str, str | None]], kept: list[str], given: list[str], options: list[str]
) -> None:
    assert list(merged(script, kept, given)) == options


@pytest.mark.parametrize(
    ("says", "options"),
    [
        pytest.param("60", ["--time=60", "--time=20"], id="the script is as it was: the command line beats it"),
        pytest.param("90", ["--time=90"], id="its author has edited that line since: it counts"),
        pytest.param(None, [], id="or removed it"),
    ],
)
def test_an_edit_of_what_the_command_line_overruled(says: str | None, options: list[str]) -> None:
    script = [("time", says)] if says else []
    assert list(merged(script, ["--time=20"], [], {"time": "60"})) == options

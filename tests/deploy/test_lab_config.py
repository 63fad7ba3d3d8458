"""The lab's settings: options in, the text of slurm.conf and its companions out."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from deploy.lab.slurmlab import accounting, clock, config, ports
from deploy.lab.slurmlab.options import LabError, Layout, Options, Ports

LAYOUT = Layout(Path("/tmp/l"))
MACHINE = config.Machine(host="box", user="root", release="22.05.8")


def settings(options: Options, machine: config.Machine = MACHINE) -> dict[str, str]:
    """The lines by key; those of nodes and partitions by key and name."""
    nodes = tuple(range(11, 11 + options.nodes + options.gpu_nodes))
    text = config.slurm_conf(options, LAYOUT, Ports(10, nodes, 8, 9), machine)
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        name = f"{key}={value.split()[0]}" if key in config.MANY else key
        assert name not in pairs, f"{name} stands twice"
        pairs[name] = value
    return pairs


def test_a_plain_lab_has_three_cpu_nodes_by_default_and_one_with_gpus() -> None:
    lines = settings(Options())
    assert [name for name in lines if name.startswith("NodeName")] == [
        f"NodeName={n}" for n in ("cpu1", "cpu2", "cpu3", "gpu1")
    ]
    assert "Port=11" in lines["NodeName=cpu1"]
    assert "Port=14" in lines["NodeName=gpu1"]
    assert "Gres=gpu:4" in lines["NodeName=gpu1"]
    assert lines["PartitionName=cpu"] == "cpu Nodes=cpu[1-3] Default=YES MaxTime=INFINITE"
    assert lines["PartitionName=gpu"] == "gpu Nodes=gpu[1-1] Default=NO MaxTime=INFINITE"


def test_without_gpu_nodes_nothing_speaks_of_gpus() -> None:
    options = Options(gpu_nodes=0)
    assert not [line for line in settings(options).items() if "gpu" in str(line).lower()]
    assert config.gres_conf(options) == ""


def test_every_file_lies_in_the_labs_folder() -> None:
    lines = settings(Options(accounting=True))
    keys = (
        "StateSaveLocation",
        "SlurmdSpoolDir",
        "SlurmctldPidFile",
        "SlurmdPidFile",
        "SlurmctldLogFile",
        "SlurmdLogFile",
    )
    assert all(lines[key].startswith("/tmp/l/") for key in keys)
    assert lines["AuthInfo"] == "socket=/tmp/l/run/munge.sock"
    assert lines["AccountingStoragePass"] == "/tmp/l/run/munge.sock"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(Options(), {"MinJobAge": "300", "KillWait": "2"}, id="the machine's own clock"),
        pytest.param(Options(min_job_age=5), {"MinJobAge": "5"}, id="ended jobs vanish sooner"),
        pytest.param(
            Options(speed=600),
            {
                "MinJobAge": "3600",
                "KillWait": "30",
                "MessageTimeout": "1200",
                "TCPTimeout": "600",
                "SlurmdTimeout": "0",
                "BatchStartTimeout": "3600",
            },
            id="a fast clock, whose time-outs must be long",
        ),
        pytest.param(Options(speed=600, min_job_age=7), {"MinJobAge": "7"}, id="a wish beats the fast clock's default"),
        pytest.param(
            Options(conf=("KillWait=9", "minjobage=1")), {"KillWait": "9", "minjobage": "1"}, id="a line beats all"
        ),
        pytest.param(Options(conf=("Prolog=/bin/false",)), {"Prolog": "/bin/false"}, id="a new line is added"),
    ],
)
def test_times_and_further_lines(options: Options, expected: dict[str, str]) -> None:
    lines = settings(options)
    assert {key: lines.get(key) for key in expected} == expected
    assert len({key.lower() for key in lines}) == len(lines)


def test_a_partition_line_replaces_its_like_and_leaves_the_other() -> None:
    lines = settings(Options(conf=("PartitionName=cpu Nodes=cpu[1-2] Default=YES MaxTime=60",)))
    assert lines["PartitionName=cpu"] == "cpu Nodes=cpu[1-2] Default=YES MaxTime=60"
    assert "PartitionName=gpu" in lines


def test_a_new_line_stands_before_the_nodes() -> None:
    keys = list(settings(Options(conf=("NodeSet=ns Nodes=cpu1", "Epilog=/x"))))
    assert keys.index("Epilog") < keys.index("NodeName=cpu1") < keys.index("NodeSet=ns")


@pytest.mark.parametrize("line", ["KillWait", "=3", "", "rm -rf=1"])
def test_a_line_that_is_none_is_refused_with_the_fix(line: str) -> None:
    with pytest.raises(LabError, match="Write Key=Value"):
        settings(Options(conf=(line,)))


def test_accounting_lines_are_there_when_asked_for_only() -> None:
    assert "AccountingStorageType" not in settings(Options())
    lines = settings(Options(accounting=True, enforce="limits"))
    assert (lines["AccountingStoragePort"], lines["AccountingStorageEnforce"]) == ("8", "limits")


@pytest.mark.parametrize(
    ("release", "key", "value"),
    [
        ("20.11.4", "AccountingStoreJobComment", "yes"),
        ("21.08.0", "AccountingStoreFlags", "job_comment"),
        ("22.05.8", "AccountingStoreFlags", "job_comment"),
    ],
)
def test_comments_are_stored_by_the_key_that_the_release_knows(release: str, key: str, value: str) -> None:
    lines = settings(Options(accounting=True), config.Machine(host="box", user="root", release=release))
    stored = {key: value for key, value in lines.items() if key.startswith("AccountingStore")}
    assert stored == {key: value}


@pytest.mark.parametrize(
    ("options", "owner", "orders"),
    [
        pytest.param(Options(), "root", [], id="root needs no association"),
        pytest.param(Options(), "me", ["add user me Account=abc DefaultAccount=abc"], id="a laptop's user"),
        pytest.param(
            Options(users=("alice", "bob"), account="x", max_submit=3),
            "root",
            ["add user alice,bob Account=x DefaultAccount=x", "modify qos normal set MaxSubmitJobsPerUser=3"],
            id="users with a limit",
        ),
    ],
)
def test_what_sacctmgr_is_told(options: Options, owner: str, orders: list[str]) -> None:
    assert accounting.sacctmgr_orders(options, owner)[2:] == orders


def test_daemons_bind_to_the_loopback_address_where_the_host_has_it() -> None:
    near = config.Machine(host="box", user="me", release="22.05.8", loopback_only=True, address="127.0.1.1")
    lines = settings(Options(), near)
    assert lines["CommunicationParameters"] == "NoCtldInAddrAny,NoInAddrAny"
    assert lines["SlurmctldHost"] == "box(127.0.1.1)"
    assert "NodeAddr=127.0.1.1" in lines["NodeName=cpu1"]
    assert "CommunicationParameters" not in settings(Options())


@pytest.mark.parametrize(
    ("said", "release", "cgroup"),
    [
        ("slurm 20.11.9", "20.11.9", ""),
        ("slurm 22.05.8\n", "22.05.8", ""),
        ("slurm-wlm 23.11.4", "23.11.4", ""),
        ("slurm 24.05.0", "24.05.0", "CgroupPlugin=disabled\n"),
        ("slurm-wlm 24.11.5", "24.11.5", "CgroupPlugin=disabled\n"),
        ("slurm 26.05.3", "26.05.3", "CgroupPlugin=disabled\n"),
    ],
)
def test_from_24_05_on_cgroups_are_left_alone(said: str, release: str, cgroup: str) -> None:
    assert config.release(said) == release
    assert config.cgroup_conf(release) == cgroup


def test_a_release_that_cannot_be_read_is_said() -> None:
    with pytest.raises(LabError, match="no release"):
        config.release("command not found")


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        (Options(speed=600), "+0.000 x600"),
        (Options(start_time=1500.0), "+500.000 x1"),
        (Options(start_time=400.0, speed=1.5), "-600.000 x1.5"),
    ],
)
def test_the_clock_is_an_offset_which_no_time_zone_can_shift(options: Options, setting: str) -> None:
    assert clock.setting(options, now=1000.0) == setting


def test_ports_are_distinct_and_nobody_else_listens_there() -> None:
    picked = ports.pick(5, accounting=True)
    every = [picked.ctld, *picked.nodes, picked.dbd, picked.sql]
    assert len(set(every)) == 8
    for port in every:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_a_taken_port_is_not_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
        monkeypatch.setattr(ports, "RANGE", range(number, number + 1))
        with pytest.raises(LabError, match="free ports"):
            ports.pick(0, accounting=False)

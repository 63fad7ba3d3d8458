"""gpu-health: what nvidia-smi and the kernel say; the stand-in answers as the one of driver 580 does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.ready_made_jobs import Ended, environment, filled_in, run, stand_in

pytestmark = pytest.mark.processes

# Answers as the real one: rows of the fields asked for, "[N/A]" for what a card has not, and a refusal of the whole
# question, on stdout with exit code 2, where a field is unknown.
NVIDIA_SMI = """#!{python} -ISs
import json, sys
says = json.load(open({says!r}))
if says.get("fails"):
    print(says["fails"])
    sys.exit(says.get("code", 9))
what, fields = sys.argv[1].removeprefix("--query-").split("=")
assert sys.argv[2] == "--format=csv,noheader,nounits", sys.argv
for row in says[what]:
    cells = []
    for field in fields.split(","):
        if field not in row:
            print(f'Field "{{field}}" is not a valid field to query.\\n')
            sys.exit(2)
        cells.append(row[field])
    print(", ".join(cells))
"""

CARD = {
    "index": "0",
    "uuid": "GPU-aa",
    "pci.bus_id": "00000000:41:00.0",
    "name": "NVIDIA H100 80GB HBM3",
    "memory.used": "4",
    "ecc.errors.uncorrected.volatile.total": "0",
    "retired_pages.pending": "[N/A]",
    "remapped_rows.pending": "No",
    "remapped_rows.failure": "No",
}


class Node:
    """A node with cards as told."""

    def __init__(self, place: Path) -> None:
        self.place = place
        stand_in(place, "nvidia-smi", NVIDIA_SMI.format(python=sys.executable, says=str(place / "says.json")))
        stand_in(place, "scontrol", 'echo "[${*:3}]"')
        self.kernel("")
        self.cards(CARD)

    def cards(self, *cards: dict[str, str], apps: tuple[str, ...] = (), fails: str = "") -> None:
        says = {"gpu": cards, "compute-apps": [{"gpu_uuid": uuid, "pid": "7"} for uuid in apps], "fails": fails}
        (self.place / "says.json").write_text(json.dumps(says), encoding="utf-8")

    def kernel(self, text: str, code: int = 0) -> None:
        stand_in(self.place, "dmesg", f"cat <<'END'\n{text}\nEND\nexit {code}")

    def look(self, node: str = "gpu1", **settings: str) -> Ended:
        environ = environment(self.place, SLURMD_NODENAME=node)
        return run(filled_in("gpu-health", self.place, **{"ALLOCATE": "0", **settings}), environ)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_healthy_node_is_fine(node: Node) -> None:
    ended = node.look()
    assert (ended.code, ended.last) == (0, "gpu1: fine")
    assert "GPU 0 (NVIDIA H100 80GB HBM3, 00000000:41:00.0): 4 MiB in use" in ended.out


SICK = {
    "uncorrected ECC errors": ({"ecc.errors.uncorrected.volatile.total": "2"}, "2 uncorrected ECC errors"),
    "rows to be remapped": ({"remapped_rows.pending": "Yes"}, "rows to be remapped: the GPU needs a reset"),
    "rows that could not be": (
        {"remapped_rows.failure": "Yes"},
        "rows that could not be remapped: the GPU is to be replaced",
    ),
    "memory that nobody has": ({"memory.used": "70000"}, "70,000 MiB are in use, and no process is"),
}


@pytest.mark.parametrize(("change", "words"), SICK.values(), ids=SICK)
def test_what_is_wrong_is_told_once_with_the_nodes_to_exclude(node: Node, change: dict[str, str], words: str) -> None:
    node.cards({**CARD, **change})
    first, second = node.look(), node.look()
    assert first.code == second.code == 1
    assert "ALERT: gpu1: GPU 0 (NVIDIA H100 80GB HBM3, 00000000:41:00.0): " in first.out
    assert words in first.out
    assert "ALERT" not in second.out
    assert first.last == second.last == "to keep jobs off what is not fine: --exclude=[gpu1]"


def test_memory_that_a_process_has_is_fine(node: Node) -> None:
    node.cards({**CARD, "memory.used": "70000"}, apps=("GPU-aa",))
    assert node.look().code == 0


def test_a_driver_that_does_not_know_all_fields_is_asked_for_those_it_knows(node: Node) -> None:
    known = {name: value for name, value in CARD.items() if not name.startswith("remapped")}
    node.cards({**known, "retired_pages.pending": "Yes"})
    assert "pages to be retired" in node.look().out


def test_nodes_that_earlier_runs_found_stay_on_the_list_until_a_run_finds_them_fine(node: Node) -> None:
    node.cards({**CARD, "remapped_rows.failure": "Yes"})
    node.look("gpu1")
    node.cards(CARD)
    other = node.look("gpu2")
    assert (other.code, other.last) == (0, "to keep jobs off what is not fine: --exclude=[gpu1]")
    assert "fine again" not in other.out
    again = node.look("gpu1")
    assert "fine again: gpu1: GPU 0" in again.out
    assert "--exclude" not in again.out


BROKEN = {
    "the driver is gone": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    "a card fell off the bus": "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error",
}


@pytest.mark.parametrize("words", BROKEN.values(), ids=BROKEN)
def test_a_tool_that_fails_is_the_finding(node: Node, words: str) -> None:
    node.cards(fails=words)
    ended = node.look()
    assert ended.code == 1
    assert f"ALERT: gpu1: nvidia-smi exited 9: {words}" in ended.out


def test_fewer_cards_than_there_should_be(node: Node) -> None:
    assert "ALERT: gpu1: 1 GPU of 4" in node.look(EXPECTED="4").out


KERNEL = """[  1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.159.04
[123.4] NVRM: Xid (PCI:0000:41:00): 79, pid=4711, name=python, GPU has fallen off the bus.
[124.4] NVRM: Xid (PCI:0000:41:00): 13, Graphics Exception: ESR 0x505648=0x11
[125.4] NVRM: Xid (PCI:0000:C1:00): 48, An uncorrectable double bit error (DBE)
"""


def test_xids_are_told_but_for_those_that_a_program_causes_itself(node: Node) -> None:
    node.kernel(KERNEL)
    ended = node.look()
    alerts = [line for line in ended.out.splitlines() if line.startswith("ALERT")]
    assert alerts == [
        "ALERT: gpu1: Xid (PCI:0000:41:00): 79, pid=4711, name=python, GPU has fallen off the bus.",
        "ALERT: gpu1: Xid (PCI:0000:C1:00): 48, An uncorrectable double bit error (DBE)",
    ]


def test_a_kernel_log_that_may_not_be_read_is_said_and_no_failure(node: Node) -> None:
    stand_in(node.place, "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    ended = node.look()
    assert ended.code == 0
    assert "Xid errors: not looked at: dmesg: read kernel buffer failed" in ended.out


def test_without_the_drivers_library_the_allocation_is_not_tried(node: Node) -> None:
    ended = node.look(ALLOCATE="16")
    assert ended.code in {0, 1}
    assert "CUDA" in ended.out


@pytest.mark.parametrize(("held", "code"), [("1000", 0), ("999", 1)])
def test_memory_in_use_is_judged_by_its_limit(node: Node, held: str, code: int) -> None:
    node.cards({**CARD, "memory.used": "1000"})
    assert node.look(HELD=held).code == code

"""gpu-health: what nvidia-smi and the kernel tell of one node's GPUs, and whether memory on each can be had."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import alerts
import node_report
import shelf
from alerts import Alert
from shelf import Broken, Settings

JOB = "gpu-health"
_ASKED = ("index", "uuid", "pci.bus_id", "name", "memory.used")
# Not every driver or card knows these; one that it does not know makes nvidia-smi refuse the whole question.
_OPTIONAL = {
    "ecc.errors.uncorrected.volatile.total": "uncorrected ECC errors",
    "retired_pages.pending": "pages to be retired: the GPU needs a reset",
    "remapped_rows.pending": "rows to be remapped: the GPU needs a reset",
    "remapped_rows.failure": "rows that could not be remapped: the GPU is to be replaced",
}
_NOTHING_WRONG = frozenset({"0", "no", "n/a", "[n/a]", "[not supported]", "disabled", ""})
_PROGRAMS_OWN = frozenset({13, 31, 43, 45, 68})  # Xids that a program's own mistake causes
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F:]+)\): (?P<code>\d+)(?P<rest>[^\n]*)")
_ALLOCATION_TIME = 120


@dataclass(frozen=True)
class Gpu:
    """One card. `wrong`: what of the optional answers is."""

    index: str
    uuid: str
    pci: str
    name: str
    used: int  # MiB
    wrong: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.name}, {self.pci})"


class Sick(Exception):
    """The GPUs' own tools fail: that is the finding."""


# --- nvidia-smi ----------------------------------------------------------------------------------------------------


def query(smi: str, what: str, fields: Sequence[str]) -> list[list[str]]:
    """Rows of `nvidia-smi --query-WHAT`. Raises Sick where it fails or hangs."""
    try:
        answer = shelf.ask([smi, f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"], timeout=60)
    except Broken as error:
        raise Sick(str(error)) from None
    if answer.code:
        raise Sick(f"nvidia-smi exited {answer.code}: {answer.out.strip()} {answer.err.strip()}")
    return [[cell.strip() for cell in line.split(",")] for line in answer.out.splitlines() if line.strip()]


def gpus(smi: str) -> list[Gpu]:
    """The node's cards that this job may see. Raises Sick."""
    found = query(smi, "gpu", _ASKED)
    wrong: dict[str, list[str]] = {}
    for name, words in _OPTIONAL.items():
        try:
            rows = query(smi, "gpu", ("uuid", name))
        except Sick:
            continue
        for uuid, value in (row for row in rows if len(row) == 2):  # noqa: PLR2004 - as asked
            if value.lower() not in _NOTHING_WRONG:
                wrong.setdefault(uuid, []).append(f"{value} {words}" if value.isdecimal() else words)
    rows = [row for row in found if len(row) == len(_ASKED)]
    if not rows:
        raise Sick(f"nvidia-smi shows no GPU: {found}")
    return [
        Gpu(index, uuid, pci, name, int(used) if used.isdecimal() else 0, tuple(wrong.get(uuid, ())))
        for index, uuid, pci, name, used in rows
    ]


def held(cards: Sequence[Gpu], busy: frozenset[str], limit: int) -> Iterator[tuple[Gpu, str]]:
    """Cards with memory in use though no process has any."""
    for card in cards:
        if card.used > limit and card.uuid not in busy:
            yield card, f"{card.used:,} MiB are in use, and no process is"


def xids(text: str) -> dict[tuple[str, int], str]:
    """The kernel's complaints about cards, but for those that a program's own mistake causes."""
    found = {}
    for match in _XID.finditer(text):
        if int(match["code"]) not in _PROGRAMS_OWN:
            found[match["pci"].lower(), int(match["code"])] = match[0].partition("NVRM: ")[2]
    return found


def kernel_log() -> str:
    """What the kernel printed; "" with a word where it may not be read."""
    try:
        answer = shelf.ask([shelf.find("dmesg", package="the package util-linux")])
    except Broken as error:
        print(f"Xid errors: not looked at: {error}")
        return ""
    if answer.code:
        print(f"Xid errors: not looked at: {answer.said}")
    return answer.out if answer.code == 0 else ""


# --- an allocation on each card ------------------------------------------------------------------------------------


def allocate(megabytes: int) -> None:
    """Take memory on each visible card, fill it and read it back, by the driver alone. Raises Broken, naming the card.

    It is run in a process of its own: a sick card makes it hang.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Broken("libcuda.so.1 is not on this node: it comes with NVIDIA's driver") from None
    count, device = ctypes.c_int(), ctypes.c_int()
    _call(cuda, "cuInit", 0)
    _call(cuda, "cuDeviceGetCount", ctypes.byref(count))
    for index in range(count.value):
        context, memory = ctypes.c_void_p(), ctypes.c_uint64()
        size = ctypes.c_size_t(megabytes << 20)
        _call(cuda, "cuDeviceGet", ctypes.byref(device), index, card=index)
        _call(cuda, "cuCtxCreate_v2", ctypes.byref(context), 0, device, card=index)
        _call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), size, card=index)
        _call(cuda, "cuMemsetD8_v2", memory, ctypes.c_ubyte(0xA5), size, card=index)
        back = ctypes.create_string_buffer(1 << 20)
        for offset in (0, size.value - len(back)):
            _call(cuda, "cuMemcpyDtoH_v2", back, ctypes.c_uint64(memory.value + offset), len(back), card=index)
            if back.raw != b"\xa5" * len(back):
                raise Broken(f"card {index}: what was written is not what is read")
        _call(cuda, "cuMemFree_v2", memory, card=index)
        _call(cuda, "cuCtxDestroy_v2", context, card=index)
    print(f"{count.value}")


def _call(cuda: ctypes.CDLL, name: str, *arguments: object, card: int | None = None) -> None:
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        words = text.value.decode() if text.value else "unknown"
        raise Broken(f"{'' if card is None else f'card {card}: '}{name}: {words} ({code})")


def allocation(megabytes: int) -> str:
    """What went wrong with it; "" when all is well."""
    argv = [sys.executable, os.path.realpath(__file__), f"ONLY_ALLOCATE={megabytes}"]
    try:
        answer = shelf.ask(argv, timeout=_ALLOCATION_TIME, environ=os.environ)
    except Broken:
        return f"taking {megabytes} MiB on each GPU did not end within {_ALLOCATION_TIME} s"
    if answer.code == 0:
        print(f"CUDA: {megabytes} MiB taken, written and read on {shelf.plural(int(answer.out or 0), 'GPU')}")
        return ""
    if "libcuda" in answer.err:
        print(f"CUDA allocation: not tried: {answer.said}")
        return ""
    return f"CUDA: {answer.said.removeprefix('broken: ')}"


# --- the job -------------------------------------------------------------------------------------------------------


def findings(smi: str, node: str, limit: int, megabytes: int, expected: int) -> Iterator[Alert]:
    """All that is wrong on this node."""
    try:
        cards = gpus(smi)
        busy = frozenset(row[0] for row in query(smi, "compute-apps", ("gpu_uuid", "pid")) if row)
    except Sick as error:
        yield Alert(f"{node} smi", f"{node}: {shelf.shown(str(error))}")
        return
    for card in cards:
        print(f"{card}: {card.used:,} MiB in use{''.join(f', {words}' for words in card.wrong)}")
    if expected and len(cards) < expected:
        yield Alert(f"{node} count", f"{node}: {shelf.plural(len(cards), 'GPU')} of {expected}")
    for card in cards:
        for words in card.wrong:
            yield Alert(f"{node} {card.uuid} {words.lstrip('0123456789 ')}", f"{node}: {card}: {words}")
    for card, words in held(cards, busy, limit):
        yield Alert(f"{node} {card.uuid} held", f"{node}: {card}: {words}")
    for (pci, code), words in xids(kernel_log()).items():
        yield Alert(f"{node} xid {pci} {code}", f"{node}: {shelf.shown(words)}")
    wrong = allocation(megabytes) if megabytes else ""
    if wrong:
        yield Alert(f"{node} cuda", f"{node}: {wrong}")


def main(settings: Settings) -> int:
    """Look at this node; remember the sick ones, of whichever node an earlier run looked at."""
    if settings.text("ONLY_ALLOCATE"):  # in a process of its own
        allocate(settings.count("ONLY_ALLOCATE"))
        return shelf.FINE
    limits = (settings.count(name) for name in ("HELD", "ALLOCATE", "EXPECTED"))
    smi = shelf.find("nvidia-smi", package="NVIDIA's driver (is this a GPU node?)")
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    wrong = list(findings(smi, node, *limits))
    others = frozenset(key for key in alerts.remembered(JOB) if not key.startswith(f"{node} "))
    code = alerts.tell(JOB, wrong, others, now=shelf.seconds_now(), notify=settings.text("NOTIFY"))
    sick = sorted({key.partition(" ")[0] for key in alerts.remembered(JOB)} | {node for _ in wrong[:1]})
    print(f"{node}: {'not fine' if wrong else 'fine'}")
    if sick:
        print(f"to keep jobs off what is not fine: --exclude={node_report.node_list(sick)}")
    return code


if __name__ == "__main__":
    shelf.door(main)

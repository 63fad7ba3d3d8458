"""node-report: the nodes that are drained, down or failing, by reason, and what changed since the last run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import alerts
import memory
import shelf
from alerts import Alert
from shelf import Broken, Settings

JOB = "node-report"
_BAD = ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "POWERED_DOWN", "INVAL")  # parts of Slurm's long states
_FIELD = "\x1f"


@dataclass(frozen=True)
class Node:
    """One node: its name, state in Slurm's long form, and why it is so."""

    name: str
    state: str
    reason: str
    by: str
    since: str

    @property
    def bad(self) -> bool:
        """Whether jobs cannot start on it. `*`: it does not answer."""
        return self.state.endswith("*") or any(word in self.state.upper() for word in _BAD)


def parse(text: str) -> dict[str, Node]:
    """The nodes of `sinfo -N`, each once though it may be in several partitions."""
    nodes = {}
    for line in text.splitlines():
        cells = line.split(_FIELD)
        if len(cells) == 5:  # noqa: PLR2004 - the fields of Node
            nodes[cells[0].strip()] = Node(*(cell.strip() for cell in cells))
    return nodes


def ask(partition: str) -> dict[str, Node]:
    """All nodes, or those of one partition. Raises Broken: then nothing is known about them."""
    sinfo = shelf.find("sinfo", package="the package slurm-client")
    form = _FIELD.join(("%N", "%T", "%E", "%u", "%H"))
    where = ["-p", partition] if partition else []
    answer = shelf.ask([sinfo, "-h", "-N", "-o", form, *where], timeout=120)
    if answer.code:
        raise Broken(f"the nodes are unknown: {answer.said}")
    return parse(answer.out)


def grouped(nodes: Sequence[Node]) -> dict[tuple[str, str, str], list[str]]:
    """Names by (reason, state, who gave the reason)."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for node in nodes:
        groups.setdefault((node.reason, node.state, node.by), []).append(node.name)
    return groups


def node_list(names: Sequence[str]) -> str:
    """`cpu[1-3]` of cpu1, cpu2, cpu3, as Slurm writes it; with commas where it cannot be asked."""
    try:
        scontrol = shelf.find("scontrol", package="slurm-client")
        answer = shelf.ask([scontrol, "show", "hostlist", ",".join(sorted(names))])
    except Broken:
        return ",".join(sorted(names))
    return answer.out.strip() if answer.code == 0 and answer.out.strip() else ",".join(sorted(names))


def report(nodes: Sequence[Node]) -> Iterator[str]:
    """A line a group, the largest first."""
    bad = [node for node in nodes if node.bad]
    yield f"{len(bad)} of {shelf.plural(len(nodes), 'node')} cannot be used"
    rows = sorted(grouped(bad).items(), key=lambda item: (-len(item[1]), item[0]))
    for (reason, condition, by), names in rows:
        who = f" ({by})" if by not in {"", "Unknown"} else ""
        why = shelf.shown(reason) if reason not in {"", "none"} else "no reason given"
        yield f"  {node_list(names)}: {condition}: {why}{who}"


def changes(before: dict[str, str], nodes: dict[str, Node]) -> Iterator[str]:
    """What is new since the last run: `before` has each bad node's state then."""
    bad = {name: node for name, node in nodes.items() if node.bad}
    came = sorted(set(bad) - set(before))
    back = sorted(name for name in set(before) - set(bad) if name in nodes)
    gone = sorted(set(before) - set(nodes))
    for words, names in (("newly out", came), ("back again", back), ("not listed any more", gone)):
        if names:
            yield f"{words} since the last run: {node_list(names)}"


def main(settings: Settings) -> int:
    """Ask, print, compare, remember."""
    alerting, partition = settings.yes("ALERT"), settings.text("PARTITION")
    nodes = ask(partition)
    if not nodes:
        raise Broken(f"sinfo shows no nodes{f' of partition {partition}' if partition else ''}")
    path = memory.state_file(JOB, "nodes.json")
    known = memory.read_state(path).get("bad")
    for line in report(list(nodes.values())):
        print(line)
    if known is None:
        print("this is the first run: changes are told from the next one on")
    else:
        lines = list(changes({name: str(state) for name, state in known.items()}, nodes))
        print("\n".join(lines) if lines else "nothing changed since the last run")
    memory.write_state(path, {"bad": {node.name: node.state for node in nodes.values() if node.bad}})
    if not alerting:
        return shelf.FINE
    bad = [node for node in nodes.values() if node.bad]
    wrong = [Alert(node.name, f"{node.name} is {node.state}: {shelf.shown(node.reason)}") for node in bad]
    fine = {node.name: f"{node.name} is {node.state}" for node in nodes.values()}
    return alerts.tell(JOB, wrong, now=shelf.seconds_now(), notify=settings.text("NOTIFY"), fine=fine)


if __name__ == "__main__":
    shelf.door(main)

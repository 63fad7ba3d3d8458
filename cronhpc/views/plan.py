"""The dry run: the very decisions that a tick executes, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.core.model import Advice, Command, Reason, command, joined
from cronhpc.views import text, times
from cronhpc.views.decisions import decision_facts
from cronhpc.views.style import Cell, Column, table
from cronhpc.views.times import epoch, iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cronhpc.core.model import Plan, Problem, World
    from cronhpc.views.style import Style

Facts = dict[str, Any]


def facts(world: World, plan: Plan, problems: Iterable[Problem] = (), logs: Facts | None = None) -> Facts:
    """The plan, JSON-ready. `logs`: what the clean-up would remove (count, bytes, reasons) and keep; None: nothing."""
    names = {claim.key: claim.name for claim in world.claims}
    rows = [decision_facts(decision, names) for decision in plan.decisions]
    due = {row["entry"] for row in rows if row["decision"] in {"submit", "use up"} or _is_due(row, world.now)}
    return {
        "now": iso(world.now),
        "entries": len(world.entries),
        "due": len(due),
        "wake": iso(plan.wake),
        "batch": {"answers": world.queue is not None, "error": world.queue_error},
        "chain_wanted": world.chain.wanted,
        "decisions": rows,
        "logs": logs,
        "problems": [{"code": p.code, "file": p.file, "line": p.line, "what": p.what, "fix": p.fix} for p in problems],
    }


def _is_due(row: Mapping[str, Any], now: int) -> bool:
    slot = epoch(row.get("slot"))
    return row["decision"] == "wait" and slot is not None and slot <= now


# --- the screen ----------------------------------------------------------------------------------------------------

_COLUMNS = (Column("", least=12, name=True), Column(""), Column("", least=20))


def render(known: Mapping[str, Any], style: Style) -> str:
    """One line a decision: for whom, what, and why or with what."""
    due = f", {known['due']} due" if known["due"] else ", none due"
    head = f"now {style.clock(epoch(known['now']) or style.now, seconds=True)}, {_entries(known)}{due}"
    rows = [_row(row, style) for row in known["decisions"]]
    if known["chain_wanted"]:
        wake = epoch(known["wake"])
        if wake:
            rows.append(["next tick", "wanted", f"{style.clock(wake)} ({style.distance(wake)})"])
    elif known["entries"]:
        rows.append([("chain", "yellow"), ("none", "yellow"), "the scheduler is not started: " + command("start")])
    if known["logs"]:
        rows.append(["logs", "remove", _logs(known["logs"])])
    if not known["batch"]["answers"]:
        error = text.one_line(known["batch"]["error"])
        rows.append([("batch", "red"), ("unknown", "red"), f"it does not answer, so nothing is submitted: {error}"])
    for problem in known["problems"]:
        place = problem["file"] + (f":{problem['line']}" if problem["line"] else "")
        rows.append(
            [
                (text.name(place or "settings"), "yellow"),
                (problem["code"], "yellow"),
                text.one_line(problem["what"] + " " + problem["fix"]),
            ]
        )
    return "\n".join([head, *_lines(rows, style)])


def _lines(rows: Sequence[list[Cell]], style: Style) -> Iterator[str]:
    """The table; where a command would be cut, it stands below its row, whole."""
    said = [row[2] if isinstance(row[2], str) else row[2][0] for row in rows]
    whole = table(_COLUMNS, [[*row[:2], style.text(each)] for row, each in zip(rows, said, strict=True)], style)
    cut = [
        isinstance(each, Advice) and not line.endswith(style.text(each)) for each, line in zip(said, whole, strict=True)
    ]
    words = [_without_commands(each) if is_cut else style.text(each) for each, is_cut in zip(said, cut, strict=True)]
    lines = table(_COLUMNS, [[*row[:2], each] for row, each in zip(rows, words, strict=True)], style)
    for each, line, is_cut in zip(said, lines, cut, strict=True):
        yield line
        if is_cut and isinstance(each, Advice):
            yield from (f"  {part.text(style.directory)}" for part in each.parts if isinstance(part, Command))


def _without_commands(said: str) -> str:
    return "".join(
        part for part in (said.parts if isinstance(said, Advice) else (said,)) if isinstance(part, str)
    ).rstrip(" :")


def _logs(logs: Mapping[str, Any]) -> str:
    """`212 of 1,904 files (200 too old, 12 too many), 1.1 MB`."""
    why = ", ".join(f"{number:,} {reason}" for reason, number in logs["reasons"].items())
    size = f", {text.size(logs['bytes'])}" if logs["bytes"] else ""
    return f"{logs['remove']:,} of {text.count(logs['remove'] + logs['keep'], 'file')} ({why}){size}"


def _entries(known: Mapping[str, Any]) -> str:
    return text.count(known["entries"], "entry", "entries")


def _row(row: Mapping[str, Any], style: Style) -> list[Cell]:
    kind = row["decision"]
    who = text.name(row["entry"]) if row.get("entry") else _WHO.get(kind, "chain" if "link" in kind else kind)
    verb, colour, words = _SAID[kind](row, style)
    if row.get("reason") == Reason.SUSPENDED:
        words = words + "; lift it with: " + command("resume", row["entry"])
    return [who, (verb, colour), words]


_WHO = {"rest": "chain", "stop": "kill switch", "hold": "pause switch", "free": "pause switch", "cancel": "a twin"}
Said = tuple[str, str, str]


def _said_submit(row: Mapping[str, Any], style: Style) -> Said:
    parts = [f"slot {_at(row['slot'], style)}"]
    if row["begin"]:
        parts.append(f"begins {_at(row['begin'], style)}")
    if row["attempt"] > 1:
        parts.append(f"attempt {row['attempt']}")
    parts.append(f"job {text.name(row['job_name'] or row['entry'])}")
    parts += [text.one_line(option.removeprefix("--").replace("=", " ", 1)) for option in row["options"]]
    if row["output"]:
        parts.append(text.clean(row["output"]))
    if row["detail"]:
        parts.append(text.one_line(row["detail"]))
    return row["reason"], "green", ", ".join(parts)


def _said_use_up(row: Mapping[str, Any], style: Style) -> Said:
    slots = (
        f"slot {_at(row['slot'], style)}"
        if row["count"] == 1
        else f"{row['count']} slots up to {_at(row['slot'], style)}"
    )
    if row["result"] in row["detail"]:
        return row["reason"], "yellow", f"up to slot {_at(row['slot'], style)}: " + text.one_line(row["detail"])
    words = f"{slots} recorded as {row['result']}"
    return row["reason"], "yellow", f"{words}: " + text.one_line(row["detail"]) if row["detail"] else words


def _said_wait(row: Mapping[str, Any], style: Style) -> Said:
    slot = epoch(row["slot"])
    word = (
        ""
        if slot is None
        else f"next {_at(row['slot'], style)}"
        if slot > style.now
        else f"due since {_at(row['slot'], style)}"
    )
    detail = text.one_line(row["detail"])
    colour = "" if row["reason"] == Reason.NOT_DUE else "yellow"
    if row["reason"] == Reason.NOT_DUE and slot is not None:
        word += f" ({style.distance(slot)})"
    return row["reason"], colour, joined("; ", filter(None, (detail, word)))


def _said_settle(row: Mapping[str, Any], style: Style) -> Said:
    parts = [f"slot {_at(row['slot'], style)}: {row['result']}"]
    if row["exit_code"]:
        parts.append(f"exit {row['exit_code']}")
    if row["detail"]:
        parts.append(text.one_line(row["detail"]))
    if row["retry_at"]:
        parts.append(f"again at {_at(row['retry_at'], style)}")
    return "settle", "", ", ".join(parts)


def _said_key(row: Mapping[str, Any], style: Style) -> Said:
    return row["decision"], "green", f"slot {_at(row['slot'], style)}, job {row['job']}"


def _said_link(row: Mapping[str, Any], style: Style) -> Said:
    verb = row["decision"].removesuffix(" link")
    job = f" job {row['job']}" if row["job"] else ""
    at = f" at {_at(row['at'], style)}" if row["at"] else ""
    words = f"{row['link']}{job}{' to' if verb == 'move' else ''}{at.removeprefix(' at') if verb == 'move' else at}"
    return verb, "", f"{words}: {text.one_line(row['why'])}" if row["why"] else words


def _said_stop(row: Mapping[str, Any], style: Style) -> Said:
    jobs = [*(f"{j} pending" for j in row["pending"]), *(f"{j} running" for j in row["running"])]
    jobs += [f"{j} is warned ({row['warn_signal']}), then has {times.took(row['grace'])}" for j in row["warned"]]
    jobs += [f"{j} is ending" for j in row["completing"]]
    alone = f"; left alone (scrontab's own): {', '.join(row['left_alone'])}" if row["left_alone"] else ""
    by = f"{text.name(row['switch'])}, by {text.one_line(row['by'])} since {_at(row['since'], style)}"
    return "cancel", "red", f"{by}: {', '.join(jobs) or 'no job'}{alone}"


def _said_hold(row: Mapping[str, Any], _: Style) -> Said:
    return "hold", "yellow", f"{text.name(row['switch'])}, by {text.one_line(row['by'])}: {', '.join(row['jobs'])}"


def _at(at: str | None, style: Style) -> str:
    moment = epoch(at)
    return style.clock(moment) if moment is not None else "-"


_SAID: dict[str, Callable[[Mapping[str, Any], Style], Said]] = {
    "submit": _said_submit,
    "use up": _said_use_up,
    "wait": _said_wait,
    "adopt": _said_key,
    "release": _said_key,
    "cancel": lambda row, _: ("cancel", "yellow", f"job {row['job']}: {text.one_line(row['why'])}"),
    "withdraw": lambda row, _: ("cancel", "yellow", f"job {row['job']}: {text.one_line(row['why'])}"),
    "settle": _said_settle,
    "keep link": _said_link,
    "submit link": _said_link,
    "move link": _said_link,
    "cancel link": _said_link,
    "rest": lambda row, _: ("rest", "yellow", text.one_line(row["why"])),
    "stop": _said_stop,
    "hold": _said_hold,
    "free": lambda row, _: ("release", "green", f"jobs {', '.join(row['jobs'])}"),
}

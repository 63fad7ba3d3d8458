"""One HTML page of it all, whole in one file: nothing is fetched, no script runs, and what was printed is only text."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import command, texts_of
from cronhpc.views import chain, runs, screen, text, timeline, times
from cronhpc.views.past import Past, failures
from cronhpc.views.timeline import Run
from cronhpc.views.times import epoch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cronhpc.views.style import Style

Facts = dict[str, Any]


def render(
    known: Mapping[str, Any],
    pasts: Mapping[str, Past],
    slots: Mapping[str, Sequence[int]],
    tails: Mapping[str, str],
    style: Style,
) -> str:
    """The page. `known`: `status.facts`; `slots`: by entry those of the next 24 hours; `tails`: by path of a log."""
    from base64 import b64encode
    from hashlib import sha256

    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    files = PackageLoader("cronhpc", "views")
    environment = Environment(
        loader=files,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    css = files.get_source(environment, "page.css")[0].strip()
    context = {**_head(known, pasts, style), **_body(known, pasts, slots, tails, style)}
    context = texts_of(context, known["directory"])  # a page is read anywhere
    digest_of_css = b64encode(sha256(css.encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        context,
        css=Markup(css),  # noqa: S704 - a file of ours
        policy=f"default-src 'none'; style-src 'sha256-{digest_of_css}'; base-uri 'none'; form-action 'none'",
    )


# --- the head ------------------------------------------------------------------------------------------------------


def _head(known: Mapping[str, Any], pasts: Mapping[str, Past], style: Style) -> Facts:
    facts = known["chain"]
    return {
        "owner": text.clean(known["owner"]),
        "cluster": text.clean(known["cluster"]) or known["batch"]["name"],
        "directory": text.clean(known["directory"]),
        "written": style.whole(style.now),
        "version": known["cronhpc"],
        "chain": {
            "state": facts["state"],
            "kind": {"fine": "ok", "silent": "bad", "broken": "bad", "moved": "bad"}.get(facts["state"], "other"),
            "words": _chain_words(known, style),
            "mend": facts["mend"],
        },
        "silent_from": _silent_from(facts, style),
        "sums": _sums(known, pasts),
    }


def _chain_words(known: Mapping[str, Any], style: Style) -> tuple[str, str]:
    """The state, and the rest of its sentence."""
    facts = known["chain"]
    state, colon, rest = chain.words(facts, facts["state"], known["batch"]["name"], style).partition(":")
    if colon and state == facts["state"]:
        return state, rest.strip()
    first, semicolon, rest = f"{state}{colon}{rest}".partition(";")
    return first, rest.strip() if semicolon else ""


def _silent_from(facts: Mapping[str, Any], style: Style) -> str:
    """When this page is so old that its silence tells something: it cannot know its reader's clock."""
    last = epoch(facts["last_tick"])
    if facts["state"] != "fine" or last is None:
        return ""
    return style.whole(chain.heard_until(facts, last))


def _sums(known: Mapping[str, Any], pasts: Mapping[str, Past]) -> Facts:
    week = {kind: sum(past.week[kind] for past in pasts.values()) for kind in ("ok", "bad", "other")}
    stopped = [entry for entry in known["entries"] if entry["switch"] or entry["suspended"]]
    return {
        "rate": _rate(week),
        "runs": f"{week['ok'] + week['bad']:,}",
        "failed": f"{week['bad']:,}",
        "attention": len(known["attention"]),
        "stopped": len(stopped),
        "entries": len(known["entries"]),
    }


def _rate(counts: Mapping[str, int]) -> str:
    """Successes among what ended well or badly: killed, cancelled and skipped ones say nothing of the work."""
    judged = counts["ok"] + counts["bad"]
    if not judged:
        return "-"
    share = 100 * counts["ok"] / judged
    return "100 %" if counts["bad"] == 0 else f"{min(share, 99.9):.1f} %"


# --- the body ------------------------------------------------------------------------------------------------------


def _body(
    known: Mapping[str, Any],
    pasts: Mapping[str, Past],
    slots: Mapping[str, Sequence[int]],
    tails: Mapping[str, str],
    style: Style,
) -> Facts:
    drawn = [
        _entry(entry, pasts.get(entry["name"], Past()), slots.get(entry["name"], ()), style)
        for entry in known["entries"]
    ]
    return {
        "attention": [_attention(row, style) for row in known["attention"]],
        "entries": sorted(drawn, key=lambda each: each["order"]),
        "failures": [_failure(row, tails, style) for row in failures(pasts)],
        "axis": timeline.axis(style.now, style.zone),
        "width": timeline.WIDTH,
        "past": timeline.PAST,
    }


def _attention(row: Mapping[str, Any], style: Style) -> Facts:
    at = epoch(row["at"])
    return {
        "name": text.name(row["name"]),
        "what": row["what"],
        "when": f"{row['when']} {style.said(at)}" if at is not None else "",
        "mend": row["mend"],
        "kind": "bad" if row["kind"] in {"failed", "suspended", "invalid", "not trusted", "error"} else "other",
    }


def _entry(entry: Mapping[str, Any], past: Past, slots: Sequence[int], style: Style) -> Facts:
    last = entry["last"] or (runs.run_facts(past.newest[0]) if past.newest else None)
    blocked = screen.blocked(entry)
    live = [_live(run, style.now) for run in entry["runs"] if not run["ahead"]]
    kind = _kind({**entry, "last": last})
    upcoming, rate = epoch(entry["next"]), _rate(past.week)
    name = text.name(entry["name"])
    to_come = blocked if blocked not in {"", "-"} else style.clock(upcoming) if upcoming else "-"
    result = runs.result_words(last) if last else "not yet"
    return {
        "order": (_ORDER[kind], entry["name"]),
        "name": name,
        "kind": kind,
        "state": result if not blocked or blocked == "-" else blocked,
        "why": _why(entry, style),
        "paths": timeline.past([*past.drawn, *(run for run in live if run)], style.now),
        "next_path": timeline.following(slots, style.now),
        "held": bool(blocked) and blocked != "-",
        "rate": rate,
        "judged": past.week["ok"] + past.week["bad"],
        "month_rate": _rate(past.month),
        "days": past.days[::-1],
        "waited": _spread(past.waited),
        "took": _spread(past.took),
        "next": to_come,
        "last": style.said(epoch(last["slot"]) or style.now) if last else "",
        "result": result,
        "source": text.clean(entry["source"]),
        "schedule": text.one_line(entry["schedule"]) or text.one_line((entry["train"] or {}).get("when", "")),
        "timezone": entry["timezone"] if entry["schedule"] else "",
        "label": f"{name}: in the last 7 days {past.week['ok']} went well, {past.week['bad']} failed; next {to_come}",
        "runs": [_run(runs.run_facts(row), style) for row in past.newest],
    }


_ORDER = {"bad": 0, "stopped": 1, "other": 2, "ok": 3, "new": 4}


def _kind(entry: Mapping[str, Any]) -> str:
    if entry["switch"] or entry["suspended"]:
        return "stopped"
    if entry["problem"] or runs.failed(entry["last"]):
        return "bad"
    if not entry["last"]:
        return "new"
    return "ok" if timeline.kind_of(entry["last"]["result"]) == "ok" else "other"


def _why(entry: Mapping[str, Any], style: Style) -> str:
    """What holds it back, in one sentence."""
    switch, problem = entry["switch"], entry["problem"]
    if switch:
        since, reason = epoch(switch["since"]), text.one_line(switch["reason"])
        when = f" since {style.said(since)}" if since else ""
        verb = "stopped" if switch["kind"] == "kill" else "paused"
        return f"{verb} by {text.one_line(switch['by'])}{when}" + (f": “{reason}”" if reason else "")
    if entry["suspended"]:
        return f"suspended after {text.count(entry['failures'], 'failure')} in a row"
    return text.one_line(problem["what"]) if problem else ""


def _live(run: Mapping[str, Any], now: int) -> Run | None:
    """An attempt that waits or runs just now."""
    ready, started = epoch(run["slot"]), epoch(run["started"])
    return Run(ready, started, now if started is None else None, "live") if ready and ready <= now else None


def _spread(seconds: Sequence[int]) -> Facts:
    """What is usual, and the most."""
    if not seconds:
        return {"usual": "-", "most": ""}
    usual, most = int(statistics.median(seconds)), max(seconds)
    return {"usual": times.took(usual), "most": times.took(most) if most > usual else ""}


def _run(run: Mapping[str, Any], style: Style) -> Facts:
    slot = epoch(run["slot"])
    return {
        "slot": style.clock(slot) if slot is not None else "-",
        "kind": timeline.kind_of(run["result"]),
        "result": runs.result_words(run),
        "waited": times.took(run["waited"]),
        "took": times.took(run["took"]),
        "job": run["job"] or "-",
        "node": text.clean(run["node"]) or "-",
        "detail": text.one_line(run["detail"]),
    }


def _failure(row: Mapping[str, Any], tails: Mapping[str, str], style: Style) -> Facts:
    run = runs.run_facts(row)
    slot = epoch(run["slot"])
    return {
        **_run(run, style),
        "name": text.name(run["entry"]),
        "when": style.said(slot) if slot is not None else "",
        "log": text.clean(run["log"]),
        "tail": tails.get(run["log"], ""),
        "command": command("logs", run["entry"]),
    }

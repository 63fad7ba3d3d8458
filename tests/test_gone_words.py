"""Words that were replaced by the field's own stay away: of a second name for one idea nobody knows which is meant."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
TEXTS = [
    *sorted(PROJECT.glob("cronhpc/**/*.py")),
    *sorted(PROJECT.glob("docs/*.md")),
    *sorted(PROJECT.glob("docs/generate/*.py")),
    *sorted(PROJECT.glob("cronhpc/**/*.j2")),
    *(path for kind in ("md", "sh", "in") for path in sorted(PROJECT.glob(f"deploy/**/*.{kind}"))),
    *sorted(PROJECT.glob("jobs/lib/*.py")),
    *sorted(PROJECT.glob("jobs/*.slurm")),
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "jobs/README.md", "pyproject.toml")),
]
GONE = {
    r"(?<![A-Za-z])[Mm]end(s|ed|ing)?(?![A-Za-z])": "fix",
    r"\bUseUp\b": "Skip",
    r"\bFree\(|\.free\(|\bdef free\b": "Unhold, unhold",
    r"\bStruck\b": "KillRecord",
    r"\bunheard\b": "unmatched",
    r"\b[Dd]oor\b": "console",
    r"\b[Ll]adder\b|\b(first|lower) rungs?\b": "rule",
    r"\bgone_their_way\b|\b(gone|go|goes) (its|their) way\b": "superseded, dealt with meanwhile",
    r"\b[Mm]arks? of a pause\b|\bpause's mark\b": "tag of a pause",
    r"\b(is|are|was|be) crowded\b|\bcrowded=|\bcrowds\(": "no_submit_slot, fills_the_limit",
    r"\bSettle\b|\b[Ss]ettle(s|d)?\b(?! down)(?<!that is settled)(?<!\"settled)": "finish",
    r"\bEnding\(|-> Ending\b|\bending_of\b": "JobEnd",
    r"\bRest(Cause)?\b(?=[(:,])|_Kind\(\"(rest|free)\"|\brests\b(?= ?[=:])": "LeaveChain, leave chain; holds",
    r"\bsure( ?=|: bool)": "clock_verified",
    r"\bresident\b(?!\")(?! memory)": "by_daemon: what a daemon calls",
    r"\bresting\b(?!\")|RESTING": "on_hold of the chain, no_next of a series",
    r"\bLimited\b|\blimited(?= ?[=:])": "AtSubmitLimit, at_limit",
    r"\bAwayError\b|\baway(?= ?[=:])|\b(is|are) away\b": "unreachable, gives no answer",
    r"\b[Ss]trikes?(?! a name)\b|_strike\b": "KillRecords, kills",
    r"(?<![A-Za-z])[Pp]atience(?!\")|PATIENCE": "timeout, or turn",
    r"\b(a|the) stub\b|\bstubs\.": "wrapper",
    r"\bfitted\(|store/shapes|\bshapes\.": "decode",
    r"\b(report|chain)\.beside\b": "lease_holder",
    r"\b[Tt]orn\b|_torn\b": "corrupt, cut off",
    r"\b[Tt]end(s|ed)?\b|_tended\b": "clean_when_due, write_when_due",
    r"\b[Ww]itness(es)?\b": "trace, log",
    r"\bheld_(up|since)\b(?!\":)": "blocked_reason, blocked_since",
    r"\bTrains?\b|\b(a|the|each|every|one|of) trains?\b(?![-./])|\bread_trains\b": "series",
}


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in TEXTS}


@pytest.mark.parametrize("gone", GONE)
def test_a_word_that_was_replaced_stays_away(gone: str, texts: dict[Path, str]) -> None:
    found = [
        f"{path.relative_to(PROJECT)}:{number}: {line.strip()}"
        for path, text in texts.items()
        if re.search(gone, text)
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(gone, line)
    ]
    assert found == [], f"write {GONE[gone]}"


# Names that say nothing of the thing (call it problem, line, claim, finding, sentence).
EMPTY = {"found", "said", "told", "shown"}
ON_DISK = ["world.py: told"]  # a field that earlier versions wrote


def test_names_that_say_nothing_do_not_come_back(texts: dict[Path, str]) -> None:
    empty = []
    for path in PROJECT.glob("cronhpc/**/*.py"):
        for node in ast.walk(ast.parse(texts[path])):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                    empty += [f"{path.name}: {name}"] if name.strip("_") in EMPTY else []
    assert empty == ON_DISK


# Attributes of records that are free text, or the words of a batch system and of a user's options.
FREE = {"file", "id", "name", "output", "state", "text"}
RECORDS = ["core/model/entries.py", "core/model/runs.py", "core/model/site.py", "core/model/world.py"]
RECORDS += ["core/alerts.py", "views/facts.py"]


def test_what_a_record_tells_apart_is_no_bare_text(texts: dict[Path, str]) -> None:
    """A field of type `str` that is compared with a word is a kind: an enum has its words at one place."""
    trees = {path: ast.parse(texts[path]) for path in PROJECT.glob("cronhpc/**/*.py")}
    records = (node for path in RECORDS for node in ast.walk(trees[PROJECT / "cronhpc" / path]))
    fields = (each for record in records if isinstance(record, ast.ClassDef) for each in record.body)
    bare = {
        name
        for each in fields
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.annotation) in {"str", "str | None"}
        if (name := ast.unparse(each.target)) not in FREE
    }
    assert len(bare) > 60
    compared = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.Compare(left=ast.Attribute(attr=name, value=whose), comparators=[to]) if name in bare:
                    words = [each for each in ast.walk(to) if isinstance(each, ast.Constant) and each.value]
                    if words and not isinstance(to, ast.Call | ast.Subscript) and ast.unparse(whose) != "args":
                        compared.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert compared == []


def test_the_texts_are_there() -> None:
    assert len(TEXTS) > 100

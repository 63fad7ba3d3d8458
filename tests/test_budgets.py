"""How big the house is: budgets that may be lowered, and are raised only with a reason in the commit.

A tick's files are counted in a process of its own on the local backend: of ours, those of which a function was called.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess  # noqa: TID251 - a tick is traced from its first call on
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import pytest

TOP = Path(__file__).resolve().parent.parent
PACKAGE = TOP / "cronhpc"

FILES = 141
LINES = 41_205
CALLS = 9  # from `cronhpc tick` to the process of sbatch
ENTERED = {"idle": 44, "submitting": 55}  # files of ours that such a tick enters

TICK = """
import io, json, os, sys
from cronhpc.cli import main
from cronhpc.cli.console import Console

root, package, now = sys.argv[1], sys.argv[2], int(sys.argv[3])
entered = set()

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and not code.co_name.startswith("<") and code.co_filename.startswith(package):
        entered.add(code.co_filename[len(package) + 1 :])

out, err = io.StringIO(), io.StringIO()
console = Console(now, dict(os.environ), out, err, is_terminal=False)
sys.setprofile(note)
code = main(["tick", "--dir", root], console)
sys.setprofile(None)
print(json.dumps({"code": code, "entered": sorted(entered), "said": out.getvalue() + err.getvalue()}))
"""


def ticked(root: Path, now: int) -> dict[str, Any]:
    """One tick at `now`: its exit code, the files that it entered, what it said."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent), "TZ": "UTC", "PYTHONPATH": str(TOP)}
    argv = [sys.executable, "-c", TICK, str(root), str(PACKAGE), str(now)]
    ended = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True, cwd=root)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def ticks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """An idle tick, and one that submits a run; the one before them has read the script."""
    from cronhpc.batch.local import Local
    from cronhpc.engine import init

    root = tmp_path_factory.mktemp("budget") / "cron"
    init.init(root, {"backend": "local", "timezone": "UTC"})
    slot = (int(time.time()) // 60 + 2) * 60  # noqa: TID251 - a script counts from its ctime, which is this clock's
    script = root / "cron.d" / "a.slurm"
    script.write_text(f"#!/bin/bash\n#SBATCH --time=1\n#CRON {slot // 60 % 60} * * * *\ntrue\n", encoding="utf-8")
    script.chmod(0o644)
    ticked(root, slot - 30)
    found = {"idle": ticked(root, slot - 20), "submitting": ticked(root, slot + 5)}
    batch = Local(root / "state" / "local", dict(os.environ))
    batch.cancel([job.id for job in batch.queue().jobs if job.live])
    return found


@pytest.mark.processes
@pytest.mark.parametrize("kind", ENTERED)
def test_a_tick_enters_no_more_files_than_it_did(ticks: dict[str, dict[str, Any]], kind: str) -> None:
    tick = ticks[kind]
    assert tick["code"] == 0, tick["said"]
    assert ('"event": "submit"' in tick["said"]) == (kind == "submitting"), tick["said"]
    assert {"tick.py", "core/plan.py"} <= set(tick["entered"])
    assert len(tick["entered"]) <= ENTERED[kind], "\n".join(tick["entered"])


@pytest.mark.processes
def test_the_process_of_sbatch_is_no_more_calls_deep_than_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cronhpc.batch.slurm import Slurm
    from cronhpc.cli import main
    from cronhpc.cli.console import Console
    from cronhpc.core.model import Queue
    from cronhpc.engine import init

    (tmp_path / "sbatch").write_text("#!/bin/sh\necho 7\n", encoding="utf-8")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setattr(Slurm, "queue", lambda _: Queue(()))
    calls: list[str] = []
    start = subprocess.Popen.__init__

    def noted(process: Any, argv: list[str], *rest: Any, **named: Any) -> None:
        if argv[0] == f"{tmp_path}/sbatch":
            calls.extend(each.name for each in traceback.extract_stack() if str(PACKAGE) in each.filename)
        start(process, argv, *rest, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    root = tmp_path / "cron"
    init.init(root, {"backend": "slurm", "timezone": "UTC"})
    script = root / "cron.d" / "a.slurm"
    script.write_text("#!/bin/bash\n#CRON @every 1m\ntrue\n", encoding="utf-8")
    now = int(script.stat().st_ctime)
    for at in (now + 10, now + 100):
        environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "TZ": "UTC"}
        main(["tick", "--dir", str(root)], Console(at, environ, io.StringIO(), io.StringIO(), is_terminal=False))
    assert (calls[0], calls[-1]) == ("main", "run"), calls
    assert len(calls) <= CALLS, calls


@pytest.mark.processes
def test_a_tick_imports_neither_what_reads_source_text_nor_typing() -> None:
    """Inspect and ast come with dataclasses: two fifths of what an idle tick computed, with what that one compiles."""
    loaded = "cronhpc.tick, cronhpc.cli.engine, cronhpc.batch.slurm, cronhpc.views.status, cronhpc.logs.housekeeping"
    code = f"import {loaded}, sys; print(*{{'dataclasses', 'inspect', 'shlex', 'typing'}} & sys.modules.keys())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TOP)
    assert ended.stdout.split() == [], "from cronhpc.cron.values import dataclass; TYPE_CHECKING = False"


def test_the_package_has_no_more_files_and_lines_than_it_had() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    assert len(texts) <= FILES
    assert sum(text.count("\n") for text in texts) <= LINES


CHANGES = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "remove", "clear", "discard", "sort"}


# made by being filled, as their makers have it: a parser of arguments, a class that gets its methods once it is there
MADE_SO = {"add_arguments(parser)", "_to_compile(kind)"}


def filled(tree: ast.AST) -> Iterator[str]:
    """The functions that change what they were handed, or what lies in it, as `name(parameter)`."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        own = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        parameters = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)} - own - {"self", "cls"}
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=place, attr=attribute)) if attribute in CHANGES:
                    pass
                case ast.Call(func=ast.Name(id="setattr"), args=[place, *_]):
                    pass
                case ast.Subscript(value=place, ctx=ast.Store() | ast.Del()):
                    pass
                case ast.Attribute(value=place, ctx=ast.Store() | ast.Del()):
                    pass
                case _:
                    continue
            while isinstance(place, ast.Attribute | ast.Subscript):
                place = place.value
            if isinstance(place, ast.Name) and place.id in parameters:
                yield f"{function.name}({place.id})"


def growing(tree: ast.AST) -> Iterator[str]:
    """The fields of frozen dataclasses that are made as an empty list or set, to be filled later."""
    for kind in ast.walk(tree):
        if isinstance(kind, ast.ClassDef) and any("frozen=True" in ast.unparse(each) for each in kind.decorator_list):
            fields = [each for each in kind.body if isinstance(each, ast.AnnAssign)]
            yield from (
                f"{kind.name}.{ast.unparse(each.target)}"
                for each in fields
                if each.value and re.search(r"default_factory=(list|set)\b", ast.unparse(each.value))
            )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(a): a.append(1)", ["f(a)"]),
        ("def f(*, a): a['x'] = 1", ["f(a)"]),
        ("def f(a): a = []; a.append(1)", []),
        ("def f(self, a): self.add(a)", []),
        ("def f(a): b = [*a]; b.append(1); return b", []),
        ("def f(a): a.x = 1", ["f(a)"]),
        ("def f(a): a.x += 1", ["f(a)"]),
        ("def f(a): a.x, b = 1, 2", ["f(a)"]),
        ("def f(a): setattr(a, 'x', 1)", ["f(a)"]),
        ("def f(a): a.x['y'].z.append(1)", ["f(a)"]),
        ("def f(self): self.x = 1", []),
        ("def f(a): a = a.b; a.x = 1", []),
    ],
)
def test_a_function_that_fills_its_argument_is_found(text: str, found: list[str]) -> None:
    assert list(filled(ast.parse(text))) == found


@pytest.mark.thorough
def test_functions_return_what_they_made() -> None:
    """None fills a list that was handed in, and what is frozen has no list that grows."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    found = {each for tree in trees for each in (*filled(tree), *growing(tree))}
    assert found == MADE_SO


@pytest.mark.thorough
def test_there_is_no_circle_of_imports() -> None:
    """Imports for types count."""
    graph = grimp.build_graph("cronhpc", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 100
    found = [{name.removeprefix("cronhpc.") for name in circle} for circle in circles(imports)]
    assert found == []


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that all import each other, some by way of others."""
    reach = {module: reached(imports, module) for module in imports}
    return [
        {other for other in far if module in reach[other]}
        for module, far in reach.items()
        if module in far and module == min(other for other in far if module in reach[other])
    ]


def reached(imports: dict[str, set[str]], module: str) -> set[str]:
    """All that it imports, also by way of others."""
    found: set[str] = set()
    left = [module]
    while left:
        new = imports[left.pop()] - found
        found |= new
        left += new
    return found


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [{"b", "c"}]

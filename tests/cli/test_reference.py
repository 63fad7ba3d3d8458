"""What docs/generate makes of the program is up to date, printed and shipped, and holds all that there is."""

from __future__ import annotations

import io
import re
import shutil
import subprocess  # noqa: TID251 - groff reads the page
import tomllib
from pathlib import Path

import pytest

from cronhpc.check import lint
from cronhpc.cli import SHIPPED, main
from cronhpc.cli.commands import parser_of, parsers, present
from cronhpc.cli.console import Console
from cronhpc.core import policy
from cronhpc.core.model import Policies
from cronhpc.store import schema
from docs.generate import reference
from docs.generate.__main__ import PRODUCTS
from docs.generate.codes import OF_FILES, OF_SCRIPTS
from docs.generate.pages import FORMATS, Lines, Prose, Rows, Section, render

TOP = Path(__file__).resolve().parents[2]
KEPT = {"markdown": TOP / "docs" / "reference.md", "man": TOP / "docs" / "cronhpc.1"}
PARSERS = parsers()
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((TOP / "cronhpc").rglob("*.py"))}
# The same without the table of codes: what gives them.
RULES = {path: text.partition("\nRETIRED = ")[2].partition("\n")[2] or text for path, text in SOURCES.items()}
REQUESTS = {".TH", ".nh", ".ad", ".SH", ".SS", ".B", ".I", ".PP", ".TP", ".RS", ".RE", ".nf", ".fi", ".br"}


def printed(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = main(words, Console(now=0, environ={}, out=out, err=err, is_terminal=False))
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_file_in_docs_is_what_the_program_makes(name: str) -> None:
    made = PRODUCTS[name]()
    fix = f"docs/{name} is out of date. Write it with: python -m docs.generate"
    assert (TOP / "docs" / name).read_text(encoding="utf-8") == made, fix


WANTED = {
    "--completion bash": "completion.bash",
    "--completion zsh": "completion.bash",
    "--reference markdown": "reference.md",
    "--reference man": "cronhpc.1",
    "--reference=man": "cronhpc.1",
    "--completion=zsh": "completion.bash",
}


@pytest.mark.parametrize(("words", "name"), WANTED.items(), ids=WANTED)
def test_the_program_prints_the_file(words: str, name: str) -> None:
    assert printed(*words.split()) == (0, PRODUCTS[name](), "")


def test_the_wheel_has_all_that_the_program_prints() -> None:
    wheel = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    shipped = wheel["wheel"]["force-include"]
    for name in {name for names in SHIPPED.values() for name in names.values()}:
        assert shipped[f"docs/{name}"] == f"cronhpc/_docs/{name}"


REFUSED = {
    "--reference": "markdown and man",
    "--reference pdf": "markdown and man",
    "--reference=html": "markdown and man",
    "--completion": "bash and zsh",
    "--completion fish": "bash and zsh, not 'fish'",
}


@pytest.mark.parametrize(("words", "known"), REFUSED.items(), ids=REFUSED)
def test_another_word_is_refused_with_those_that_there_are(words: str, known: str) -> None:
    code, text, said = printed(*words.split())
    assert (code, text) == (2, "")
    assert known in said


def shown(fmt: str) -> str:
    """The file as its reader sees it."""
    text = KEPT[fmt].read_text(encoding="utf-8")
    return re.sub(r"\\f.|\\&", "", text).replace("\\-", "-") if fmt == "man" else text.replace("\\|", "|")


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", PARSERS)
def test_every_command_and_option_is_there(fmt: str, name: str) -> None:
    title = f'.SS "cronhpc {name}"' if fmt == "man" else f"### cronhpc {name}\n"
    part = re.split(r"\n\.S[SH] |\n##", shown(fmt).partition(title)[2])[0]
    assert part, f"no section of {name}"
    options = {word for action in PARSERS[name]._actions for word in action.option_strings}
    common = {"-h", "--help", "--dir", "--backend", "--json", "--version"}
    assert [word for word in options - common if not re.search(rf"{word}(?![\w-])", part)] == []
    assert [word for word in common if word not in shown(fmt)] == []


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_setting_policy_code_and_variable_is_there(fmt: str) -> None:
    wanted = [row.key for row in schema.TABLE]
    wanted += [*schema.ENTRY_KEYS, *schema.SWITCH_KEYS, *policy.POLICIES, *OF_SCRIPTS, *OF_FILES]
    wanted += [*reference.RUN_VARIABLES, *reference.READ_VARIABLES, *reference.EXIT_CODES]
    text = shown(fmt).replace("\\(aq", "'").replace("...", "…")
    assert [word for word in wanted if word not in text] == []


# --- the tables behind it ------------------------------------------------------------------------------------------


def test_the_codes_are_those_that_the_program_has() -> None:
    used = {code for text in RULES.values() for code in re.findall(r'"([EWN]\d{3})"', text)}
    assert used == {*OF_SCRIPTS, *OF_FILES}
    assert set(OF_SCRIPTS) == lint.CODES
    assert not set(OF_SCRIPTS) & set(OF_FILES)
    assert all(what and fix for what, fix in (*OF_SCRIPTS.values(), *OF_FILES.values()))


def test_a_code_means_one_thing_wherever_it_is_given() -> None:
    """W004 was both a folder among the scripts and a comment that ignores no code."""
    scripts = {p.name for p, text in RULES.items() for code in ("W004",) if f'"{code}"' in text}
    folders = {p.name for p, text in RULES.items() for code in ("W007",) if f'"{code}"' in text}
    assert (scripts, folders) == ({"lint.py"}, {"entries.py"})


def test_the_variables_are_those_that_the_program_and_its_scripts_know() -> None:
    texts = list(SOURCES.values())
    texts += [path.read_text(encoding="utf-8") for path in sorted((TOP / "jobs").rglob("*.slurm"))]
    texts += [(TOP / "deploy" / name).read_text(encoding="utf-8") for name in ("install", "demo", "lib.sh")]
    used = {name for text in texts for name in re.findall(r"\bCRONHPC_[A-Z_]+\b", text)}
    told = {*reference.RUN_VARIABLES, *reference.READ_VARIABLES, *reference.JOBS_VARIABLES}
    told |= {name for names in reference.ALERT_VARIABLES for name in names.split(", ")}
    # Of deploy/lib.sh, of the launcher, and of the wrapper of runs, for their own ends.
    inner = {"CRONHPC_STARTED_BY", "CRONHPC_LIBRARIES", "CRONHPC_PING", "CRONHPC_TASKS"}
    assert used - inner == {name for name in told if name.startswith("CRONHPC_")}


def test_every_policy_is_told_with_its_default() -> None:
    plain = Policies()
    assert tuple(policy.POLICIES) == schema.POLICIES
    for name, (_, values, default, meaning) in policy.POLICIES.items():
        value = getattr(plain, name.replace("-", "_"))
        assert values
        assert meaning
        if value is not None:
            assert default == str(value).lower(), name


def test_a_policys_values_are_taken_and_others_are_not() -> None:
    words = {name: values.split(", ") for name, (_, values, _, _) in policy.POLICIES.items()}
    words = {name: values for name, values in words.items() if len(values) > 1 and all(map(str.isalpha, values))}
    assert {"catch-up", "overlap"} <= set(words)
    assert [v for name in words for v in words[name] if policy.parse_policies([(name, v, 1)])[1] != ()] == []
    ranges = {name: match for name, (_, values, _, _) in policy.POLICIES.items() if (match := _RANGE.search(values))}
    assert {"retries", "catch-up-limit"} <= set(ranges)
    for name, match in ranges.items():
        tried = (match[1], match[2], str(int(match[2]) + 1))
        assert [policy.parse_policies([(name, v, 1)])[1] == () for v in tried] == [True, True, False], name


_RANGE = re.compile(r"(\d+) to (\d+)")


# --- how it is written ---------------------------------------------------------------------------------------------

AWKWARD = (
    Section(
        "Awkward",
        [
            Prose(".begins with a dot, 'quotes', \"more\", a\\b, *star*, <tag>, `a|b`"),
            Lines(".a line\n\n'another"),
            Rows(("name", "kind", "meaning"), [("`a|b`", "x|y", ".what…"), ("`c`", "-", "it")]),
        ],
    ),
)


def test_markdown_keeps_every_character_and_every_table_its_columns() -> None:
    text = render(AWKWARD, "markdown", summary="s", version="1")
    assert "\\*star\\*, \\<tag>, `a|b`" in text
    assert "| `a\\|b` | x\\|y | .what… |" in text


def test_a_page_of_the_manual_has_no_request_that_was_meant_as_text() -> None:
    lines = render(AWKWARD, "man", summary="s", version="1").splitlines()
    assert "\\&.a line" in lines
    assert "\\(aqanother" in lines
    assert "\\&" in lines  # an empty line would be a request as well
    assert "a\\eb" in "\n".join(lines)
    assert "\\&.what..." in lines
    assert "kind: x|y" in lines
    assert "kind: \\-" not in lines


def test_every_table_of_the_reference_has_as_many_cells_in_each_row() -> None:
    width = 0
    for line in KEPT["markdown"].read_text(encoding="utf-8").splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells


def test_the_page_of_the_manual_has_its_sections_and_known_requests_only() -> None:
    lines = KEPT["man"].read_text(encoding="ascii").splitlines()
    assert lines[1].startswith(".TH CRONHPC 1 ")
    sections = [line for line in lines if line.startswith(".SH")]
    assert sections[:4] == [".SH NAME", ".SH SYNOPSIS", '.SH "DESCRIPTION"', '.SH "COMMANDS"']
    assert {line.split()[0] for line in lines[1:] if line.startswith((".", "'"))} <= REQUESTS
    assert lines.count(".nf") == lines.count(".fi")
    assert lines.count(".RS 4") == lines.count(".RE")


@pytest.mark.processes
def test_groff_has_nothing_to_say_of_it() -> None:
    if groff := shutil.which("groff"):
        argv = [groff, "-man", "-ww", "-Tutf8", "-z", str(KEPT["man"])]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", present())
def test_help_fits_a_terminal_of_80_columns(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Examples and exit codes stand as they are written, and were broken by the terminal."""
    capsys.readouterr()
    assert [line for line in parser_of(name).format_help().splitlines() if len(line) > 80] == []

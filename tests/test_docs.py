"""The docs against the program: each command, option, setting and schedule they show is one that exists."""

from __future__ import annotations

import io
import itertools
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cronhpc.cli import SHIPPED, commands, main
from cronhpc.cli.commands import parsers
from cronhpc.cli.console import Console, UsageError
from cronhpc.core import policy
from cronhpc.script import header, sbatch_options
from cronhpc.script.dialect import SYSTEMS
from cronhpc.script.spelling import SPELLINGS
from cronhpc.store.settings import parse_settings
from tests.bench import bench_scale

TOP = Path(__file__).resolve().parent.parent
DOCS = sorted(
    {
        TOP / "README.md",
        TOP / "CONTRIBUTING.md",
        *TOP.glob("docs/**/*.md"),
        *TOP.glob("jobs/**/*.md"),
        *TOP.glob("deploy/**/*.md"),
    }
)
PARSERS = parsers()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
OPERATORS = frozenset(";|&<>()")
OTHER_PROGRAMS = ("deploy/test", "deploy/demo", "deploy/install")


def blocks(text: str, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text) if language in languages]


def typed(text: str) -> list[str]:
    """The command lines in `text`: after a prompt in blocks, and whole in spans of code."""
    lines = [line[2:] for block in blocks(text, "console") for line in block.splitlines() if line.startswith("$ ")]
    return lines + SPAN.findall(FENCE.sub("", text))


def calls(line: str, program: str) -> list[list[str]]:
    """The words of each call of `program` in one line of shell; none where it is no shell but prose."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) <= OPERATORS:
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:  # a lone quote
        return []
    return [words[1:] for words in commands if words[:1] == [program]]


def shown(program: str) -> list[tuple[str, list[str]]]:
    """(where, words) of each call of `program` in the docs."""
    rows = []
    for path in DOCS:
        for line in typed(path.read_text(encoding="utf-8")):
            rows += [(f"{path.relative_to(TOP)}: {line}", words) for words in calls(line, program)]
    return rows


COMMANDS = shown("cronhpc")


def test_the_docs_show_commands() -> None:
    """Else the search is broken, and every test below proves nothing."""
    assert {"init", "start", "status", "run", "plan"} <= {words[0] for _, words in COMMANDS if words}


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=[where for where, _ in COMMANDS])
def test_a_command_in_the_docs_is_understood(where: str, words: list[str]) -> None:
    # In prose a command may be named without its NAME, and an option without its value.
    complaint = refused(words) and refused([*words, "NAME"])
    assert not (words and complaint), f"{where}: {complaint}"


def refused(words: list[str]) -> str:
    """Why the command line does not take these words; "" where it does."""
    quiet = io.StringIO()
    console = Console(now=0, environ={}, out=quiet, err=quiet, is_terminal=False)
    if words and words[0] in {"--completion", "--reference"}:  # these print, and run no command
        return quiet.getvalue() if main(words, console) else ""
    try:
        commands.parse(words, console)
    except SystemExit as end:  # --help and --version have printed what they should
        return str(end.code or "")
    except UsageError as error:
        return str(error)
    return ""


def options() -> set[str]:
    """Every option there is: of the commands, of `#CRON` lines, of sbatch, and of the programs in deploy/."""
    known = {word for parser in PARSERS.values() for action in parser._actions for word in action.option_strings}
    known |= {f"--{name}" for name in policy.POLICIES} | SHIPPED.keys()
    for program in OTHER_PROGRAMS:
        known |= set(re.findall(r"--[a-z][a-z-]+", (TOP / program).read_text(encoding="utf-8")))
    lab = "".join(path.read_text(encoding="utf-8") for path in (TOP / "deploy/lab/slurmlab").glob("*.py"))
    return known | set(re.findall(r"--[a-z][a-z-]+", lab)) | {f"--{name}" for name in sbatch_options.LONG}


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(TOP)))
def test_an_option_in_the_docs_exists(path: Path) -> None:
    spans = SPAN.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
    named = {match[0] for span in spans if (match := re.match(r"--[a-z][a-z-]+", span))}
    assert named <= options()


def parts(*languages: str) -> list[Any]:
    """Each block in one of these languages, with where it stands."""
    found = [(path, block) for path in DOCS for block in blocks(path.read_text(encoding="utf-8"), *languages)]
    return [pytest.param(block, id=f"{path.relative_to(TOP)}: {block[:30]!r}") for path, block in found]


SETTINGS = parts("yaml")
SCHEDULED = [part for part in parts("bash", "console") if "\n#CRON" in part.values[0]]


def test_the_docs_show_settings_and_schedules() -> None:
    """Else the search is broken, and the two tests below prove nothing."""
    assert len(SETTINGS) > 2
    assert len(SCHEDULED) > 1


@pytest.mark.parametrize("block", SETTINGS)
def test_settings_in_the_docs_are_accepted(block: str) -> None:
    assert parse_settings(block.encode()) != parse_settings(b"#"), "it says something that is not so without it"


@pytest.mark.parametrize("block", SCHEDULED)
def test_schedules_in_the_docs_are_accepted(block: str) -> None:
    lines = tuple((n, line) for n, line in enumerate(block.splitlines(), 1) if line.startswith("#CRON"))
    assert lines
    for line in lines:
        found, problems = header.read_cron((line,))
        assert found, line
        assert not problems, problems


def test_the_docs_name_every_policy() -> None:
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    assert [name for name in policy.POLICIES if f"--{name}" not in readme] == []


def test_the_files_that_contributors_are_sent_to_are_there() -> None:
    text = "".join((TOP / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "docs/how-it-works.md"))
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    assert {"cronhpc/tick.py", "core/policy.py"} <= named
    assert [name for name in named if not any((TOP / top / name).exists() for top in ("", "cronhpc"))] == []


def test_the_functions_that_one_run_is_followed_by_are_there() -> None:
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (`.+`) \|", text, re.MULTILINE)
    assert len(rows) == 9, "and the claims' head"
    for name, functions in rows:
        text = (TOP / "cronhpc" / name.removeprefix("cronhpc/")).read_text(encoding="utf-8")
        assert [each for each in re.findall(r"\w+", functions) if f"def {each}(" not in text] == [], name


def links() -> list[tuple[Path, str]]:
    found = []
    for path in DOCS:
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        found += [(path, target) for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)]
    return found


@pytest.mark.parametrize(("path", "target"), links(), ids=[f"{p.relative_to(TOP)}: {t}" for p, t in links()])
def test_a_link_in_the_docs_leads_somewhere(path: Path, target: str) -> None:
    assert (path.parent / target).exists()


def headings(path: Path) -> set[str]:
    """What a link to a part of the page ends in, as GitHub makes it of each heading."""
    lines = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def parts_linked() -> list[tuple[Path, str, str]]:
    found = []
    for path in DOCS:
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        found += [(path, page, part) for page, part in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text)]
    return found


@pytest.mark.parametrize(("path", "page", "part"), parts_linked(), ids=lambda each: str(each).rpartition("/")[2])
def test_a_link_to_a_part_of_a_page_finds_it(path: Path, page: str, part: str) -> None:
    assert part in headings(path.parent / page if page else path)


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_the_example_in_a_commands_help_is_understood(name: str) -> None:
    text = PARSERS[name].format_help().partition("example:")[2]
    examples = [words for line in text.splitlines() for words in calls(line, "cronhpc")]
    assert examples, f"cronhpc {name} --help has no example"
    assert [complaint for words in examples if (complaint := refused(words))] == []


def test_the_readme_leads_to_every_page_and_stays_a_tour() -> None:
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    pages = [str(path.relative_to(TOP)) for path in DOCS if path.parent.name == "docs"]
    assert [page for page in pages if f"({page})" not in readme] == []
    assert len(readme.splitlines()) <= 210


# --- the quick start ----------------------------------------------------------------------------------------------


def printed(block: str, *commands: str) -> list[str]:
    """What stands below each of these commands in a block of the quick start."""
    text = (TOP / "docs" / "quick-start.md").read_text(encoding="utf-8").partition(block)[2]
    answers = []
    for command in commands:
        found = re.search(rf"^\$ {re.escape(command)}(?:  .*)?\n((?:(?!\$ |```).*\n)*)", text, re.MULTILINE)
        assert found, command
        answers.append(found[1])
    return answers


@pytest.mark.processes
def test_what_the_quick_start_shows_is_what_is_printed(tmp_path: Path) -> None:
    """The part without Slurm; tests/lab/test_quick_start.py has the other."""
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    out = io.StringIO()

    def answer(*words: str) -> str:
        out.seek(0)
        out.truncate()
        main(words, Console(now=1_795_838_400, environ=environ, out=out, err=out, is_terminal=False))
        return out.getvalue()

    init, kill, unkill = (
        printed("## On a laptop", "cronhpc init --backend local"),
        *[
            printed("## Stop", f"cronhpc {word}")[0]
            for word in ('kill backup --reason "disk is full"', "unkill backup")
        ],
    )
    assert answer("init", "--backend", "local") == init[0]
    script = tmp_path / "cron" / "cron.daily" / "backup.slurm"
    script.write_text("".join(printed("## 3.", "cat > ~/cron/cron.daily/backup.slurm")), encoding="utf-8")
    assert answer("check") == printed("## 3.", "cronhpc check")[0]
    mine, shown = (text.splitlines() for text in (answer("kill", "backup", "--reason", "disk is full"), kill))
    assert (mine[0], mine[-1]) == (shown[0], shown[-1])
    nobody = "nobody will submit its next slots: cronhpc start"  # nothing is started here
    assert answer("unkill", "backup") == unkill.replace("its next slots run as usual", nobody)


# --- the picture ---------------------------------------------------------------------------------------------------

PICTURE = TOP / "docs" / "how-it-works.svg"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_read_in_light_and_dark_and_fetches_nothing() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert "<title" in text
    assert "<desc" in text
    assert re.findall(r"<script|<image|href=|@import|url\(http", text) == []
    alone = re.search(
        r"!\[([^\]]{200,})\]\(how-it-works\.svg\)", (TOP / "docs/how-it-works.md").read_text(encoding="utf-8")
    )
    assert alone, "the picture is described for those who do not see it"


def test_no_words_of_the_picture_overlap_or_leave_it() -> None:
    """By an estimate of their width, generous for a wide font."""
    root = ET.parse(PICTURE).getroot()  # noqa: S314 - our own file
    width = float(root.attrib["width"])
    rows: dict[float, list[tuple[float, float, str]]] = {}
    for each in root.iter(f"{SVG}text"):
        classes, words = each.get("class", "").split(), each.text or ""
        letter = 8.6 if "head" in classes else 5.9 if "small" in classes else 6.9
        size, x = letter * len(words), float(each.attrib["x"])
        left = x - size / 2 if "mid" in classes else x
        rows.setdefault(float(each.attrib["y"]), []).append((left, left + size, words))
    for row in rows.values():
        ends = sorted(row)
        assert ends[0][0] >= 12
        assert max(end for _, end, _ in ends) <= width - 12, ends
        for (_, end, words), (start, _, after) in itertools.pairwise(ends):
            assert end < start, f"{words!r} runs into {after!r}"


def test_python_that_is_asked_for_is_the_same_everywhere() -> None:
    readme, project = ((TOP / name).read_text(encoding="utf-8") for name in ("README.md", "pyproject.toml"))
    assert "3.11 or newer" in readme
    assert 'requires-python = ">=3.11"' in project
    assert sys.version_info >= (3, 11)


def test_the_picture_of_status_shows_what_is_drawn_today() -> None:
    from tests.pictures import DOCS as PICTURES
    from tests.pictures import status_svg

    drawn = (PICTURES / "status.svg").read_text(encoding="utf-8")
    assert drawn == status_svg(), "the screen has changed: .env/test/bin/python -m tests.pictures --no-browser"


def test_the_readme_shows_pictures_that_are_described_and_small() -> None:
    shown = re.findall(r"!\[([^\]]+)\]\((docs/[^)]+)\)", (TOP / "README.md").read_text(encoding="utf-8"))
    assert [path for _, path in shown] == ["docs/status.svg", "docs/page.png"]
    assert all(len(words) > 80 for words, _ in shown)
    assert all((TOP / path).stat().st_size < 200_000 for _, path in shown)


# --- batch systems ---------------------------------------------------------------------------------------------------


SYSTEMS_PAGE = (TOP / "docs" / "batch-systems.md").read_text(encoding="utf-8")


def cells(head: str) -> list[list[str]]:
    """The rows of the table that begins with `head`."""
    lines = SYSTEMS_PAGE[SYSTEMS_PAGE.index(f"| {head} |") :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


HELD = [(row[0], cell) for row in cells("need") for cell in row[1:] if ".py" in cell]


@pytest.mark.parametrize(("need", "cell"), HELD)
def test_what_is_here_on_a_batch_system_is_held_by_the_test_that_is_named(need: str, cell: str) -> None:
    file, word = re.fullmatch(r"`([\w/]+\.py)` ?(\w*)", cell).groups()  # type: ignore[union-attr]
    names = re.findall(r"^def (test_\w+)", (TOP / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert any(word in name for name in names), need


def test_what_is_not_here_is_what_the_program_says_is_not_here() -> None:
    again = next(row for row in cells("need") if "`again`" in row[0])
    told = {each.title: bool(each.no_again) for each in SYSTEMS}
    assert {title: cell.startswith("not here") for title, cell in zip(told, again[1:], strict=True)} == told
    chain = next(row for row in cells("need") if "`start`" in row[0])
    assert not any(cell.startswith("not here") for cell in chain[1:])


def test_options_are_spelt_as_the_page_says() -> None:
    others = [each for each in SYSTEMS if each.name in SPELLINGS]
    for name, ours, *theirs in cells("option"):
        assert ours == f"`--{name}`"
        told = [SPELLINGS[each.name].names.get(name, "") for each in others]
        assert theirs == [f"`{each}`" if each else "-" for each in told], name
    known = {name for each in others for name in SPELLINGS[each.name].names}
    assert {row[0] for row in cells("option")} == known - {"export"}


# --- a thousand users ------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("way", [pytest.param(way, id=way.title.replace("`", "")) for way in bench_scale.WAYS])
def test_the_page_for_a_thousand_users_has_what_the_simulation_gives(way: bench_scale.Way) -> None:
    load, page = bench_scale.day(way), (TOP / "docs" / "scale.md").read_text(encoding="utf-8")
    assert f"\n{bench_scale.row(way, load)}\n" in page
    assert f"\n{bench_scale.drawn(load)}\n" in page or way not in bench_scale.WAYS[:2]

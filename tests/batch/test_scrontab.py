"""One entry in a user's scrontab: added and removed, and nothing else touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cronhpc.batch import scrontab
from cronhpc.batch.scrontab import ScrontabError

THEIRS = """# my table
MAILTO=me@example.org
#SCRON --time=5
0 4 * * * /home/me/backup.sh "a  b"

#DISABLED: 0 5 * * * old"""  # no newline at its end

FAKE = """#!/bin/bash
# scrontab as Slurm's behaves (measured): -l prints the table or complains, - replaces it, all else is refused
table=$HOME/table
case "$*" in
  -l) [ -n "$FROZEN" ] && exit 1
      if [ -s "$table" ]; then cat "$table"; else echo "no crontab for me" >&2; exit 1; fi ;;
  -) cat >"$table.new"; [ -n "$REFUSES" ] && { echo "Invalid time specification" >&2; exit 1; }
     [ -n "$LATER" ] && { (sleep 1; mv "$table.new" "$table") >/dev/null 2>&1 & echo "Socket timed out" >&2; exit 1; }
     [ -n "$SLOW" ] && { mv "$table.new" "$table"; echo "Socket timed out on send/recv operation" >&2; exit 1; }
     [ -n "$GARBLES" ] && echo junk >>"$table.new"; mv "$table.new" "$table" ;;
  *) echo "scrontab: unexpected arguments: $*" >&2; exit 99 ;;
esac
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "bin" / "scrontab"
    program.parent.mkdir()
    program.write_text(FAKE, encoding="utf-8")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def ours(mark: str = "ab12cd") -> str:
    return scrontab.block(mark, "0 * * * *", ["--time=10"], "/opt/cronhpc tick --dir '/a b'")


def test_what_is_added_goes_again_and_the_rest_stays_byte_for_byte() -> None:
    table = scrontab.with_block(THEIRS, "ab12cd", ours())
    assert table.startswith(THEIRS + "\n")
    assert scrontab.without_block(table, "ab12cd") == THEIRS
    assert scrontab.with_block(table, "ab12cd", ours()) == table


def disabled(table: str) -> str:
    """As Slurm leaves our entry once its job was cancelled: its options and its command, not the comments."""
    rows = table.splitlines(keepends=True)
    return "".join(f"#DISABLED: {row}" if "--time=10" in row or " tick --dir " in row else row for row in rows)


def test_an_entry_that_slurm_has_disabled_is_ours_still() -> None:
    """Its three lines stayed for ever, and a second entry came beside them."""
    table = scrontab.with_block(THEIRS, "ab12cd", ours())
    assert not scrontab.is_disabled(table, "ab12cd")
    assert scrontab.is_disabled(disabled(table), "ab12cd")
    assert scrontab.with_block(disabled(table), "ab12cd", ours()) == table
    assert scrontab.without_block(disabled(table), "ab12cd") == THEIRS


def test_a_table_that_got_lines_below_ours_since_keeps_its_newlines() -> None:
    table = scrontab.with_block(THEIRS, "ab12cd", ours()) + "1 1 * * * mine\n"
    assert scrontab.without_block(table, "ab12cd") == f"{THEIRS}\n1 1 * * * mine\n"


@pytest.mark.processes
def test_a_scrontab_that_is_switched_off_is_said_with_the_way_out(environ: dict[str, str]) -> None:
    program = Path(environ["HOME"]) / "bin" / "scrontab"
    program.write_text("#!/bin/sh\necho 'scrontab: fatal: scrontab is disabled on this cluster' >&2; exit 1\n")
    with pytest.raises(ScrontabError, match=r"switched scrontab off .*Use: cronhpc start"):
        scrontab.read(environ)


def test_another_cron_directorys_entry_stays() -> None:
    both = scrontab.with_block(scrontab.with_block("", "ab12cd", ours()), "ffffff", ours("ffffff"))
    assert scrontab.without_block(both, "ab12cd") == ours("ffffff")


def test_what_stands_below_an_entry_whose_end_mark_is_gone_is_its_users() -> None:
    """It was deleted with ours, to the end of the table."""
    table = scrontab.with_block(THEIRS, "ab12cd", ours()).replace("# cronhpc ab12cd: end\n", "")
    mine = "#SCRON --time=1\n1 1 * * * echo mine\n"
    assert scrontab.without_block(table + mine, "ab12cd") == THEIRS + "\n" + mine


@pytest.mark.processes
def test_a_write_that_failed_and_was_done_all_the_same_is_done(environ: dict[str, str]) -> None:
    scrontab.write({**environ, "SLOW": "1"}, THEIRS)
    assert scrontab.read(environ) == THEIRS


@pytest.mark.processes
def test_the_table_is_written_and_read_back(environ: dict[str, str]) -> None:
    assert scrontab.read(environ) == ""
    scrontab.write(environ, THEIRS)
    assert scrontab.read(environ) == THEIRS


@pytest.mark.processes
def test_no_answer_is_not_an_empty_table(environ: dict[str, str]) -> None:
    (Path(environ["HOME"]) / "table").write_text(THEIRS, encoding="utf-8")
    with pytest.raises(ScrontabError, match="cannot be read"):
        scrontab.read({**environ, "FROZEN": "1"})


@pytest.mark.processes
def test_a_refused_table_is_said(environ: dict[str, str]) -> None:
    with pytest.raises(ScrontabError, match="Invalid time"):
        scrontab.write({**environ, "REFUSES": "1"}, THEIRS)


@pytest.mark.processes
def test_a_table_that_reads_back_otherwise_is_said(environ: dict[str, str]) -> None:
    with pytest.raises(ScrontabError, match="something else"):
        scrontab.write({**environ, "GARBLES": "1"}, THEIRS)


def test_a_site_without_scrontab_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScrontabError, match="no scrontab"):
        scrontab.read({"PATH": str(tmp_path), "HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("interval", "fields"),
    [
        (60, "* * * * *"),
        (3600, "0 * * * *"),
        (1800, "*/30 * * * *"),
        (300, "*/5 * * * *"),
        (7200, "0 */2 * * *"),
        (43200, "0 */12 * * *"),
    ],
)
def test_an_interval_as_cron_fields(interval: int, fields: str) -> None:
    assert scrontab.fields_of(interval) == fields


@pytest.mark.parametrize("interval", [30, 90, 5400, 25 * 3600, 7 * 3600])
def test_an_interval_that_no_cron_line_can_say(interval: int) -> None:
    with pytest.raises(ScrontabError, match="interval"):
        scrontab.fields_of(interval)


def test_only_entries_make_a_table_that_matters() -> None:
    assert scrontab.has_entries(THEIRS)
    assert not scrontab.has_entries("# nothing\nMAILTO=x\n\n#DISABLED: 0 5 * * * old\n")

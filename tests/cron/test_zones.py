"""Names of time zones as people and accidents write them: one that is none is said to be, whatever it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from cronhpc.core.policy import parse_policies
from cronhpc.cron.zones import ZoneError, is_zone, zone_of
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture

ABSURD = {
    "600 levels": "a/" * 600 + "a",
    "6,000 levels": "a/" * 6000 + "a",
    "a name of 5,000 letters": "E" * 5000,
    "a blank within": "Europe/ Paris",
    "a newline": "Europe/Paris\nx",
    "NUL": "Europe/Paris\0",
    "a path": "/etc/passwd",
    "a path outside": "../../etc/passwd",
    "a folder": "Europe",
    "a folder with a slash": "Europe/",
    "another slash": "Europe//Paris",
    "this folder": ".",
    "nothing": "",
    "half a character": "Europe/\udcff",
    "letters of another script": "Europe/\u041f\u0430\u0440\u0438\u0436",
    "digits of another script": "Etc/GMT+\u0663",
    "a file of the database that is no zone": "zone.tab",
}


@pytest.mark.parametrize("key", ABSURD.values(), ids=ABSURD)
def test_what_is_no_zone_is_said_to_be_none(key: str) -> None:
    assert not is_zone(key)
    with pytest.raises(ZoneError):
        zone_of(key)
    _, (problem,) = parse_policies([("timezone", key, 3)])
    assert (problem.code, problem.line) == ("E103", 3)
    assert len(problem.what) < 200


@pytest.mark.parametrize(
    "key", ["UTC", "Europe/Paris", "Etc/GMT+5", "America/North_Dakota/New_Salem", "GMT0", "America/Port-au-Prince"]
)
def test_what_is_one_is_found(key: str) -> None:
    assert zone_of(key).key == key


def test_a_blank_at_either_end_is_no_matter(shell: Shell) -> None:
    said = shell("next", "--schedule", "@daily", "--timezone", "Europe/Paris ")
    assert (said.code, said.err) == (0, "")


@pytest.mark.parametrize("key", [ABSURD["600 levels"], "Europe/Paris/x", "Europe"])
def test_one_script_with_an_absurd_zone_harms_only_itself(shell: Shell, key: str) -> None:
    shell.drop("cron.d/bad.slurm", f"#CRON @hourly --timezone={key}")
    shell.drop("cron.d/good.slurm", "#CRON @hourly")
    shell.drop("cron.d/c.slurm", f"#CRON CRON_TZ={key} 0 3 * * *")
    said = shell("status", "--json")
    assert (said.code, said.err) == (1, "")
    assert "good" in said.out
    assert "E103" in said.out


@pytest.mark.parametrize("key", [ABSURD["600 levels"], "Europe/Paris x"])
def test_an_absurd_zone_of_the_settings_or_the_shell_is_no_traceback(shell: Shell, key: str) -> None:
    assert shell("status", TZ=key).code == 0
    assert shell("next", "--schedule", "@daily", TZ=key).code == 0
    settings = shell.cron / "cronhpc.yaml"
    settings.write_text(f"backend: local\ntimezone: '{key}'\n", encoding="utf-8")
    said = shell("status")
    assert said.code == 2
    assert "is no time zone" in said.err


def test_an_import_with_an_absurd_zone_is_no_traceback(shell: Shell, tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text(f"CRON_TZ={ABSURD['600 levels']}\n0 3 * * * true\n", encoding="utf-8")
    said = shell("import", "crontab", str(table), "--dry-run")
    assert "Traceback" not in said.err


@pytest.mark.processes
def test_a_zone_that_another_machine_knew_bars_one_entry_and_no_tick(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.drop("cron.d/a.slurm", "#CRON 0 3 * * * --timezone=Asia/Tokyo")
    shell.drop("cron.d/b.slurm", "#CRON 0 3 * * *")
    assert shell("tick", now=later()).code == 0
    monkeypatch.setattr("cronhpc.cron.zones.ZoneInfo", _without_tokyo)
    said = shell("tick", now=later() + 86400)
    assert "Traceback" not in said.err
    a, b = json.loads(shell("status", "--json", now=later() + 86400).out)["entries"]
    assert (a["problem"]["code"], b["problem"]) == ("E103", None)


def _without_tokyo(key: str) -> ZoneInfo:
    if key == "Asia/Tokyo":
        raise ZoneInfoNotFoundError(key)
    return ZoneInfo(key)


@pytest.mark.parametrize("error", [RecursionError, ValueError, KeyError, OverflowError, TypeError])
def test_a_script_on_which_cronhpc_itself_fails_harms_only_itself(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    from cronhpc.script import header

    real = header.read_header

    def read(data: bytes, *how: Any) -> header.Header:
        if b"odd" in data:
            raise error
        return real(data, *how)

    monkeypatch.setattr("cronhpc.script.header.read_header", read)
    shell.drop("cron.d/a.slurm", "#CRON 0 3 * * *\n# odd")
    shell.drop("cron.d/b.slurm", "#CRON 0 3 * * *")
    a, b = json.loads(shell("status", "--json", now=later()).out)["entries"]
    assert (a["problem"]["code"], b["problem"]) == ("E313", None)

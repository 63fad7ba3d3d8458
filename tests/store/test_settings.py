"""`cronhpc.yaml`: what it may say, what is said when it does not, and the text that is written."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpc.core.model import EntryRow, Settings, SettingsError, SwitchSetting
from cronhpc.core.policy import POLICIES
from cronhpc.store import schema
from cronhpc.store.memory import settings_from_json, settings_to_json
from cronhpc.store.settings import EditError, default_text, edited, parse_settings, quoted, read_settings
from cronhpc.store.settings_reader import KINDS
from docs.generate.reference import describe

DESIGN = """\
timezone: Europe/Paris
sbatch: {partition: cpu, account: abc@cpu}      # for entries that name none
folders: {hourly: "H * * * *", daily: "H 4 * * *", weekly: "H 4 * * sun", monthly: "H 4 1 * *"}   # H here
defaults: {catch-up: latest, overlap: skip}
entries:
  hello: {schedule: "*/30 8-18 * * mon-fri", command: python -m hello, sbatch: {time: 10}}
scheduler: {interval: 1h, min-interval: 5m, sbatch: {time: 10}}
kill:
  group: proj                        # whose members may write kill/ and pause/
  also: [/proj/team/kill]            # more folders to look in
  within: 10m
  switches:
    training17: {jobs: {name: "tr17-*"}, file: /proj/tmp/training17-kill-switch, warn: USR1@5m}
trust: {owners: [me, root]}
logs: {keep: 7d, files: 200, total: 5G}
alerts: {command: ~/bin/notify}
"""


def parse(text: str) -> Settings:
    return parse_settings(text.encode())


def complaints(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        parse(text)
    return [str(problem) for problem in caught.value.problems]


def test_the_file_of_the_design_is_read_as_it_says() -> None:
    assert parse(DESIGN) == Settings(
        timezone="Europe/Paris",
        sbatch=(("partition", "cpu"), ("account", "abc@cpu")),
        defaults=(("catch-up", "latest", 4), ("overlap", "skip", 4)),
        entries=(EntryRow("hello", 6, "*/30 8-18 * * mon-fri", command="python -m hello", sbatch=(("time", "10"),)),),
        kill_group="proj",
        kill_also=("/proj/team/kill",),
        switches=(
            SwitchSetting(
                "training17", "tr17-*", file="/proj/tmp/training17-kill-switch", warn_signal="USR1", warn_before=300
            ),
        ),
        alerts_command="~/bin/notify",
    )


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "~\n", "kill:\nlogs:\nentries:\n", "\ufeff"])
def test_a_file_that_says_nothing_means_the_defaults(text: str) -> None:
    assert parse(text) == Settings()


VALUES = {
    "a duration of several units": ("scheduler: {interval: 1h30m}", "interval", 5400),
    "a duration of days": ("logs: {keep: 7d}", "logs_keep", 604_800),
    "a size in gigabytes": ("logs: {total: 5G}", "logs_total", 5 << 30),
    "a size as others write it": ("logs: {total: 500 MiB}", "logs_total", 500 << 20),
    "a broken size": ("logs: {total: 1.5T}", "logs_total", 3 << 39),
    "a size in bytes": ("logs: {total: 1000}", "logs_total", 1000),
    "an owner alone": ("trust: {owners: bob}", "trust_owners", ("bob",)),
    "a list in lines": ("kill:\n  also:\n  - /a\n  - /b/", "kill_also", ("/a", "/b")),
    "a home in a path": ("kill: {also: [~/kill]}", "kill_also", (str(Path("~/kill").expanduser()),)),
    "no variables at all": ("environment: []", "environment", ()),
    "some variables": ("environment: [PATH, LANG]", "environment", ("PATH", "LANG")),
    "variables left out": ("environment:", "environment", None),
    "a number where a text is meant": ("sbatch: {account: 007}", "sbatch", (("account", "007"),)),
    "a time that YAML would take for a number": ("sbatch: {time: 1:30:00}", "sbatch", (("time", "1:30:00"),)),
    "a bare option": ("sbatch: {exclusive: true}", "sbatch", (("exclusive", ""),)),
    "an option with a value of choice": ("sbatch: {exclusive: user}", "sbatch", (("exclusive", "user"),)),
    "an option that is not asked for": ("sbatch: {requeue: false, time: 5}", "sbatch", (("time", "5"),)),
    "a value that YAML would take for a truth": ("sbatch: {job-name: on}", "sbatch", (("job-name", "on"),)),
    "a list of nodes": ("sbatch: {exclude: [n1, n2]}", "sbatch", (("exclude", "n1,n2"),)),
    "an option of a plugin": ("sbatch: {container-image: x}", "sbatch", (("container-image", "x"),)),
    "a link keeps its short limit": (
        "scheduler: {sbatch: {partition: cpu}}",
        "link_sbatch",
        (("time", "10"), ("partition", "cpu")),
    ),
    "a priority of their own": (
        "scheduler: {sbatch: {time: 5, priority: 10}}",
        "link_sbatch",
        (("time", "5"), ("priority", "10")),
    ),
    "a link with a limit of its own": ("scheduler: {sbatch: {time: 5}}", "link_sbatch", (("time", "5"),)),
    "an interval shorter than the least": ("scheduler: {interval: 2m}", "min_interval", 120),
    "one folder changed": (
        "folders: {daily: 0 3 * * *}",
        "folders",
        (("hourly", "H * * * *"), ("daily", "0 3 * * *"), ("weekly", "H 4 * * sun"), ("monthly", "H 4 1 * *")),
    ),
    "a policy that YAML would take for a truth": (
        "defaults: {suspend-after: off, record: yes}",
        "defaults",
        (("suspend-after", "off", 1), ("record", "yes", 1)),
    ),
    "patterns of more folders": ("logs: {extra: {/scratch/out: '*.out'}}", "logs_extra", (("/scratch/out", "*.out"),)),
    "a key that `init` wrote empty, and again with a value": (
        "timezone:\nkill:\nkill: {within: 6m}\ntimezone: UTC\nkill:\n",
        "kill_within",
        360,
    ),
    "budgets": ("scheduler: {budget: {tick: 50, entry: 3}}", "budget_tick", 50),
    "the other backend": ("backend: local", "backend", "local"),
}


@pytest.mark.parametrize(("text", "field", "value"), VALUES.values(), ids=VALUES)
def test_values_are_typed(text: str, field: str, value: object) -> None:
    assert getattr(parse(text), field) == value


ROWS = {
    "a command of several words": ("command: rsync -a 'my files' /b", "command", "rsync -a 'my files' /b"),
    "a command as a list": ("command: [echo, two words, $HOME]", "command", "echo 'two words' '$HOME'"),
    "a command in lines": ("command: |\n      cd /x\n      make\n", "command", "cd /x\nmake"),
    "a script": ("script: cron.d/x.slurm", "script", "cron.d/x.slurm"),
    "a script at home": ("script: ~/x.slurm", "script", str(Path("~/x.slurm").expanduser())),
    "options": ("command: x\n    sbatch: {gres: gpu:1, mem: 0}", "sbatch", (("gres", "gpu:1"), ("mem", "0"))),
    "policies with their line": (
        "command: x\n    retries: 2\n    overlap: queue",
        "policies",
        (("retries", "2", 4), ("overlap", "queue", 5)),
    ),
    "variables": (
        "command: x\n    environment: {A: 1, B_2: '', C: yes}",
        "environment",
        (("A", "1"), ("B_2", ""), ("C", "yes")),
    ),
}


@pytest.mark.parametrize(("text", "field", "value"), ROWS.values(), ids=ROWS)
def test_rows_of_entries_are_typed(text: str, field: str, value: object) -> None:
    rows = parse(f'entries:\n  one:\n    {text}\n    schedule: "0 4 * * *"\n').entries
    assert [getattr(row, field) for row in rows] == [value]


@pytest.mark.parametrize(
    "name", ["with blank", "quo'te\"", "100%", "a|b", "two\nlines", "éü", "-x", ".hidden", "123", "yes"]
)
def test_an_entry_may_have_any_name_that_a_file_may(name: str) -> None:
    rows = parse(f'entries: {{{json.dumps(name)}: {{schedule: "@daily", command: x}}}}').entries
    assert [row.name for row in rows] == [name]


@pytest.mark.parametrize("name", ["", " ", "a/b", ".", "..", "a\0b"])
def test_a_name_that_no_file_may_have_is_refused(name: str) -> None:
    assert complaints(f'entries: {{{json.dumps(name)}: {{schedule: "@daily", command: x}}}}')


def test_anchors_and_merge_keys_work_as_in_other_yaml() -> None:
    rows = parse(
        "entries:\n"
        "  one: &base {schedule: '@daily', command: a, sbatch: {time: 5}, retries: 1}\n"
        "  two:\n    <<: *base\n    command: b\n"
        "  three: {<<: [*base], retries: 3}\n"
    ).entries
    assert [(r.command, r.sbatch, [p[:2] for p in r.policies]) for r in rows] == [
        ("a", (("time", "5"),), [("retries", "1")]),
        ("b", (("time", "5"),), [("retries", "1")]),
        ("a", (("time", "5"),), [("retries", "3")]),
    ]


def test_a_mapping_that_merges_itself_ends() -> None:
    assert complaints("entries: &all {<<: *all, one: {schedule: x}}")


WRONG = {
    "a misspelt key": ("timezon: x", "cronhpc.yaml:1: E602 unknown key 'timezon'. Did you mean timezone?"),
    "a misspelt key further in": (
        "kill:\n  group: a\n  wihtin: 5m",
        "cronhpc.yaml:3: E602 unknown key 'wihtin' under kill. Did you mean within?",
    ),
    "an underscore for a dash": ("scheduler: {min_interval: 5m}", "Did you mean min-interval?"),
    "a key of another section": ("interval: 5m", "E602 unknown key 'interval'. It belongs under scheduler."),
    "a zone that is none": (
        "timezone: Europe/Pariss\n",
        "cronhpc.yaml:1: E603 'Europe/Pariss' is no time zone. Did you mean",
    ),
    "an offset for a zone": ("timezone: UTC+3\n", "Write Etc/GMT-3 for 3 hours ahead of UTC (its sign is POSIX's)"),
    "a key like no other": ("zzz: 1", "Known here: timezone, sbatch,"),
    "a policy misspelt in an entry": (
        "entries:\n  a:\n    schedule: '@daily'\n    command: x\n    retires: 2",
        "cronhpc.yaml:5: E602 unknown key 'retires' under entries.a. Did you mean retries?",
    ),
    "a folder misspelt": ("folders: {dayly: x}", "unknown key 'dayly' under folders. Did you mean daily?"),
    "an sbatch option misspelt": (
        "sbatch: {partion: cpu}",
        "E602 sbatch has no option 'partion'. Did you mean partition?",
    ),
    "a short sbatch option": ("sbatch: {p: cpu}", "-p is a short option. Write partition."),
    "an sbatch option with dashes": (
        "sbatch: {--partition: cpu}",
        "'--partition' is written with dashes. Write partition.",
    ),
    "an sbatch option that cannot be": ("sbatch: {wrap: x}", "wrap cannot be set here. Use command: in an entry."),
    "a name for the scheduler's jobs": (
        "scheduler: {sbatch: {job-name: x}}",
        "E603 job-name cannot be set here. Remove it: the scheduler's jobs have names by which they are found.",
    ),
    **{
        f"the scheduler's jobs with {name}": (f"scheduler: {{sbatch: {{time: 5, {name}: x}}}}", f"{name} cannot be set")
        for name in (
            *("begin", "deadline", "immediate", "array", "hold", "quiet", "requeue", "dependency"),
            *("output", "error", "open-mode", "chdir", "input"),
        )
    },
    **{
        f"the scheduler's jobs with {name} as {key}": (
            f"scheduler: {{sbatch: {{{key}: true}}}}",
            f"{key} cannot be set",
        )
        for name, key in (
            *(("wait", "W"), ("wait", "-W"), ("wait", "--wait"), ("hold", "H"), ("hold", "--hold"), ("quiet", "Q")),
            *(("dependency", "d"), ("dependency", "--dep"), ("array", "-a")),
        )
    },
    "the scheduler's jobs with a whole directive": (
        "scheduler:\n  sbatch:\n    '#SBATCH --wait': true",
        "cronhpc.yaml:3: E603 #SBATCH --wait cannot be set here.",
    ),
    "the scheduler's jobs held by their priority": (
        "scheduler:\n  sbatch: {priority: 0}",
        "cronhpc.yaml:2: E603 priority 0 is a held job. Write a number above zero.",
    ),
    "the scheduler's jobs held by a priority that is no number": ("scheduler: {sbatch: {priority: x}}", "a held job"),
    "runs held by their priority": ("sbatch: {priority: '00'}", "priority 0 is a held job"),
    "runs held": ("sbatch: {hold: true}", "to hold an entry: cronhpc pause NAME"),
    "an entry's runs without a number": (
        "entries: {a: {schedule: '@daily', command: x, sbatch: {quiet: true}}}",
        "quiet cannot be set here. Remove it: the job's number would not be told.",
    ),
    "an abbreviated option": ("sbatch: {part: cpu}", "E602 sbatch has no option 'part'. Did you mean partition?"),
    "a key twice": ("timezone: a\n\ntimezone: b", "cronhpc.yaml:3: E604 timezone stands here twice, first in line 1."),
    "an entry twice": (
        "entries:\n  a: {schedule: '@daily', command: x}\n  a: {schedule: '@daily', command: y}",
        "cronhpc.yaml:3: E604 a stands here twice, first in line 2.",
    ),
    "a number without its unit": ("logs: {keep: 7}", 'E603 logs.keep: "7" has no unit. Write 7s, 7m, 7h or 7d.'),
    "no duration": ("scheduler: {interval: often}", '"often" is not a duration.'),
    "an interval of nothing": ("scheduler: {interval: 0}", "scheduler.interval: '0' is too short. Write at least 1s."),
    "intervals that contradict": (
        "scheduler:\n  interval: 1m\n  min-interval: 5m",
        "cronhpc.yaml:3: E603 min-interval (300 s) is longer than interval (60 s).",
    ),
    "no size": ("logs: {total: lots}", "logs.total: 'lots' is no size."),
    "no number": ("logs: {files: many}", "logs.files: 'many' will not do. Write a whole number from 1 on."),
    "less than nothing": ("scheduler: {parallel: -1}", "Write a whole number from 1 on."),
    "a list where a text belongs": ("timezone: [a]", "timezone: a list where Europe/Paris belongs."),
    "a text where a section belongs": ("kill: now", "cronhpc.yaml:1: E603 'now' where keys and values belong."),
    "an address where alerts belong": ("alerts: a@b.c", "belong. Write alerts: {mail: a@b.c}"),
    "a webhook where alerts belong": ("alerts: https://x.org/y", "belong. Write alerts: {webhook: https://x.org/y}"),
    "a program where alerts belong": ("alerts: ~/bin/notify", "belong. Write alerts: {command: ~/bin/notify}"),
    "a time where logs belong": ("logs: 7d", "belong. Write logs: {keep: 7d}"),
    "a list where alerts belong": ("alerts: [a@b.c]", "Write keys under it, each with a value: alerts: …"),
    "a list at the top": ("- timezone: x", "a list where keys and values belong."),
    "entries as a list": ("entries:\n- name: a", "a list where keys and values belong."),
    "a choice misspelt": ("backend: slurn", "backend: 'slurn' is not known. Did you mean slurm?"),
    "a relative folder": ("kill: {also: [kill]}", "kill.also: 'kill' is no absolute path. Write it from / or ~/ on."),
    "a variable in a path": ("kill: {also: [$WORK/kill]}", "variables are not expanded here."),
    "no variable name": ("environment: [A-B]", "environment: 'A-B' is no variable name."),
    "an entry without schedule": ("entries: {a: {command: x}}", "E605 entries.a: no schedule."),
    "an entry without command": ("entries: {a: {schedule: '@daily'}}", "E605 entries.a: nothing to run."),
    "an entry with both": ("entries: {a: {schedule: x, command: y, script: z}}", "both command and script."),
    "an empty entry": ("entries:\n  a:", "E605 entries.a: no schedule."),
    "a switch that reaches nothing": ("kill: {switches: {a: {file: /x}}}", "kill.switches.a: reaches no jobs."),
    "a warning without its time": (
        "kill: {switches: {a: {jobs: {name: x}, warn: USR1}}}",
        "Write SIGNAL@TIME, as USR1@5m.",
    ),
    "a signal that is none": ("kill: {switches: {a: {jobs: {name: x}, warn: FOO@5m}}}", "'FOO@5m' will not do."),
    "a pattern with a folder in it": ("logs: {extra: {/a: '../*'}}", "pattern '../*' holds a /."),
    "a page that is a truth": ("page: yes", "page: 'yes' is no path. Write page: page.html."),
    "a NUL": ('timezone: "a\\0b"', "timezone: holds a NUL character."),
    "a tab": ("entries:\n\ta: 1", "cronhpc.yaml:2: E601 not YAML: found character that cannot start any token"),
    "a schedule without quotes": (
        "entries:\n  a:\n    schedule: */5 * * * *\n",
        'Put the value in quotes: schedule: "*/5 * * * *".',
    ),
    "a nickname without quotes": (
        "entries:\n  a:\n    schedule: @daily\n",
        'Put the value in quotes: schedule: "@daily".',
    ),
    "a colon in a value": (
        "entries:\n  a:\n    command: echo a: b\n",
        "A value that holds ': ' needs quotes: command: 'echo a: b'.",
    ),
    "a key that is indented too far": ("timezone: a\n  interval: 1h\n", "at 'interval: 1h'. Check indentation"),
    "a bracket left open": ("kill: {also: [/a\n", "E601 not YAML: "),
    "an alias of nothing": ("timezone: *zone\n", "cronhpc.yaml:1: E601 not YAML: found undefined alias"),
    "two documents": ("timezone: a\n---\ntimezone: b\n", "Keep one document: remove the line ---."),
    "a control character": ("timezone: a\n\x07", "cronhpc.yaml:2: E601 a control character"),
    "too deep a nest": ("a: " + "[" * 5000, "E601 not YAML: "),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_a_complaint_says_where_what_and_the_fix(text: str, said: str) -> None:
    assert any(said in each for each in complaints(text)), complaints(text)


def test_text_that_is_not_utf8_is_named_with_its_line() -> None:
    with pytest.raises(SettingsError, match=r"cronhpc.yaml:2: E601 not UTF-8 text\."):
        parse_settings(b"timezone: a\npage: \xff\n")


def test_all_problems_are_said_at_once_and_by_line() -> None:
    found = complaints("logs: {keep: x}\nentries:\n  a: {schedul: y, command: z}\ntimezon: q\n")
    assert [each.split(":")[1] for each in found] == ["1", "3", "4"]


@pytest.mark.parametrize(
    "text",
    [
        "entries: {a: {schedule: '@daily', comand: x}}",
        "entries: {a: {shedule: '@daily', command: x}}",
        "entries: {a: {schedule: [1, 2], command: x}}",
        "kill: {switches: {a: {job: {name: x}}}}",
        "kill: {switches: {a: {jobs: {nam: x}}}}",
    ],
)
def test_what_is_misspelt_is_not_missing_besides(text: str) -> None:
    assert len(complaints(text)) == 1, complaints(text)


def test_a_bad_row_harms_only_itself() -> None:
    text = (
        "entries:\n  good: {schedule: '@daily', command: x}\n  bad: {schedule: '@daily', comand: y}\ntimezone: Zulu\n"
    )
    with pytest.raises(SettingsError) as caught:
        parse(text)
    rest = caught.value.rest
    assert rest is not None
    assert [(row.name, row.problem is None) for row in rest.entries] == [("good", True), ("bad", False)]
    assert rest.timezone == "Zulu"


def test_nothing_can_be_used_where_more_than_a_row_is_wrong() -> None:
    with pytest.raises(SettingsError) as caught:
        parse("entries:\n  bad: {schedule: '@daily'}\ntimezon: Z\n")
    assert caught.value.rest is None


def _folder(path: Path) -> None:
    path.mkdir()


UNUSABLE = [
    pytest.param(str, "is missing. Make it with: cronhpc init --dir", id="not there"),
    pytest.param(_folder, "is a folder, not a file. Move it away, then: cronhpc init --dir", id="a folder"),
    pytest.param(
        lambda path: path.symlink_to(path.parent / "gone"), "is a link to nothing. Bring that back", id="a link"
    ),
    pytest.param(lambda path: path.symlink_to(path), "cannot be read: Too many levels", id="a link to itself"),
]


@pytest.mark.parametrize(("put", "words"), UNUSABLE)
def test_what_is_no_file_is_named_with_its_own_fix(tmp_path: Path, put: Callable[[Path], None], words: str) -> None:
    put(tmp_path / "cronhpc.yaml")
    with pytest.raises(SettingsError) as caught:
        read_settings(tmp_path / "cronhpc.yaml")
    assert str(caught.value).startswith(f"cronhpc.yaml: E600 {words}")


def test_a_file_that_may_not_be_read_has_its_chmod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("cronhpc.store.settings.read_bytes", refuse)
    with pytest.raises(SettingsError, match=r"E600 cannot be read: Permission denied\. Make it readable: chmod u\+r"):
        read_settings(tmp_path / "cronhpc.yaml")


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
    | st.lists(st.sampled_from([*"[]{}:,&*!|>'\"\n -#?~<", "kill", "entries", "a", "1h"])).map("".join)
)
def test_no_text_raises_anything_but_settings_error(text: str) -> None:
    try:
        parse_settings(text.encode("utf-8", "surrogatepass"))
    except SettingsError as error:
        assert error.problems  # noqa: PT017 - both ends are fine here
        assert all(p.file and p.what and p.fix for p in error.problems)  # noqa: PT017 - as above


def test_settings_survive_the_cache() -> None:
    full = parse(DESIGN)
    assert settings_from_json(json.loads(json.dumps(settings_to_json(full)))) == full


@pytest.mark.parametrize("cached", [{}, {"cronhpc": "0"}, {"cronhpc": None, "settings": 3}], ids=str)
def test_a_cache_of_another_version_is_not_read(cached: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="another version"):
        settings_from_json(cached)


def test_a_damaged_cache_is_not_read() -> None:
    cached = settings_to_json(Settings())
    for broken in ({"nonsense": 1}, {"entries": [[1] * 20]}, {"entries": 5}, None):
        with pytest.raises(ValueError, match="damaged"):
            settings_from_json({**cached, "settings": broken})


# --- the table and the text


def test_every_field_of_settings_has_its_key() -> None:
    assert {row.field for row in schema.TABLE} == set(Settings.__slots__)


def test_every_kind_has_a_reader_and_a_name() -> None:
    assert {row.kind for row in schema.TABLE} == set(KINDS)


def test_policies_are_those_of_the_core() -> None:
    assert set(schema.POLICIES) == set(POLICIES)


def uncommented(text: str) -> str:
    return re.sub(r"^( *)#(?=\S)", r"\1", text, flags=re.MULTILINE)


def test_the_file_that_init_writes_works_unedited() -> None:
    assert parse(default_text({})) == Settings()


def test_what_was_found_is_in_force_in_it() -> None:
    text = default_text({"timezone": "Europe/Paris", "sbatch.partition": "cpu", "sbatch.account": "abc@cpu"})
    assert parse(text) == Settings(timezone="Europe/Paris", sbatch=(("partition", "cpu"), ("account", "abc@cpu")))


def test_a_found_value_that_is_no_setting_is_an_error() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        default_text({"nonsense": "1"})


def test_each_example_in_it_can_be_used_and_shows_the_default_where_there_is_one() -> None:
    shown, plain = parse(uncommented(default_text({}))), Settings()
    for row in schema.TABLE:
        if getattr(plain, row.field) not in ("", (), None):
            assert getattr(shown, row.field) == getattr(plain, row.field), row.key
        else:
            assert getattr(shown, row.field), row.key


def test_every_setting_is_described() -> None:
    rows = describe()
    assert [row[0] for row in rows] == [row.key for row in schema.TABLE]
    assert ("scheduler.interval", "duration: 90s, 10m, 1h30m, 7d", "1h", "How often the scheduler job runs.") in rows
    assert all(doc.endswith(".") for *_, doc in rows)


EDITS = {
    "into an empty file": ("", {"sbatch.account": "a"}, "sbatch:\n  account: a\n"),
    "into the text of init": (default_text({}), {"sbatch.account": "a"}, None),
    "a value replaced, its comment kept": (
        "timezone: UTC  # mine\n",
        {"timezone": "GMT"},
        "timezone: GMT  # mine\n",
    ),
    "a value where none was": ("timezone:\n# c\n", {"timezone": "GMT"}, "timezone: GMT\n# c\n"),
    "into a section in brackets": (
        "kill: {group: g}  # c\n",
        {"kill.within": "5m"},
        "kill: {within: 5m, group: g}  # c\n",
    ),
    "into empty brackets": ("sbatch: {}\n", {"sbatch.partition": "p"}, "sbatch: {partition: p}\n"),
    "a section within brackets": (
        "scheduler: {interval: 1h}\n",
        {"scheduler.budget.tick": "9"},
        "scheduler: {budget: {tick: 9}, interval: 1h}\n",
    ),
    "into a section in lines": (
        "kill:\n  group: g  # c\n\n# logs\nlogs:\n  keep: 1d\n",
        {"kill.within": "5m"},
        "kill:\n  group: g  # c\n  within: 5m\n\n# logs\nlogs:\n  keep: 1d\n",
    ),
    "a new section": ("timezone: UTC", {"kill.group": "g"}, "timezone: UTC\nkill:\n  group: g\n"),
    "after a block of text": (
        "entries:\n  a:\n    schedule: '@daily'\n    command: |\n      x\n      y\n",
        {"timezone": "UTC"},
        "entries:\n  a:\n    schedule: '@daily'\n    command: |\n      x\n      y\ntimezone: UTC\n",
    ),
    "a section that said null": ("kill: null\n", {"kill.group": "g"}, "kill:\n  group: g\n"),
    "a value that needs quotes": ("", {"sbatch.account": "yes"}, 'sbatch:\n  account: "yes"\n'),
}


@pytest.mark.parametrize(("text", "changes", "after"), EDITS.values(), ids=EDITS)
def test_an_edit_keeps_all_else(text: str, changes: dict[str, str], after: str | None) -> None:
    got = edited(text, changes)
    assert after is None or got == after
    added = [line for line in got.splitlines() if line not in text.splitlines()]
    assert len(added) <= 2
    assert edited(got, changes) == got


def test_an_edit_of_what_holds_more_than_a_value_is_left_to_the_user() -> None:
    with pytest.raises(EditError, match=r"kill\.also holds more than one value"):
        edited("kill: {also: [/a]}\n", {"kill.also": "/b"})


def test_an_edit_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"logs\.keep"):
        edited("", {"logs.keep": "soon"})


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30))
def test_a_quoted_value_is_read_back(value: str) -> None:
    text = f"alerts: {{command: {quoted(value)}}}"
    if "\n" in value.strip():
        assert "more than one line" in complaints(text)[0]
    else:
        assert parse(text).alerts_command == value.strip()

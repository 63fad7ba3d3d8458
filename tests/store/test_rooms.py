"""What cronhpc itself reads and writes, and others could reach: settings, state/, scheduler/, logs, a page's folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhpc.core.model import Call, CronhpcError, Settings, SettingsError
from cronhpc.drivers.start import start
from cronhpc.engine import init
from cronhpc.engine.site import open_site
from cronhpc.store import trust
from cronhpc.store.files import DirectoryError, Paths
from cronhpc.store.trust import Trust

ME = os.getuid()
PLAIN = Settings()
BOB = 54321  # of nobody on this machine
AS_ROOT = pytest.mark.skipif(ME != 0, reason="giving files to others needs root")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    tmp_path.chmod(0o755)
    init.init(tmp_path / "cron", {"backend": "local"})
    made = Paths(tmp_path / "cron")
    made.script.touch(0o755)
    return made


def my_group() -> str:
    import grp

    return grp.getgrgid(os.getgid()).gr_name


def open_to_group(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWGRP)


def settings(paths: Paths, text: str) -> None:
    paths.settings.write_text(text, encoding="utf-8")
    paths.settings.chmod(0o644)


def opened(paths: Paths) -> str:
    """Why it is not opened; "" if it is."""
    try:
        open_site(str(paths.root), None, {"PATH": "/usr/bin:/bin", "HOME": str(paths.root.parent)})
    except SettingsError as error:
        return str(error)
    return ""


def nothing(paths: Paths) -> None:
    """As `init` left it."""


def group_writes_the_settings(paths: Paths) -> None:
    settings(paths, f"backend: local\ntrust: {{group: {my_group()}}}\n")
    open_to_group(paths.settings)


def group_writes_the_directory(paths: Paths) -> None:
    open_to_group(paths.root)


def group_writes_the_directory_and_is_trusted(paths: Paths) -> None:
    settings(paths, f"backend: local\ntrust: {{group: {my_group()}}}\n")
    open_to_group(paths.root)


def group_writes_the_directory_and_another_is_trusted(paths: Paths) -> None:
    settings(paths, "backend: local\ntrust: {group: nogroup-of-mine}\n")
    open_to_group(paths.root)


def group_writes_the_directory_and_the_settings_are_broken(paths: Paths) -> None:
    settings(paths, f"trust: {{group: {my_group()}\n")
    open_to_group(paths.root)


def group_writes_state(paths: Paths) -> None:
    open_to_group(paths.state)


def group_writes_state_and_is_trusted(paths: Paths) -> None:
    settings(paths, f"backend: local\ntrust: {{group: {my_group()}}}\n")
    open_to_group(paths.state)


def state_is_a_link_to_a_folder_of_mine(paths: Paths) -> None:
    paths.state.rename(paths.root.parent / "elsewhere")
    paths.state.symlink_to(paths.root.parent / "elsewhere")


def state_is_a_link_through_an_open_folder(paths: Paths) -> None:
    between = paths.root.parent / "open"
    between.mkdir()
    paths.state.rename(between / "state")
    paths.state.symlink_to(between / "state")
    between.chmod(0o777)


def group_reads_state(paths: Paths) -> None:
    paths.state.chmod(0o750)


OPENED: dict[str, tuple[Callable[[Paths], None], str]] = {
    each.__name__.replace("_", " "): (each, said)
    for each, said in (
        (nothing, ""),
        (group_writes_the_settings, "cronhpc.yaml can be written by the group"),
        (group_writes_the_directory, "can be written by the group"),
        (group_writes_the_directory_and_is_trusted, ""),
        (group_writes_the_directory_and_another_is_trusted, "can be written by the group"),
        (group_writes_the_directory_and_the_settings_are_broken, "can be written by the group"),
        (group_writes_state, "state can be written by the group"),
        (group_writes_state_and_is_trusted, "state can be written by the group"),
        (state_is_a_link_to_a_folder_of_mine, ""),
        (state_is_a_link_through_an_open_folder, "open can be written by everyone"),
        (group_reads_state, ""),
    )
}


@pytest.mark.parametrize(("prepare", "said"), OPENED.values(), ids=OPENED)
def test_a_directory_whose_settings_or_state_others_may_write_is_not_opened(
    paths: Paths, prepare: Callable[[Paths], None], said: str
) -> None:
    prepare(paths)
    told = opened(paths)
    assert bool(told) == bool(said)
    assert said in told


def test_what_fixes_state_also_says_what_to_look_for(paths: Paths) -> None:
    group_writes_state(paths)
    told = opened(paths)
    assert f"chmod g-w {paths.state}" in told
    assert f"find {paths.state} ! -user {ME}" in told
    assert "trust:" not in told


def test_no_setting_is_offered_where_none_would_help(paths: Paths) -> None:
    group_writes_the_settings(paths)
    assert "trust:" not in opened(paths)


@AS_ROOT
@pytest.mark.parametrize("name", ["cronhpc.yaml", "state", "."])
def test_what_belongs_to_another_is_not_opened(paths: Paths, name: str) -> None:
    os.chown(paths.root / name, BOB, BOB)
    assert "belongs to 54321" in opened(paths)


# --- links of the chain


def script_is_open(paths: Paths) -> None:
    open_to_group(paths.script)


def folder_is_open(paths: Paths) -> None:
    open_to_group(paths.scheduler)


def log_is_a_link_to_a_file_of_mine(paths: Paths) -> None:
    (paths.root.parent / "mine").touch(0o644)
    (paths.scheduler / "scheduler.log").symlink_to(paths.root.parent / "mine")


def log_is_a_link_to_nowhere_to_keep(paths: Paths) -> None:
    (paths.scheduler / "scheduler.log").symlink_to("/dev/null")


def log_is_a_link_through_an_open_folder(paths: Paths) -> None:
    between = paths.root.parent / "open"
    between.mkdir()
    between.chmod(0o777)
    (between / "log").touch()
    (paths.scheduler / "scheduler.log").symlink_to(between / "log")


LINKS: dict[str, tuple[Callable[[Paths], None], str]] = {
    each.__name__.replace("_", " "): (each, said)
    for each, said in (
        (nothing, ""),
        (script_is_open, "scheduler.slurm can be written"),
        (folder_is_open, "scheduler can be written"),
        (log_is_a_link_to_a_file_of_mine, ""),
        (log_is_a_link_to_nowhere_to_keep, ""),
        (log_is_a_link_through_an_open_folder, "open can be written by everyone"),
    )
}


@pytest.mark.parametrize(("prepare", "said"), LINKS.values(), ids=LINKS)
def test_a_link_whose_text_or_log_could_be_anothers_is_refused(
    paths: Paths, prepare: Callable[[Paths], None], said: str
) -> None:
    prepare(paths)
    refused = trust.link_refusal(paths, PLAIN, ME)
    assert bool(refused) == bool(said)
    assert said in str(refused or "")


def test_start_says_why_it_submits_no_link(paths: Paths) -> None:
    folder_is_open(paths)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(paths.root.parent)}
    site = open_site(str(paths.root), "local", environ)
    with pytest.raises(CronhpcError, match=r"none was submitted\. Fix it with: chmod g-w"):
        start(site, environ, lambda: 1_795_800_000)


# --- a page's folder, and what is above


def test_a_file_may_be_put_where_others_write_but_not_where_they_can_exchange_the_folder(paths: Paths) -> None:
    www = paths.root.parent / "www"
    www.mkdir()
    www.chmod(0o777)
    assert trust.place_refusal(www / "page.html", paths, PLAIN, ME) is None
    paths.root.parent.chmod(0o777)
    assert "can be written by everyone" in str(trust.place_refusal(www / "page.html", paths, PLAIN, ME))
    paths.root.parent.chmod(0o1777)
    assert trust.place_refusal(www / "page.html", paths, PLAIN, ME) is None
    paths.root.parent.chmod(0o755)


@AS_ROOT
def test_in_a_sticky_folder_a_page_goes_only_into_what_is_mine(paths: Paths) -> None:
    www = paths.root.parent / "www"
    www.mkdir()
    os.chown(www, BOB, BOB)
    assert trust.place_refusal(www / "page.html", paths, PLAIN, ME) is None
    paths.root.parent.chmod(0o1777)
    assert "belongs to 54321" in str(trust.place_refusal(www / "page.html", paths, PLAIN, ME))
    paths.root.parent.chmod(0o755)


def test_who_could_exchange_the_whole_directory_is_said_and_nothing_refused(paths: Paths) -> None:
    assert trust.way_refusal(paths, PLAIN, ME) is None
    open_to_group(paths.root.parent)
    assert "can be written by the group" in str(trust.way_refusal(paths, PLAIN, ME))
    assert trust.way_refusal(paths, Settings(trust_group=my_group()), ME) is None
    assert opened(paths) == ""
    paths.root.parent.chmod(0o755)


def test_the_way_is_asked_for_links_too(paths: Paths, tmp_path: Path) -> None:
    between = tmp_path / "open"
    between.mkdir()
    (between / "cron").symlink_to(paths.root)
    between.chmod(0o777)
    assert "open can be written by everyone" in str(trust.way_refusal(Paths(between / "cron"), PLAIN, ME))


def test_sealed_looks_where_it_really_lies(paths: Paths, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch(0o644)
    link = paths.root / "link"
    link.symlink_to(target)
    trust = Trust(paths.root, frozenset({0, ME}), None)
    assert trust.sealed(link) is None
    target.chmod(0o666)
    assert "target can be written by everyone" in str(trust.sealed(link))
    assert "cannot be looked at" in str(trust.sealed(paths.root / "gone"))


# --- init, in a folder that somebody prepared


def test_init_gives_no_folder_to_a_group_through_a_link(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (tmp_path / "cron").mkdir()
    (tmp_path / "cron" / "kill").symlink_to(private)
    with pytest.raises(DirectoryError, match="kill is a link"):
        init.init(tmp_path / "cron", {}, group=my_group(), adopt=True)
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("uid", "said"),
    [
        pytest.param(os.geteuid(), r"kill cannot be given to group .*Name one of yours", id="its owner's"),
        pytest.param(os.geteuid() + 1, r"kill belongs to .*only its owner gives it to a group", id="somebody else's"),
    ],
)
def test_a_folder_that_is_not_given_to_a_group_says_why(
    uid: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        raise PermissionError

    group = my_group()
    monkeypatch.setattr(os, "fchown", refused)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    with pytest.raises(DirectoryError, match=said):
        init.init(tmp_path / "cron", {}, group=group)


@pytest.mark.parametrize("room", ["state", "scheduler"])
def test_init_changes_no_file_behind_a_link(tmp_path: Path, room: str) -> None:
    private = tmp_path / "private"
    private.write_text("secret!\n", encoding="utf-8")
    private.chmod(0o600)
    (tmp_path / "cron" / room).mkdir(parents=True)
    (tmp_path / "cron" / room / "id").symlink_to(private)
    init.init(tmp_path / "cron", {})
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert private.read_text(encoding="utf-8") == "secret!\n"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_its_identity_can_be_read_by_all_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        init.init(tmp_path / "cron", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "cron" / "scheduler" / "id").stat().st_mode) == 0o644
    assert opened(Paths(tmp_path / "cron")) == ""


@pytest.mark.processes
def test_under_umask_002_runs_get_their_logs_time_and_again(tmp_path: Path) -> None:
    """What cronhpc makes is never open to a group by accident: else it would refuse its own folders."""
    from cronhpc.tick import tick

    before = os.umask(0o002)
    try:
        init.init(tmp_path / "cron", {"backend": "local"})
        script = tmp_path / "cron" / "cron.d" / "x.slurm"
        script.write_text("#!/bin/bash\n#CRON * * * * *\ntrue\n", encoding="utf-8")
        script.chmod(0o644)
        now = int(script.stat().st_ctime) + 7200
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        for minute in range(2):
            site = open_site(str(tmp_path / "cron"), None, environ)
            report = tick(site, now + 60 * minute, Call(only="" if minute else "x"))
            assert not [each.detail for each in report.outcomes if "led astray" in each.detail]
            site.batch.cancel([job.id for job in site.batch.queue().jobs])
    finally:
        os.umask(before)
    within = (tmp_path / "cron").rglob("*")
    folders = [path for path in within if path.is_dir() and "state" not in path.parts]  # that is closed itself
    assert [path.name for path in folders if path.stat().st_mode & stat.S_IWGRP] == []

"""`cronhpc init` and `cronhpc doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.batch import all_present, connect, dialect_of
from cronhpc.batch.port import BatchError, NoCluster
from cronhpc.batch.process import options_kept
from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, UsageError
from cronhpc.core.alerts import Alert, Event, Ping
from cronhpc.core.model import CronhpcError, Job, Phase, Settings, SettingsError, cancelling, command, joined
from cronhpc.core.model.site import Finding, Level, Site
from cronhpc.cron.duration import parse_duration
from cronhpc.cron.values import replace
from cronhpc.engine.init import Made, OldJobs, cancel_old_chain, init, old_jobs
from cronhpc.script.dialect import DIALECTS, SYSTEMS, Dialect
from cronhpc.script.spelling import spelt
from cronhpc.store.files import Paths, existing, replace_file, wanted
from cronhpc.store.scheduler import hand_made_mark
from cronhpc.store.settings import put, read_settings
from cronhpc.views import text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cronhpc.doctor.look import Asked
    from cronhpc.views.style import Style


_INIT_HELP = (
    "Make a cron directory, or take over a folder that holds hand-made ones; no file in it is touched. Safe to repeat."
)
_INIT_EXAMPLE = """
cronhpc init
cronhpc init --dir $WORK/cron --group proj   # a team may use kill/ and pause/
"""


def _init_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", default="", help="the Unix group whose members may set switches")
    parser.add_argument("--adopt", action="store_true", help="take a folder that holds other things as well")
    parser.add_argument(
        "--cancel-old", action="store_true", help="cancel the hand-made scheduler of the folder; its other jobs go on"
    )


def _init(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if an old chain is still in the queue."""
    root, _ = wanted(console.folder, console.environ)
    settings, remark = _of_site(console, root)
    made = init(root, settings, group=args.group, adopt=args.adopt)
    old, unknown = _old_jobs(args, console, made)
    cancelled = args.cancel_old and bool(old)
    if old and not cancelled:
        mark = hand_made_mark(Paths(root))
        replace_file(mark, b"", 0o644)
        made = replace(made, paths=(*made.paths, str(mark.relative_to(root))))
    remark = "; ".join(filter(None, (remark, unknown)))
    facts = {
        "directory": str(root),
        "adopted": made.adopted,
        "done": list(made.lines),
        "settings": settings,
        "remark": remark,
        "old_chain": [job.shown_id for job in old.chain],
        "old_chain_cancelled": cancelled,
        "other_jobs": [job.shown_id for job in old.others],
    }
    dialect = dialect_of(console.backend or settings.get("backend", ""), Settings(), console.environ)
    console.answer(facts, lambda: _words(console.style(), made, remark, _old_words(old, dialect, cancelled=cancelled)))
    return ATTENTION if unknown or (old and not cancelled) else FINE


def _of_site(console: Console, root: Path) -> tuple[dict[str, str], str]:
    """Settings that the environment and the cluster tell, by dotted key; and what could not be asked."""
    from cronhpc.engine.site import machine_zone

    if (root / "cronhpc.yaml").exists():
        return {}, _other_backend(console.backend, root)
    dialects = [dialect_of(console.backend, Settings(), console.environ)]
    if dialects[0].runs_here and not console.backend:
        raise CronhpcError(
            "No Slurm here: scripts would run on THIS machine. Nothing was made. On a cluster load Slurm's commands "
            "first (module load slurm)"
            + _others_load()
            + "; if scripts shall run here: "
            + command("init", options=("--backend", "local"))
        )
    if not console.backend:
        dialects = list(all_present(console.environ))
    settings, dialect, site, unanswered = dict[str, str](), dialects[0], Site(), dict[str, CronhpcError]()
    for each in dialects:  # the first that answers is meant: some machines keep the commands of a system that is gone
        try:
            site = connect(each.name, Settings(), console.environ, root / "state").site()
        except CronhpcError as error:
            unanswered[each.name] = error
        else:
            dialect = each
            break
    if site.cpu_partition is not None:
        settings["sbatch.partition"] = site.cpu_partition.name
    if site.account:
        settings["sbatch.account"] = site.account
    settings |= {f"sbatch.{name}": value for name, value in options_kept(console.environ, dialect).items()}
    settings["backend"] = dialect.name
    settings["timezone"] = machine_zone()  # nodes may have another one
    others = [each for each in all_present(console.environ) if each is not dialect]
    return settings, _unanswered_words(unanswered, dialect.name, others)


def _unanswered_words(unanswered: Mapping[str, CronhpcError], chosen: str, others: Sequence[Dialect]) -> str:
    """What to say of batch systems, by name, that gave no answer, and why: `chosen` is among them where none did."""
    if not unanswered:
        return ""
    words = [f"{DIALECTS[name].title} gave no answer ({why})" for name, why in unanswered.items()]
    where = "there" if chosen in unanswered else "in cronhpc.yaml"
    if chosen in unanswered:
        why = str(unanswered[chosen]) if len(unanswered) == 1 else "; ".join(words)
        words = [f"the batch system could not be asked for account and partition ({why}): see sbatch: in cronhpc.yaml"]
        if any(isinstance(error, NoCluster) for error in unanswered.values()):
            words.append("if scripts shall run on this machine, write backend: local there")
    words += [f"if {each.title} is meant, write backend: {each.name} {where}" for each in others]
    return "; ".join(words)


def _others_load() -> str:
    """How the commands of the other batch systems come on PATH."""
    others = (each for each in SYSTEMS if not each.as_sbatch)
    return "".join(f", or those of {each.title} ({each.load})" for each in others)


def _other_backend(backend: str, root: Path) -> str:
    """What to say where the settings, which stay as they are, name another one than was asked for."""
    try:
        written = read_settings(root / "cronhpc.yaml").backend
    except (SettingsError, OSError):
        return ""  # said by whoever needs them
    if not backend or written in {backend, ""}:
        return ""
    return f"cronhpc.yaml says backend: {written}, and that stays; for {backend}, edit that line"


def _old_jobs(args: argparse.Namespace, console: Console, made: Made) -> tuple[OldJobs, str]:
    """What is in the queue of a folder that was adopted, the chain cancelled where that was asked; or why not known."""
    from cronhpc.engine.site import open_site

    if not (made.adopted or args.cancel_old):  # the folder is adopted once; its old chain may be cancelled later
        return OldJobs(), ""
    site = open_site(str(made.root), console.backend, console.environ)
    try:
        return (cancel_old_chain if args.cancel_old else old_jobs)(site.batch, site.paths.root), ""
    except BatchError as error:
        return OldJobs(), f"whether a hand-made scheduler is in the queue is not known ({error}): call init again"


def _old_words(old: OldJobs, dialect: Dialect, *, cancelled: bool) -> list[str]:
    lines = []
    if old.chain and cancelled:
        lines.append(f"cancelled the old chain: {_named(old.chain)}")
    elif old.chain:
        those = "it" if len(old.chain) == 1 else "them"
        ids = dict.fromkeys(job.id for job in old.chain)
        lines += [
            f"{text.count(len(old.chain), 'job')} of a hand-made scheduler still in the queue: {_named(old.chain)}",
            f"cancel {those}: " + command("init", options=("--cancel-old",)) + ", or: " + cancelling(dialect, *ids),
        ]
    if old.others:
        verb = "goes" if len(old.others) == 1 else "go"
        lines.append(f"{text.count(len(old.others), 'other job')} of this folder {verb} on: {_named(old.others)}")
    if old.unclear:
        submits = "submits itself" if len(old.unclear) == 1 else "submit themselves"
        ids = dict.fromkeys(job.id for job in old.unclear)
        training = f"{_named(old.unclear)} {submits} without {spelt('begin', dialect)} or a sleep, as a training does."
        lines.append(f"{training} If that is a scheduler: " + cancelling(dialect, *ids))
    return lines


def _named(jobs: tuple[Job, ...]) -> str:
    return ", ".join(f"{job.shown_id} ({text.name(job.name)})" for job in jobs)


def _words(style: Style, made: Made, remark: str, old: list[str]) -> str:
    root = style.word(str(made.root))
    lines = [
        f"{'adopted' if made.adopted else 'cron directory'} {style.path(str(made.root))}",
        *(
            "  " + part
            for line in (*made.lines, *([remark] if remark else []), *old)
            for part in style.wrapped(line, max(style.width - 2, 0))
        ),
        f"next:  cp job.slurm {root}/cron.daily/ && " + command("start") + " && " + command("status"),
        f"undo:  {_undo(made, root) or 'nothing to undo'}",
    ]
    return joined("\n", lines)


def _undo(made: Made, root: str) -> str:
    """A command that removes what was made, by name: nothing that lay there before, or came since."""
    if made.is_new:
        return f"rm -r {root}"
    folders = [text.word(path) for path in reversed(made.paths) if (made.root / path).is_dir()]
    files = [text.word(path) for path in made.paths if not (made.root / path).is_dir()]
    steps = [f"cd {root}", f"rm {' '.join(files)}" if files else "", f"rmdir {' '.join(folders)}" if folders else ""]
    return " && ".join(filter(None, steps)) if made.paths else ""


# --- doctor -----------------------------------------------------------------------------------------------------------


_DOCTOR_HELP = (
    "Look at this site: the batch system and its limits, the disk, trust, clocks, and what else could call the "
    "scheduler. It changes nothing unless asked to."
)
_DOCTOR_EXAMPLE = """
cronhpc doctor
cronhpc doctor --submit    # also a job of a minute: may nodes submit
cronhpc doctor --write     # put the settings that it found into cronhpc.yaml
"""


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--submit", action="store_true", help="also run a job of a minute on one or two nodes")
    parser.add_argument("--wait", metavar="DURATION", default="2m", help="with --submit: how long it may wait (2m)")
    parser.add_argument("--write", action="store_true", help="put the settings that would fix things")
    parser.add_argument("--alerts", action="store_true", help="send a test alert, as alerts: in the settings says")
    parser.add_argument("--url", metavar="URL", default="", help="see whether this address can be reached")


def _doctor(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if there is anything to fix."""
    from cronhpc.doctor import look
    from cronhpc.engine.site import must_be_safe
    from cronhpc.views import reports

    root, named_by = wanted(console.folder, console.environ)
    if named_by.is_chosen and not root.is_dir():  # what is not there says nothing of its disk
        existing(console.folder, console.environ)
    findings = look.examine(_asked(args, console, root), lambda: console.again().now)
    findings = [*_alerts(console), *findings] if args.alerts else findings
    values = look.wanted(findings)
    if args.write and values:
        must_be_safe(Paths(root))
        put(Paths(root).settings, values)
    written = args.write and bool(values)
    facts = reports.doctor_facts(findings, values, written=written)
    console.answer(facts, lambda: reports.doctor(findings, values, console.style(), written=written))
    return ATTENTION if any(each.level in {Level.ERROR, Level.WARNING} for each in findings) else FINE


def _asked(args: argparse.Namespace, console: Console, root: Path) -> Asked:
    from cronhpc.doctor.look import Asked

    if args.write and not (root / "cronhpc.yaml").exists():
        raise UsageError("cronhpc doctor: --write needs a cron directory. Make it with: " + command("init"))
    timeout = float(parse_duration(args.wait))
    return Asked(root, console.environ, console.backend, submit=args.submit, timeout=timeout, url=args.url)


def _alerts(console: Console) -> list[Finding]:
    """Send one, by the ways that the settings have, in the environment that ticks have."""
    from cronhpc.engine.notify import about, send

    site = console.site()
    settings = site.settings
    if not (settings.sends_alerts or settings.alerts_ping):
        fix = "For example: alerts: {mail: YOU@EXAMPLE.ORG} in cronhpc.yaml; see docs/alerts.md."
        return [Finding(Level.WARNING, "alerts", "the settings have no way to send alerts.", fix)]
    alert = Alert(Phase.ONCE, "test", f"This is a test, sent by: {command('doctor', options=('--alerts',))}")
    pings = [Ping(settings.alerts_ping, Event.SUCCESS, "the chain")] if settings.alerts_ping else []
    failed = send(settings, [alert], pings, about(site))
    if failed:
        return [Finding(Level.ERROR, "alerts", each.what, "Correct alerts: in cronhpc.yaml.") for each in failed]
    return [Finding(Level.FINE, "alerts", "a test alert was sent; see whether it has come.")]


def _not_there(name: str) -> str:
    return "To make a cron directory there: " + command("init", directory=name)


COMMANDS = {
    "init": Command(_INIT_HELP, _INIT_EXAMPLE, _init, _init_arguments, of_no_name=_not_there),
    "doctor": Command(_DOCTOR_HELP, _DOCTOR_EXAMPLE, _doctor, _doctor_arguments),
}

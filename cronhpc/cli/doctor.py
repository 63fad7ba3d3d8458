"""`cronhpc doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import UsageError
from cronhpc.core.model import command

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from cronhpc.cli.door import Door
    from cronhpc.core.findings import Finding
    from cronhpc.doctor import Asked

HELP = """Look at this site: Slurm and its limits, the disk, trust, clocks, and what else could call the scheduler. It
changes nothing unless asked to."""
EXAMPLE = """
cronhpc doctor
cronhpc doctor --submit       # also a job of a minute: may nodes submit, do they have cronhpc and this folder
cronhpc doctor --write        # put the settings that it found into cronhpc.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("--submit", action="store_true", help="also run a job of a minute on one or two nodes")
    parser.add_argument("--wait", metavar="DURATION", default="2m", help="with --submit: how long it may wait (2m)")
    parser.add_argument("--write", action="store_true", help="put the settings that would mend things")
    parser.add_argument("--alerts", action="store_true", help="send a test alert, as alerts: in the settings says")
    parser.add_argument("--url", metavar="URL", default="", help="see whether this address can be reached")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if there is anything to mend."""
    from cronhpc.doctor import examine, put, wanted
    from cronhpc.site import must_be_safe
    from cronhpc.store.paths import Paths, existing
    from cronhpc.store.paths import wanted as place
    from cronhpc.views import doctor

    root, named_by = place(args.dir, door.environ)
    if named_by in {"--dir", "$CRONHPC_DIR"} and not root.is_dir():  # what is not there says nothing of its disk
        existing(args.dir, door.environ)
    found = examine(_asked(args, door, root), lambda: door.again().now)
    found = [*_alerts(args, door), *found] if args.alerts else found
    values = wanted(found)
    if args.write and values:
        must_be_safe(Paths(root))
        put(root, values)
    written = args.write and bool(values)
    if args.json:
        door.json(doctor.facts(found, values, written=written))
    else:
        door.say(doctor.render(found, values, door.style(), written=written))
    return ATTENTION if any(each.level in {"error", "warning"} for each in found) else FINE


def _asked(args: argparse.Namespace, door: Door, root: Path) -> Asked:
    from cronhpc.core.duration import parse_duration
    from cronhpc.doctor import Asked

    if args.write and not (root / "cronhpc.yaml").exists():
        make = command("init", directory=str(root))
        raise UsageError("cronhpc doctor: --write needs a cron directory. Make it with: " + make)
    patience = float(parse_duration(args.wait))
    return Asked(root, door.environ, args.backend or "", submit=args.submit, patience=patience, url=args.url)


def _alerts(args: argparse.Namespace, door: Door) -> list[Finding]:
    """Send one, by the ways that the settings have, in the environment that ticks have."""
    from cronhpc.cli.common import site_of
    from cronhpc.core.alerts import Alert
    from cronhpc.core.findings import Finding
    from cronhpc.notify import Ping, send

    site = site_of(args, door)
    settings = site.settings
    ways = [bool(settings.alerts_command), bool(settings.alerts_apprise), bool(settings.alerts_ping)]
    if not any(ways):
        mend = "For example: alerts: {command: ~/bin/notify} in cronhpc.yaml."
        return [Finding("warning", "alerts", "the settings have no way to send alerts.", mend)]
    alert = Alert("once", "test", f"This is a test, sent by: {command('doctor', options=('--alerts',))}")
    about = {"directory": str(site.paths.root), "owner": site.user, "host": site.host}
    pings = [Ping(settings.alerts_ping, "success", "the chain")] if settings.alerts_ping else []
    failed = send(settings, [alert], pings, site.environment, about)
    if failed:
        return [Finding("error", "alerts", each.what, "Correct alerts: in cronhpc.yaml.") for each in failed]
    return [Finding("fine", "alerts", "a test alert was sent; see whether it has come.")]

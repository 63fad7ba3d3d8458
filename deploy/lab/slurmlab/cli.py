"""The command line of the lab."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import pwd
import shlex
import socket
import sys
import time
from pathlib import Path

from . import cluster, keeper, processes
from .options import Facts, LabError, Options, node_names, read_facts

SIGNALS = {"stop": "SIGSTOP", "cont": "SIGCONT", "end": "SIGTERM", "kill": "SIGKILL"}


def main(argv: list[str]) -> int:
    """Run one command; the exit code: 0 fine, 1 it failed, 2 wrong usage, `exec`: the command's own."""
    if argv[:1] == ["keep"]:
        return keeper.main(Path(argv[1]), socket.socket(fileno=int(argv[2])), int(argv[3]) or None)
    command = argv[argv.index("--") + 1 :] if "--" in argv else []
    asked = _parser().parse_args(argv[: argv.index("--")] if "--" in argv else argv)
    asked.command = command
    try:
        return int(asked.run(asked) or 0)
    except (LabError, cluster.LabUp, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; what was started is ended", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab",
        description="A private, real Slurm under one folder and free ports.",
        epilog="Example: lab up && lab exec -- sbatch --wrap hostname && lab exec -- squeue; lab down",
    )
    commands = parser.add_subparsers(required=True, metavar="up|down|status|exec|env|ctld|node")
    _add_up(commands)
    for name, run, text in (
        ("down", _down, "end it, and leave nothing"),
        ("status", _status, "what runs, where, on which ports"),
        ("exec", _exec, "run a command in it: lab exec [--user alice] -- sbatch job.slurm"),
        ("env", _env, 'lines for a shell: eval "$(lab env)"'),
        ("ctld", _ctld, "make the controller fail: stop (frozen), cont, end (saves its queue), kill (does not), start"),
        ("node", _node, "make a node fail: stop, cont, end, kill (with its jobs), start, down, resume"),
    ):
        sub = commands.add_parser(name, help=text, description=text)
        _add_place(sub)
        sub.set_defaults(run=run)
        _add_own(sub, name)
    return parser


def _add_own(sub: argparse.ArgumentParser, name: str) -> None:
    if name == "status":
        sub.add_argument("--json", action="store_true")
    if name == "exec":
        sub.add_argument("--user", help="as this user (root only)")
    if name == "ctld":
        sub.add_argument("--clean-state", action="store_true", help="with start: forget every job")
    if name in ("ctld", "node"):
        actions = ["stop", "cont", "end", "kill", "start"] + (["down", "resume"] if name == "node" else [])
        sub.add_argument("action", choices=actions)
    if name == "node":
        sub.add_argument("node")


def _add_place(sub: argparse.ArgumentParser) -> None:
    group = sub.add_mutually_exclusive_group()
    if sub.prog.split()[-1] in ("ctld", "node"):
        group.add_argument("--name", help='which lab (default "lab")')
    else:
        group.add_argument("name", nargs="?", help='which lab (default "lab")')
    group.add_argument("--dir", help="the lab's folder, instead of a name")


def _add_up(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = commands.add_parser("up", help="start one; returns when the nodes are idle")
    _add_place(sub)
    sub.add_argument("--nodes", type=_count, default=3, help="CPU nodes, in the default partition cpu (3)")
    sub.add_argument("--gpu-nodes", type=_count, default=1, help="nodes in the partition gpu (1)")
    sub.add_argument("--cpus", type=_count, default=8, help="CPUs a node claims to have (8)")
    sub.add_argument("--users", type=_names, default=(), metavar="A,B", help="users, made when missing (root only)")
    sub.add_argument("--group", default="labgroup", help="the group that they share (labgroup)")
    sub.add_argument("--accounting", action="store_true", help="mariadb and slurmdbd: sacct, accounts, QOS limits")
    sub.add_argument("--account", default="abc", help="with --accounting: the users' account (abc)")
    sub.add_argument("--max-submit", type=_count, help="with --accounting: jobs a user may have in the queue")
    sub.add_argument("--enforce", default="associations,limits,qos", help="AccountingStorageEnforce")
    sub.add_argument("--min-job-age", type=_count, help="seconds that an ended job stays visible (300)")
    sub.add_argument("--speed", type=float, help="compressed time: 600 makes a day 144 s")
    sub.add_argument("--start-time", type=_instant, help='the lab\'s clock starts at "2026-11-27 00:00:00"')
    sub.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a further slurm.conf line")
    sub.add_argument("--until", type=int, metavar="PID", help="end the lab when that process ends")
    sub.add_argument("--json", action="store_true")
    sub.set_defaults(run=_up)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text}: not a count")
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _instant(text: str) -> float:
    """Epoch seconds from a local date and time, or from @EPOCH."""
    try:
        if text.startswith("@"):
            return float(text[1:])
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f'{text!r}: write "2026-11-27 00:00:00" or @EPOCH') from error


def _where(asked: argparse.Namespace) -> Path:
    return cluster.folder(asked.name, asked.dir)


def _up(asked: argparse.Namespace) -> None:
    wishes = {name: value for name, value in vars(asked).items() if name in Options.__dataclass_fields__}
    began = time.monotonic()
    facts = cluster.up(_where(asked), Options(**{**wishes, "conf": tuple(asked.conf)}), asked.until)
    took = time.monotonic() - began
    if asked.json:
        print(json.dumps({**_facts(facts), "took": round(took, 3)}))
        return
    nodes, me, place = len(node_names(facts.options)), shlex.quote(sys.argv[0]), _place(asked)
    print(
        f"{facts.root}: Slurm {facts.version}, {nodes} nodes idle after {took:.1f} s\n"
        f'try: {me} exec{place} -- sinfo; or: eval "$({me} env{place})"; end it: {me} down{place}'
    )


def _place(asked: argparse.Namespace) -> str:
    return f" --dir {shlex.quote(asked.dir)}" if asked.dir else f" {asked.name}" if asked.name else ""


def _down(asked: argparse.Namespace) -> None:
    cluster.down(_where(asked))


def _facts(facts: Facts) -> dict[str, object]:
    options, ports = facts.options, facts.ports
    names = node_names(options)
    named = {"slurmctld": ports.ctld, **dict(zip(names, ports.nodes, strict=True))}
    if options.accounting:
        named |= {"slurmdbd": ports.dbd, "mariadbd": ports.sql}
    return {
        "dir": facts.root,
        "conf": str(facts.layout.conf),
        "version": facts.version,
        "nodes": list(names),
        "users": list(options.users),
        "ports": named,
        "env": facts.environment,
        "keeper": facts.keeper_pid,
    }


def _status(asked: argparse.Namespace) -> int:
    facts = read_facts(_where(asked))
    running = processes.alive(facts.keeper_pid, facts.keeper_start)
    daemons = keeper.order(facts, do="list")["daemons"] if running else {}
    if asked.json:
        print(json.dumps({**_facts(facts), "running": running, "daemons": daemons}, indent=1))
        return 0 if running else 1
    print(f"{facts.root}: Slurm {facts.version}, {'running' if running else 'not running: its keeper ended. lab down'}")
    ports = {"ctld": facts.ports.ctld, "dbd": facts.ports.dbd, "sql": facts.ports.sql}
    ports |= dict(zip(node_names(facts.options), facts.ports.nodes, strict=True))
    for name, pid in daemons.items():
        port = f"port {ports[name]}" if ports.get(name) else ""
        print(f"  {name:<8} {f'pid {pid}' if pid else 'ended':<12} {port}".rstrip())
    return 0 if running else 1


def _exec(asked: argparse.Namespace) -> int:
    facts = read_facts(_where(asked))
    if not asked.command:
        raise LabError("exec: no command. Write it after two dashes: lab exec -- sinfo")
    environment = {**os.environ, **facts.environment}
    if asked.user:
        environment |= become(asked.user)
    try:
        os.execvpe(asked.command[0], asked.command, environment)  # noqa: S606 -- the very purpose of exec
    except OSError as error:
        raise LabError(f"{asked.command[0]}: {error.strerror}") from error


def become(name: str) -> dict[str, str]:
    """Turn this process into that user's; the variables that change.

    Raises LabError when there is no such user or we may not.
    """
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise LabError(f"no user {name!r}. Give the lab its users: lab up --users {name}") from None
    if user.pw_uid != os.getuid():
        try:
            os.initgroups(name, user.pw_gid)
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        except PermissionError:
            raise LabError(f"--user {name}: only root may become another user") from None
    return {"HOME": user.pw_dir, "USER": name, "LOGNAME": name, "SHELL": user.pw_shell or "/bin/sh"}


def _env(asked: argparse.Namespace) -> None:
    for name, value in read_facts(_where(asked)).environment.items():
        print(f"export {name}={shlex.quote(value)}")


def _ctld(asked: argparse.Namespace) -> None:
    _fault(asked, "ctld")


def _node(asked: argparse.Namespace) -> None:
    facts = read_facts(_where(asked))
    if asked.node not in node_names(facts.options):
        raise LabError(f"no node {asked.node!r}; there are: {', '.join(node_names(facts.options))}")
    if asked.action in ("down", "resume"):
        state = f"state={asked.action}"
        argv = [
            "scontrol",
            "update",
            f"nodename={asked.node}",
            state,
            *(["reason=lab"] if asked.action == "down" else []),
        ]
        os.execvpe(argv[0], argv, {**os.environ, **facts.environment})  # noqa: S606 -- becomes scontrol
    _fault(asked, asked.node)


def _fault(asked: argparse.Namespace, what: str) -> None:
    facts = read_facts(_where(asked))
    if asked.action == "start":
        keeper.order(facts, do="start", what=what, clean=getattr(asked, "clean_state", False))
    else:
        keeper.order(facts, do="signal", what=what, signal=SIGNALS[asked.action])

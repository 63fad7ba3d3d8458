"""mariadbd and slurmdbd of the lab's own, and what sacctmgr puts in."""

from __future__ import annotations

from pathlib import Path

from .options import Facts, Layout, Ports


def server_argv(layout: Layout, ports: Ports) -> list[str]:
    """The command line of mariadbd."""
    raise NotImplementedError


def prepare(layout: Layout) -> None:
    """Make the database's own tables."""
    raise NotImplementedError


def fill(facts: Facts) -> None:
    """Add the cluster, the account and the users."""
    raise NotImplementedError


def _unused(_: Path) -> None: ...

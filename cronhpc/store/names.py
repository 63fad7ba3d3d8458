"""Whose a name is: names are one namespace, and of two files with one name the newcomer is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Problem, StateError
from cronhpc.store.memory import load

if TYPE_CHECKING:
    from pathlib import Path

    from cronhpc.core.model import Entry


class Names:
    """`entries` by name, as they are added."""

    def __init__(self, memory: Path) -> None:
        self.memory = memory  # state/entries.json
        self.entries: dict[str, Entry] = {}
        self._refused: list[Entry] = []
        self._owners: dict[str, str] | None = None

    def add(self, entry: Entry) -> None:
        """Take it, unless another has its name by right."""
        first = self.entries.setdefault(entry.name, entry)
        if first is entry:
            return
        if self._had_the_name(entry, first):
            self.entries[entry.name], entry = entry, first
        self._refused.append(entry)

    def _had_the_name(self, entry: Entry, other: Entry) -> bool:
        """Whether `entry` had it before `other`: the last tick knows whose it was, else the older file tells."""
        owner, mine, others = self._owner(entry.name), file_of(entry), file_of(other)
        if owner in {mine, others} and mine != others:
            return owner == mine
        return entry.born < other.born

    def _owner(self, name: str) -> str:
        """The file that an earlier tick knew the name from; asked only where two files have one name."""
        if self._owners is None:
            try:
                states = load(self.memory).entries
            except (OSError, StateError):  # said where the state is needed
                states = {}
            self._owners = {each: state.source for each, state in states.items()}
        return self._owners.get(name, "")

    def refused(self) -> list[Problem]:
        """Newcomers: they neither run, nor take over what is known of the first one."""
        return [
            Problem(
                "E301",
                f"a second entry called {entry.name!r}: {self.entries[entry.name].source} had the name first.",
                "Rename this one: until then it does not run.",
                entry.source,
            )
            for entry in self._refused
        ]


def file_of(entry: Entry) -> str:
    """The file that an entry is from; rows of the settings move with each edit, so their line does not count."""
    return "cronhpc.yaml" if entry.source.startswith("cronhpc.yaml:") else entry.source

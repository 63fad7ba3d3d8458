"""Policies: text to values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronhpc.core.model import Policies
from cronhpc.core.policy import DEFAULTS, POLICIES, parse_policies

GOOD: dict[str, tuple[str, str | None, object]] = {
    "timezone": ("timezone", "Europe/Paris", "Europe/Paris"),
    "timezone UTC": ("timezone", "UTC", "UTC"),
    "catch-up": ("catch-up", "all", "all"),
    "any case": ("catch-up", "None", "none"),
    "catch-up-limit": ("catch-up-limit", "5", 5),
    "deadline": ("deadline", "1h30m", 5400),
    "no deadline": ("deadline", "none", None),
    "overlap": ("overlap", "queue", "queue"),
    "retries": ("retries", "2", 2),
    "no retries": ("retries", "0", 0),
    "retry-delay": ("retry-delay", "10m", 600),
    "retry-delay nothing": ("retry-delay", "0", 0),
    "suspend-after": ("suspend-after", "3", 3),
    "suspend-after off": ("suspend-after", "off", None),
    "suspend-after as YAML writes off": ("suspend-after", "False", None),
    "record alone": ("record", None, True),
    "record true": ("record", "True", True),
    "record no": ("record", "no", False),
    "ping": ("ping", "https://hc.example/uuid", "https://hc.example/uuid"),
}


@pytest.mark.parametrize(("name", "text", "value"), GOOD.values(), ids=GOOD.keys())
def test_a_policy_is_read(name: str, text: str | None, value: object) -> None:
    policies, problems = parse_policies([(name, text, 7)])
    assert problems == ()
    field = name.replace("-", "_")
    assert getattr(policies, field) == value
    assert replace(policies, **{field: getattr(DEFAULTS, field)}) == DEFAULTS  # nothing else changes


BAD: dict[str, tuple[str, str | None, str]] = {
    "a misspelt zone names the nearest": ("timezone", "Europe/Pris", "Europe/Paris"),
    "a city names its zone": ("timezone", "Paris", "Europe/Paris"),
    "a zone is no path": ("timezone", "../etc/passwd", "time zone"),
    "a zone is no folder": ("timezone", "Europe", "time zone"),
    "no zone": ("timezone", "", "time zone"),
    "catch-up": ("catch-up", "some", "latest, all, none"),
    "catch-up without a value": ("catch-up", None, "latest, all, none"),
    "overlap": ("overlap", "forbid", "skip, allow, replace, queue"),
    "retries in words": ("retries", "two", "0 to 100"),
    "retries below zero": ("retries", "-1", "0 to 100"),
    "too many retries": ("retries", "101", "0 to 100"),
    "retries with other digits": ("retries", "٣", "0 to 100"),
    "retries without a value": ("retries", None, "0 to 100"),
    "a deadline without a unit": ("deadline", "10", "10m"),
    "a deadline in words": ("deadline", "soon", "90m"),
    "suspend after nothing": ("suspend-after", "0", "1 to 1000"),
    "record": ("record", "maybe", "true or false"),
    "ping": ("ping", "hc.example/uuid", "https://"),
    "a catch-up limit of nothing": ("catch-up-limit", "0", "1 to 10000"),
}


@pytest.mark.parametrize(("name", "text", "fix"), BAD.values(), ids=BAD.keys())
def test_a_bad_value_is_a_problem_and_changes_nothing(name: str, text: str | None, fix: str) -> None:
    policies, (problem,) = parse_policies([(name, text, 7), ("overlap", "allow", 8)][: 1 if name == "overlap" else 2])
    assert (problem.code, problem.line, problem.key) == ("E103", 7, name)
    assert fix in problem.fix
    assert replace(policies, overlap=DEFAULTS.overlap) == DEFAULTS


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("retrys", "--retries"),
        ("catchup", "--catch-up"),
        ("catch_up", "--catch-up"),
        ("tz", "--timezone"),
        ("Overlap", "--overlap"),
        ("time-zone", "--timezone"),
        ("suspend", "--suspend-after"),
    ],
)
def test_an_unknown_policy_names_the_nearest(name: str, near: str) -> None:
    _, (problem,) = parse_policies([(name, "1", 3)])
    assert (problem.code, problem.line, problem.key) == ("E102", 3, name)
    assert near in problem.fix


def test_a_policy_unlike_any_lists_all() -> None:
    _, (problem,) = parse_policies([("xyzzy", None, 1)])
    assert all(f"--{name}" in problem.fix for name in POLICIES)


def test_later_pairs_and_later_layers_win() -> None:
    base, _ = parse_policies([("retries", "1", 1), ("overlap", "queue", 1)])
    policies, _ = parse_policies([("retries", "2", 2), ("retries", "3", 2)], base)
    assert (policies.retries, policies.overlap) == (3, "queue")


def test_every_field_has_a_policy() -> None:
    assert {name.replace("-", "_") for name in POLICIES} == set(Policies.__slots__)

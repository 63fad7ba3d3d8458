"""Three days of faults on a real Slurm: each slot runs once, or history says why not; the chain neither dies nor forks.

Thirty days of it, with other faults at other times: `python tests/lab/month.py --days 30`.
"""

from __future__ import annotations

import os

import pytest

from tests.lab.helpers_days import evidence_of, simulated, simulation
from tests.lab.month import ENTRIES, FAULTS, Month, simulate, summary

pytestmark = pytest.mark.lab

SEED = int(os.environ.get("CRONHPC_SEED", "20251020"))


@simulation(450)
def month() -> Month:
    """Its faults are printed as they come; pytest shows them if a test fails."""
    return simulate(3, SEED, print)


@simulated(month)
def test_after_three_days_of_faults_every_slot_ran_once_or_has_a_reason(request: pytest.FixtureRequest) -> None:
    found = evidence_of(month, request)
    assert found.wrong == [], summary(found)


@simulated(month)
def test_the_faults_were_there(request: pytest.FixtureRequest) -> None:
    """A judgement over a quiet month would prove nothing."""
    found = evidence_of(month, request)
    assert {fault.kind for fault in found.faults} >= set(FAULTS) - {"the disk is full"}
    assert all(fault.over for fault in found.faults)
    assert all(len(found.evidence.ran[entry]) >= 3 for entry in ENTRIES)


@simulated(month)
def test_two_pending_successors_are_taken_back_at_once(request: pytest.FixtureRequest) -> None:
    found = evidence_of(month, request)
    assert len(found.evidence.samples) > 500
    assert found.evidence.forks_left() == []

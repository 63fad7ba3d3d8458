"""The mark before the comment of a task that a pause switch holds, and how the comment comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import PAUSED, cut_comment

if TYPE_CHECKING:
    from cronhpc.core.model import Job, World


def marked(world: World, job: Job) -> str:
    """The comment of a task that we hold: the mark, then its own as far as there is room."""
    return cut_comment(f"{PAUSED}{world.directory_id} {whole_comment(world, job)}")


def whole_comment(world: World, job: Job) -> str:
    """Its own comment, the part included that a mark left no room for."""
    kept = world.comments.get(job.id, "")
    return kept if job.comment.startswith(PAUSED) and kept.startswith(job.own_comment) else job.own_comment

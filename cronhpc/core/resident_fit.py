"""Whether a link of `start --daemon` could ever start: it asks for the interval, and time to hand over. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cronhpc.core.model import LONGER, command
from cronhpc.cron.duration import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpc.core.model import Settings
    from cronhpc.core.model.site import Partition

_NEAT = (86400, 43200, 21600, 10800, 7200, 3600, 1800, 1200, 900, 600, 300)  # intervals that people name


class Misfit(NamedTuple):
    """What is wrong, the fix in words, and the interval to put; "" where none would fit."""

    what: str
    fix: str
    interval: str


def misfit(partitions: Sequence[Partition], settings: Settings) -> Misfit | None:
    """Why such a link could never start where links go; None where it could, or nobody can tell."""
    chosen = dict(settings.link_sbatch).get("partition") or dict(settings.sbatch).get("partition", "")
    names = chosen.split(",") if chosen else [each.name for each in partitions if each.default]
    there = [each for each in partitions if each.name in names]
    asks = settings.interval + LONGER
    if not there or any(_takes(each, asks) for each in there):
        return None
    longest = max(each.time_limit or 0 for each in there)
    what = (
        f"partition {chosen or there[0].name} takes jobs of at most {format_duration(longest)}; a link of "
        f"start --daemon asks for {format_duration(asks)} (the interval and {format_duration(LONGER)}), so it could "
        "never start."
    )
    interval = next((each for each in _NEAT if each + LONGER <= longest and each >= settings.min_interval), 0)
    other = next((each.name for each in partitions if each.up and not each.gpus and _takes(each, asks)), "")
    ways: list[str] = []
    if interval:
        ways.append(f"put scheduler: {{interval: {format_duration(interval)}}} in cronhpc.yaml")
    if other:
        ways.append(f"name a partition that allows it: scheduler: {{sbatch: {{partition: {other}}}}}")
    by_links = " short links do the work: " + command("start", options=("--via", "chain")) + "."
    fix = f"{ways[0][:1].upper()}{', or '.join(ways)[1:]}, or let" + by_links if ways else "Let" + by_links
    return Misfit(what, fix, format_duration(interval) if interval else "")


def _takes(partition: Partition, seconds: int) -> bool:
    return partition.time_limit is None or partition.time_limit >= seconds

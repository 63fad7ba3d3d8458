"""Whether a file system is nearly full."""

from __future__ import annotations

from dataclasses import dataclass

_SCARCE = 50  # one part in this many is left: 2 %
_SCARCE_BYTES = 4  # ... and less than so many times `logs.total`: 2 % of a large file system is plenty
_SCARCE_INODES = 100_000


@dataclass(frozen=True, slots=True)
class Space:
    """What a file system has and has left; `inodes` 0: it does not count them."""

    bytes_free: int
    bytes: int
    inodes_free: int
    inodes: int


def scarce(space: Space, total: int) -> str:
    """What is nearly used up, in words; "" where nothing is. `total`: the most bytes of logs."""
    said = []
    if space.bytes_free * _SCARCE < space.bytes and space.bytes_free < max(_SCARCE_BYTES * total, 1):
        said.append(f"{space.bytes_free * 100 / space.bytes:.1f} % of its bytes")
    if space.inodes_free * _SCARCE < space.inodes and space.inodes_free < _SCARCE_INODES:
        said.append(f"{space.inodes_free * 100 / space.inodes:.1f} % of its inodes")
    return f"the file system has {' and '.join(said)} left" if said else ""

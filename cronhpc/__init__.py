"""Cron for clusters, without admin rights."""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs as much as all else here
if TYPE_CHECKING:
    from cronhpc.inside.kill_switch import KillSwitch

__version__ = "0.1.0"
__all__ = ["KillSwitch", "__version__"]


def __getattr__(name: str) -> object:
    if name == "KillSwitch":
        from cronhpc.inside.kill_switch import KillSwitch

        return KillSwitch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

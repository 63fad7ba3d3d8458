"""Cron for clusters, without admin rights."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing's own costs as much as all else here
if TYPE_CHECKING:
    from cronhpc.inside.kill_switch import KillSwitch

# deploy/install moves a link: what a daemon or guard imports late must be of the version that it runs
__path__ = [os.path.realpath(each) for each in __path__]
__version__ = "0.1.0"
__all__ = ["KillSwitch", "__version__"]


def __getattr__(name: str) -> object:
    if name == "KillSwitch":
        from cronhpc.inside.kill_switch import KillSwitch

        return KillSwitch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

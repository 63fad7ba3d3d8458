"""Text and pictures of facts. Facts are JSON-ready: times in ISO 8601, the same keys in every command and file."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


Facts = dict[str, "Any"]

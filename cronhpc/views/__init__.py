"""Text and pictures of facts. Facts are JSON-ready: times in ISO 8601, the same keys in every command and file."""

from typing import Any

Facts = dict[str, Any]

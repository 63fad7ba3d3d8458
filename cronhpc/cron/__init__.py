"""Text to instants."""

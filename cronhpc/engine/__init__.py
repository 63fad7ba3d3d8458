"""The effects of one pass."""

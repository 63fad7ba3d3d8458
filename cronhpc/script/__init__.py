"""A batch script as data."""

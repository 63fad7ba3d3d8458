"""Logs that clean themselves."""

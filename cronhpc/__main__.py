"""`python -m cronhpc`."""

from cronhpc.cli import entry_point

entry_point()

"""Pure decisions: no disk, process, clock, environment or log."""

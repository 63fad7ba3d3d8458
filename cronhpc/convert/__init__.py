"""Other schedulers' tables to entries; pure."""

"""Cron for Slurm clusters, without admin rights."""

__version__ = "0.1.0"

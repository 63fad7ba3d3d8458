"""A private, real Slurm under one folder and free ports. Standard library only."""

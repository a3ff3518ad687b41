"""Slurm: what sacct prints, what slurmdbd keeps, and formats made from them."""

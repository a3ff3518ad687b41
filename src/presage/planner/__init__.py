"""The execution plans of a job across systems."""

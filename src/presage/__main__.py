"""`python -m presage`: the command line where its script is not on the path."""

from __future__ import annotations

from presage.cli.main import run

run()

"""slurmrestd: one process for a socket, which knows who asks, and one for a port, which wants a token."""

from __future__ import annotations

import os
from pathlib import Path

PROGRAMS = ("slurmrestd",)
PACKAGES = "slurmrestd slurm-wlm-jwt-plugin"
_KEY_BYTES = 32


def has_tokens() -> bool:
    """Return whether Slurm's plug-in for tokens is installed."""
    return any(Path("/usr/lib").glob("*/slurm*/auth_jwt.so"))


def lines_of(folder: Path) -> dict[str, object]:
    """Return what slurm.conf says of tokens, whose key is made here."""
    path = folder / "jwt.key"
    path.touch(mode=0o600)
    path.write_bytes(os.urandom(_KEY_BYTES))
    return {"AuthAltTypes": "auth/jwt", "AuthAltParameters": f"jwt_key={path}"}


def command(kind: str, address: str, *, has_accounting: bool) -> list[str]:
    """Return the command of a slurmrestd with `local` or `jwt` authentication.

    It runs as root or as SlurmUser only if it is told to. SLURM_JWT, which one kind needs, breaks the other.
    """
    token = ["SLURM_JWT=daemon"] if kind == "jwt" else []
    # Its plug-ins for the accounting are fatal where there is none.
    plugins = [] if has_accounting else ["-s", "openapi/v0.0.38,openapi/v0.0.37,openapi/v0.0.36"]
    program = ["slurmrestd", "-a", f"rest_auth/{kind}", *plugins, address]
    return ["env", "SLURMRESTD_SECURITY=disable_user_check", *token, *program]

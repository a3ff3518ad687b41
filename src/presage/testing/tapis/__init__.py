"""A small Tapis to test against: on loopback, on a free port, gone when the test is over.

    from presage.testing.tapis import FakeTapis

    with FakeTapis(rate=60) as tapis:
        connector = TapisConnector(tapis.base_url, system=tapis.system, username=tapis.username, …)

It has what a connector needs of the tenants, tokens, systems, applications and jobs services, and really runs what
jobs say: not in a container but as a script of the shell, written the way Tapis writes it. Where the files are
at hand in which Tapis publishes its interface, a `Specification` of them gives the routes, and every request and
every answer is checked against it.
"""

from __future__ import annotations

from presage.testing.tapis.server import FakeTapis
from presage.testing.tapis.specification import Specification

__all__ = ["FakeTapis", "Specification"]

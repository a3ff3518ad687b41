"""What other processes do to a database, in a module that is quickly imported."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import text

from presage.clusters import shipped_systems
from presage.clusters.catalogue import Catalogue, Source
from presage.database import Database

PROCESSES = 2
PUTS = 6


def open_and_close(url: str, _number: int) -> None:
    """Open a database that may not be there yet."""
    database = Database(url)
    with database.reading() as session:
        session.execute(text("SELECT count(*) FROM system_versions"))
    database.close()


def put_many(url: str, number: int) -> None:
    """Put some descriptions, each different from all others."""
    catalogue = Catalogue(Database(url))
    for put in range(PUTS):
        described = replace(shipped_systems()["laptop"], name="lab", description=f"{number} {put}")
        catalogue.put(described, Source.EDITED)
    catalogue.database.close()


def run_at_once(work: Callable[[str, int], None], url: str) -> None:
    """Do the same in several processes; all must succeed."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(url, number)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
        assert process.exitcode == 0

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from presage.clusters import shipped_systems
from presage.clusters.catalogue import Catalogue, ConflictError, Source
from presage.clusters.editing import set_fields
from presage.database import Database
from presage.errors import InputError, UnknownNameError, UsageError
from tests.clusters.systems import lab
from tests.database.workers import PROCESSES, PUTS, put_many, run_at_once

LONGER = "partitions.gpu.limits.max_walltime_s=48h"


@pytest.fixture
def catalogue(database_url: str) -> Iterator[Catalogue]:
    database = Database(database_url)
    yield Catalogue(database)
    database.close()


def test_shipped_systems_need_no_database(tmp_path: Path) -> None:
    file = tmp_path / "none" / "presage.sqlite"
    catalogue = Catalogue(Database(f"sqlite:///{file}"))
    assert catalogue.all() == shipped_systems()
    assert catalogue.get("osc-pitzer") == shipped_systems()["osc-pitzer"]
    assert [version.source for version in catalogue.history("laptop")] == [Source.SHIPPED]
    assert not file.parent.exists()


def test_shipped_systems_need_not_even_what_databases_need(tmp_path: Path) -> None:
    code = "from presage.clusters.catalogue import Catalogue; import sys; Catalogue().all(); print(*sys.modules)"
    environment = {**os.environ, "PRESAGE_HOME": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert {"sqlalchemy", "alembic", "polars", "numpy"}.isdisjoint(done.stdout.split())


def test_every_change_is_a_version_with_its_times(catalogue: Catalogue) -> None:
    before = datetime.now(UTC)
    assert catalogue.put(lab(), Source.IMPORTED, "from a file") == ("system added",)
    assert catalogue.put(lab(), Source.IMPORTED) == ()
    changed = set_fields(lab(), [LONGER])
    assert catalogue.put(changed, Source.EDITED, "new rule") == (
        "partition gpu: max walltime 1-00:00:00 → 2-00:00:00",
    )
    first, second = catalogue.history("lab")
    assert (first.number, first.source, first.note) == (1, Source.IMPORTED, "from a file")
    assert (second.number, second.source, second.note) == (2, Source.EDITED, "new rule")
    assert first.valid_from is not None
    assert before <= first.valid_from <= datetime.now(UTC)
    assert first.valid_to == second.valid_from
    assert second.valid_to is None
    assert catalogue.get("lab") == changed
    assert catalogue.get("lab", at=first.valid_from) == lab()
    assert catalogue.get("lab", at=first.valid_to) == changed


def test_before_it_was_put_a_system_is_unknown_and_a_shipped_one_as_shipped(catalogue: Catalogue) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    catalogue.put(lab(), Source.EDITED)
    catalogue.put(replace(shipped_systems()["laptop"], description="mine"), Source.EDITED)
    with pytest.raises(UnknownNameError):
        catalogue.get("lab", at=before)
    assert catalogue.get("laptop", at=before) == shipped_systems()["laptop"]
    assert catalogue.get("laptop").description == "mine"
    assert [version.number for version in catalogue.history("laptop")] == [0, 1]


@pytest.mark.parametrize("name", ["lab", "laptop"])
def test_what_is_removed_is_gone_and_remembered(catalogue: Catalogue, name: str) -> None:
    catalogue.put(lab(), Source.EDITED)
    catalogue.remove(name, "sold")
    assert name not in catalogue.all()
    with pytest.raises(UnknownNameError):
        catalogue.get(name)
    with pytest.raises(UnknownNameError):
        catalogue.remove(name)
    last = catalogue.history(name)[-1]
    assert last.note == "sold"
    assert last.valid_from is not None
    assert catalogue.get(name, at=last.valid_from).name == name
    assert catalogue.put(last.system, Source.EDITED) == ("system added",)
    assert catalogue.get(name) == last.system


def test_unknown_names_are_answered_with_the_closest(catalogue: Catalogue) -> None:
    catalogue.put(lab(), Source.EDITED)
    with pytest.raises(UnknownNameError, match="Did you mean 'osc-pitzer'"):
        catalogue.get("osc-pizer")
    with pytest.raises(UnknownNameError):
        catalogue.history("nowhere")


def test_an_edit_of_an_old_version_does_not_undo_a_newer_one(catalogue: Catalogue) -> None:
    catalogue.put(lab(), Source.EDITED)
    catalogue.put(set_fields(lab(), [LONGER]), Source.EDITED, based_on=1)
    with pytest.raises(ConflictError, match="somebody else"):
        catalogue.put(set_fields(lab(), ["description=mine"]), Source.EDITED, based_on=1)
    assert catalogue.get("lab").description == ""


def test_a_system_that_contradicts_itself_is_not_kept(catalogue: Catalogue) -> None:
    with pytest.raises(InputError, match="no such node type"):
        catalogue.put(lab(node_types=()), Source.EDITED)
    assert "lab" not in catalogue.all()


@pytest.mark.parametrize("note", ["a\0b", "half \udcff"])
def test_a_note_that_is_no_text_is_refused(catalogue: Catalogue, note: str) -> None:
    with pytest.raises(UsageError, match="The note"):
        catalogue.put(lab(), Source.EDITED, note)


def test_what_was_discovered_is_remembered_through_edits(catalogue: Catalogue) -> None:
    catalogue.put(lab(), Source.DISCOVERED, discovered=lab())
    catalogue.put(set_fields(lab(), ["charge.core_hour=1"]), Source.EDITED)
    assert catalogue.version("lab").discovered == lab()
    found = set_fields(lab(), ["node_types.cpu.count=3"])
    assert catalogue.put(catalogue.get("lab"), Source.DISCOVERED, discovered=found) == ()
    assert catalogue.version("lab").discovered == found
    assert len(catalogue.history("lab")) == 2


def test_many_may_put_at_once(database_url: str) -> None:
    run_at_once(put_many, database_url)
    database = Database(database_url)
    versions = Catalogue(database).history("lab")
    database.close()
    assert [version.number for version in versions] == list(range(1, PROCESSES * PUTS + 1))
    assert len({version.system.description for version in versions}) == PROCESSES * PUTS
    assert all(one.valid_to == other.valid_from for one, other in pairwise(versions))

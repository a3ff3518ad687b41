from __future__ import annotations

import json

import pytest

from presage.synthesizers.columns import Columns
from presage.synthesizers.people import KnownPeople
from presage.testing import make_job, make_trace
from presage.traces import Trace


def make_log(jobs: int = 240) -> Trace:
    """Every second job is zoe's; bob, ann and a nameless one share the rest."""
    names = ("zoe", "bob", "zoe", "ann", "zoe", None)
    return make_trace(
        *(make_job(60 * place, 0, 30.0 + place % 9, user=names[place % 6], group="staff") for place in range(jobs))
    )


@pytest.fixture(scope="module")
def columns() -> Columns:
    return Columns.fit(make_log())


def test_people_are_recognised_by_the_numbers_that_the_columns_gave_them(columns: Columns) -> None:
    known = KnownPeople.of(make_log(), columns)
    assert [known.number_of("user", name) for name in ("zoe", "bob", "ann")] == ["u1", "u2", "u3"]
    assert known.number_of("user", "eve") is None
    assert known.number_of("group", "zoe") is None


def test_no_name_is_kept_and_no_two_models_have_the_same_digests(columns: Columns) -> None:
    first, second = (KnownPeople.of(make_log(), columns).to_dict() for _ in range(2))
    assert not any(name in json.dumps(first) for name in ("zoe", "bob", "ann", "staff"))
    assert not set(first["numbers"]["user"]) & set(second["numbers"]["user"])


def test_people_without_a_number_of_their_own_are_not_recognised() -> None:
    columns = Columns.fit(make_log(), most_labels=3)
    known = KnownPeople.of(make_log(), columns)
    kept = columns.category("user")
    assert kept is not None
    assert "other" in kept.labels
    numbers = [known.number_of("user", name) for name in ("zoe", "bob", "ann")]
    assert numbers[0] == "u1"
    assert None in numbers


def test_what_is_kept_can_be_read_again(columns: Columns) -> None:
    known = KnownPeople.of(make_log(), columns)
    assert KnownPeople.from_dict(json.loads(json.dumps(known.to_dict()))) == known

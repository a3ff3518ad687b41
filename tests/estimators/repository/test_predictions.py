from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from presage.database import Database
from presage.errors import UsageError
from presage.estimators import Basis, Estimate, Quantity, Spread
from presage.estimators.repository import Repository, Role
from presage.estimators.repository.predictions import Predictions
from presage.testing.estimators import HOSTILE, make_script_request, make_training_request

REQUEST = make_training_request(Quantity.WALLTIME)
ANSWER = Estimate(Quantity.WALLTIME, Spread(10, 20, 40), Basis.MODELLED, "some", "1.0", ("A note.",), {"steps": 3})
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_a_prediction_comes_back_with_what_happened(repository: Repository) -> None:
    kept = repository.predictions
    assert kept.store(REQUEST, ANSWER, job_key="pitzer/42", at=NOON)
    (found,) = kept.find()
    assert (found.estimator, found.version, found.role, found.asked_at) == ("some", "1.0", Role.IN_CHARGE, NOON)
    assert (found.spread, found.basis, found.job_key, found.actual) == (
        Spread(10, 20, 40), Basis.MODELLED, "pitzer/42", None,
    )  # fmt: skip
    assert found.read_request() == REQUEST
    assert kept.record_outcome("pitzer/42", Quantity.WALLTIME, 25.0, NOON) == 1
    assert kept.record_outcome("pitzer/42", Quantity.MEMORY, 1e9, NOON) == 0
    assert kept.find(with_outcome=True)[0].actual == 25.0
    kept.record_outcome("pitzer/42", Quantity.WALLTIME, 30.0)
    assert [each.actual for each in kept.find(job_key="pitzer/42")] == [30.0]


def test_predictions_are_found_by_what_they_are(repository: Repository) -> None:
    kept = repository.predictions
    assert kept.find() == []
    for hours, version in enumerate(("1.0", "1.1", "1.1")):
        kept.store(REQUEST, replace(ANSWER, version=version), at=NOON + timedelta(hours=hours))
    kept.store(REQUEST, ANSWER, role=Role.SHADOW, at=NOON - timedelta(hours=1))
    assert [each.version for each in kept.find()] == ["1.1", "1.1", "1.0", "1.0"]
    assert len(kept.find(version="1.1")) == 2
    assert len(kept.find(role=Role.SHADOW)) == 1
    assert len(kept.find(limit=3)) == 3
    assert kept.find(quantity=Quantity.WAIT) == kept.find(estimator="other") == kept.find(with_outcome=True) == []
    assert len({each.question for each in kept.find()}) == 1


def test_accuracy_is_told_by_month_and_version(repository: Repository) -> None:
    kept = repository.predictions
    for number, (at, actual) in enumerate([(NOON, 20.0), (NOON, 50.0), (NOON - timedelta(days=31), 40.0)]):
        kept.store(REQUEST, ANSWER, job_key=f"job {number}", at=at)
        kept.record_outcome(f"job {number}", Quantity.WALLTIME, actual)
    november, october = kept.accuracy(quantity=Quantity.WALLTIME)
    assert (november.month, november.score.count, november.score.coverage) == ("2026-11", 2, 0.5)
    assert november.score.median_ratio_error == pytest.approx(0.75)
    assert (october.month, october.score.count, october.score.median_ratio_error) == ("2026-10", 1, 1.0)
    assert kept.accuracy(estimator="other") == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_kept_or_refused_and_never_raises(text: str, repository: Repository) -> None:
    request = make_script_request(Quantity.WALLTIME, script=text, name=text)
    said = replace(ANSWER, notes=(text,))
    stored = repository.predictions.store(request, said, job_key="job")
    assert stored == ("\ud800" not in text)
    if stored:
        assert repository.predictions.find()[0].read_request() == request
    repository.predictions.store(REQUEST, ANSWER, job_key=text)


@pytest.mark.parametrize("actual", [-1.0, math.nan, math.inf])
def test_an_outcome_that_cannot_be_is_refused(actual: float, repository: Repository) -> None:
    with pytest.raises(UsageError, match="no amount"):
        repository.predictions.record_outcome("job", Quantity.WALLTIME, actual)
    with pytest.raises(UsageError, match="key of a job"):
        repository.predictions.record_outcome("", Quantity.WALLTIME, 1.0)


def test_storing_never_fails_an_estimate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "taken").write_text("no database at all")
    (tmp_path / "file").touch()
    for url in (f"sqlite:///{tmp_path / 'taken'}", f"sqlite:///{tmp_path / 'file' / 'below.sqlite'}"):
        caplog.clear()
        assert not Predictions(Database(url)).store(REQUEST, ANSWER)
        assert "The prediction of some could not be stored" in caplog.text


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    file = tmp_path / "presage.sqlite"
    assert Predictions(Database(f"sqlite:///{file}")).find() == []
    assert Predictions(Database(f"sqlite:///{file}")).accuracy() == []
    assert not file.exists()

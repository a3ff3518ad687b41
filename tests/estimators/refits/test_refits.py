from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import func, select

from presage.database import Database
from presage.errors import InputError
from presage.estimators import Basis, Estimate, EstimateRequest, Quantity, Spread
from presage.estimators.asking import ask
from presage.estimators.plugins import Kind
from presage.estimators.refits.fitting import UNCORRECTED, fit_correction, is_better
from presage.estimators.refits.kinds import JobKind, kind_of
from presage.estimators.refits.refitting import Refitting, Trigger
from presage.estimators.repository import Repository, State
from presage.estimators.repository._tables import Outcome, StoredPrediction
from presage.estimators.workloads import TrainingWorkload
from presage.testing.estimators import make_script_request, make_target, make_training_request

REQUEST = make_training_request(Quantity.WALLTIME)
MODEL = ask(REQUEST)
assert isinstance(REQUEST.workload, TrainingWorkload)
NETWORK = REQUEST.workload


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    database = Database(f"sqlite:///{tmp_path / 'presage.sqlite'}")
    yield Repository(database, tmp_path / "estimators")
    database.close()


def kind(request: EstimateRequest = REQUEST) -> JobKind:
    found = kind_of(request)
    assert found is not None
    return found


def happen(repository: Repository, ratios: list[float], request: EstimateRequest = REQUEST) -> list[Refitting]:
    """Let jobs take so many times what the model says; returns what was fitted on the way."""
    done: list[Refitting] = []
    first, model_s = _outcomes(repository), ask(request).spread.p50
    answer = ask(request, repository=repository)
    for number, ratio in enumerate(ratios, start=first):
        repository.predictions.store(request, answer, job_key=f"job-{number}")
        repository.predictions.record_outcome(f"job-{number}", Quantity.WALLTIME, ratio * model_s)
        found = repository.refits.consider(kind(request), Quantity.WALLTIME) if number >= first + 9 else None
        if found is not None:
            done.append(found)
            answer = ask(request, repository=repository)
    assert repository.refits.consider(kind(request), Quantity.WALLTIME) is None
    return done


def _outcomes(repository: Repository) -> int:
    with repository.database.reading() as session:
        return session.scalar(select(func.count()).select_from(Outcome)) or 0


def noisy(seed: int, middle: float, count: int, scatter: float = 0.1) -> list[float]:
    return list(middle * np.exp(np.random.default_rng(seed).normal(0, scatter, count)))


def test_a_correction_is_the_median_ratio_drawn_towards_one_by_a_job() -> None:
    pairs = [(Spread(80, 100, 125), actual) for actual in (150.0, 150.0, 150.0)]
    correction = fit_correction(pairs)
    assert correction is not None
    assert correction.factor == pytest.approx(1.5 ** (3 / 4))
    corrected = correction.applied(Spread(80, 100, 125))
    assert corrected.p50 == pytest.approx(100 * 1.5**0.75)
    assert corrected.p10 < corrected.p50 < 150 < corrected.p90
    assert correction.applied(Spread(0, 0, 5)) == Spread(0, 0, 5)
    assert fit_correction([(Spread(0, 0, 5), 3.0), (Spread(1, 2, 3), 0.0)]) is None


def test_a_correction_holds_80_percent_of_what_comes_next() -> None:
    said = Spread(95, 100, 105)
    ratios = noisy(1, 1.5, 300, 0.3)
    correction = fit_correction([(said, 100 * ratio) for ratio in ratios[:60]])
    assert correction is not None
    corrected = correction.applied(said)
    held = np.mean([corrected.p10 <= 100 * ratio <= corrected.p90 for ratio in ratios[60:]])
    assert 0.7 < held < 0.9


@pytest.mark.parametrize("seed", range(8))
def test_noise_around_a_right_prediction_does_not_win(seed: int) -> None:
    said = Spread.around(100, math.exp(1.28 * 0.3))  # which is how the noise is spread
    pairs = [(said, 100 * ratio) for ratio in noisy(seed, 1.0, 20, 0.3)]
    correction = fit_correction(pairs[:13])
    assert correction is not None
    assert not is_better(correction, UNCORRECTED, pairs[13:])


def test_after_twenty_jobs_that_took_half_as_long_again_the_next_estimate_is_right(repository: Repository) -> None:
    done = happen(repository, noisy(0, 1.5, 20, 0.05))
    assert [(each.trigger, each.took_over) for each in done] == [(Trigger.JOBS, True)]
    assert (done[0].fitted_on, done[0].held_out) == (13, 7)
    answer = ask(REQUEST, repository=repository)
    assert answer.estimator == "refitted-walltime"
    assert answer.spread.p50 == pytest.approx(1.5 * MODEL.spread.p50, rel=0.1)
    assert answer.spread.p90 / answer.spread.p10 < MODEL.spread.p90 / MODEL.spread.p10
    assert "Corrected by what happened to 13 jobs like it: 1.4" in answer.notes[-1]
    assert (MODEL.basis, answer.basis) == (Basis.UNVERIFIED, Basis.MODELLED)
    assert answer.details["correction"]["before"] == MODEL.spread.as_dict()
    (entry,) = repository.versions.all("refitted-walltime")
    assert (entry.state, entry.manifest.kind) == (State.IN_CHARGE, Kind.FITTED)
    assert "on example/gpu-node (GPU) times 1.4" in entry.manifest.summary


def test_noise_takes_nothing_over_and_is_told(repository: Repository) -> None:
    done = happen(repository, noisy(3, 1.0, 20, 0.44))
    assert [(each.trigger, each.took_over) for each in done] == [(Trigger.JOBS, False)]
    assert "not surely better on the latest 7 jobs" in done[0].reason
    assert ask(REQUEST, repository=repository).spread == MODEL.spread
    assert repository.versions.all() == []
    assert repository.refits.all() == done


def test_a_drift_is_answered_before_twenty_jobs_and_forgets_what_was(repository: Repository) -> None:
    done = happen(repository, [*noisy(0, 1.5, 20, 0.05), *noisy(1, 3.0, 10, 0.05)])
    assert [each.trigger for each in done] == [Trigger.JOBS, Trigger.DRIFT]
    assert all(each.took_over for each in done)
    answer = ask(REQUEST, repository=repository)
    assert answer.spread.p50 == pytest.approx(3 * MODEL.spread.p50, rel=0.2)
    assert answer.details["correction"]["before"] == MODEL.spread.as_dict()


def test_other_networks_places_and_scripts_are_not_corrected(repository: Repository) -> None:
    happen(repository, [1.5] * 20)
    other = replace(REQUEST, workload=replace(NETWORK, model="another-network"))
    elsewhere = replace(REQUEST, target=replace(make_target(), system="elsewhere"))
    for request in (other, elsewhere):
        assert ask(request, repository=repository).estimator == "training-walltime"
    assert kind_of(make_script_request(Quantity.WALLTIME)) is None
    larger = replace(REQUEST, workload=replace(NETWORK, samples=6400))
    assert ask(larger, repository=repository).estimator == "refitted-walltime"


def test_each_version_keeps_the_others_corrections_and_is_rolled_back_alone(repository: Repository) -> None:
    other = replace(REQUEST, workload=replace(NETWORK, model="another-network"))
    (first,) = happen(repository, [1.5] * 20)
    (second,) = happen(repository, [0.5] * 10 + [0.5] * 10, other)[:1]
    versions = repository.versions
    for request in (REQUEST, other):
        assert ask(request, repository=repository).version == str(second.number)
    assert versions.roll_back("refitted-walltime") == str(first.number)
    assert ask(REQUEST, repository=repository).version == str(first.number)
    assert ask(other, repository=repository).estimator == "training-walltime"
    assert versions.roll_back("refitted-walltime") is None
    assert ask(REQUEST, repository=repository).spread == MODEL.spread


def test_nothing_takes_over_from_a_version_that_is_pinned(repository: Repository) -> None:
    (first,) = happen(repository, [1.5] * 20)
    repository.versions.put_in_charge("refitted-walltime", str(first.number), "pinned", pin=True)
    last = happen(repository, [6.0] * 10)[-1]
    assert not last.took_over
    assert last.reason.endswith(f"but {first.number} is pinned")
    assert ask(REQUEST, repository=repository).version == str(first.number)


def test_what_another_version_of_the_model_said_is_not_learned_from(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    from presage.estimators.training.walltime import TrainingWalltime

    happen(repository, [1.5] * 20)
    monkeypatch.setattr(TrainingWalltime, "version", "2")
    assert ask(REQUEST, repository=repository).estimator == "training-walltime"
    assert happen(repository, [1.0] * 5) == []


def test_estimators_that_somebody_added_answer_first(repository: Repository, tmp_path: Path) -> None:
    happen(repository, [1.5] * 20)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "estimator.toml").write_text(
        'api = 1\nname = "mine"\nversion = "1"\nquantity = "walltime"\nkind = "fitted"\n'
    )
    with pytest.raises(InputError, match="what Presage fits itself"):
        repository.add(str(folder))
    (folder / "estimator.toml").write_text(
        'api = 1\nname = "mine"\nversion = "1"\nquantity = "walltime"\nentrypoint = ["say"]\n'
    )
    repository.add(str(folder), in_charge=True)
    assert [each.name for each, _ in repository.estimators_for(Quantity.WALLTIME)][:2] == [
        "mine",
        "refitted-walltime",
    ]


def test_predictions_that_are_too_old_are_forgotten(repository: Repository) -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    kept = repository.predictions
    answer = Estimate(Quantity.WALLTIME, Spread(1, 2, 3), Basis.STATED, "somebody", "1")
    for days, key in ((10, None), (100, None), (10, "new"), (100, "settled"), (800, "ancient")):
        kept.store(REQUEST, answer, job_key=key, at=now - timedelta(days=days))
    for key, days in (("settled", 99), ("ancient", 799)):
        kept.record_outcome(key, Quantity.WALLTIME, 2.0, at=now - timedelta(days=days))
    assert kept.forget(now) == 2
    assert kept.forget(now) == 0
    assert {each.job_key for each in kept.find()} == {None, "new", "settled"}
    assert _outcomes(repository) == 1
    with repository.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(StoredPrediction)) == 3

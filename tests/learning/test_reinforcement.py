from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.environments import FEATURES, Windows
from presage.errors import InputError, UsageError
from presage.learning._machines_for_sb3 import MachinesForSb3, MeasuredOrder
from presage.learning.cases import Case
from presage.learning.imitation import imitate, moments_of
from presage.learning.networks import IS_THERE, QueueNetwork
from presage.learning.observed_rules import choose_by, play
from presage.learning.outcomes import Outcome
from presage.learning.reinforcement import PpoSettings, TrainedPpo, train_ppo
from presage.policies.queue_scorer import QueueScorer
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.guided import Decider
from presage.simulator.jobs import jobs_of
from presage.traces.workloads import make_model

SMALL = PpoSettings(
    decisions=256, imitated=200, passes=2, machines=4, slots=16, steps=16, updates=2, batch=32, epochs=2, width=8
)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def workload() -> Windows:
    return Windows(make_model("lublin").generate(400, seed=3), jobs=40, load=0.95)


def queues(seed: int, moments: int = 5, slots: int = 12) -> torch.Tensor:
    """Return observations of queues of different lengths, at least one job each."""
    rng = np.random.default_rng(seed)
    seen = rng.random((moments, slots, len(FEATURES))).astype(np.float32)
    there = np.arange(slots) < rng.integers(1, slots + 1, (moments, 1))
    seen[..., IS_THERE] = there
    return torch.from_numpy(seen * there[..., None])


def network(seed: int = 0) -> QueueNetwork:
    torch.manual_seed(seed)
    return QueueNetwork()


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_jobs_in_other_slots_get_the_same_logits(seed: int) -> None:
    seen, order = queues(seed), torch.from_numpy(np.random.default_rng(seed).permutation(12))
    with torch.no_grad():
        logits, value = network()(seen)
        moved, same = network()(seen[:, order])

    torch.testing.assert_close(moved, logits[:, order], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(same, value, atol=1e-5, rtol=1e-4)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_slots_without_a_job_change_nothing(seed: int) -> None:
    seen = queues(seed)
    rubbish = torch.rand(5, 20, len(FEATURES))
    rubbish[..., IS_THERE] = 0
    rubbish[:, :12] = torch.where(seen[..., IS_THERE, None] > 0, seen, rubbish[:, :12])
    with torch.no_grad():
        logits, value = network()(seen)
        longer, same = network()(rubbish)

    torch.testing.assert_close(longer[:, :12], logits, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(same, value, atol=1e-5, rtol=1e-4)
    assert (longer[:, 12:] < -1e7).all()


def test_other_jobs_in_the_queue_matter() -> None:
    seen = queues(1)
    other = seen.clone()
    other[0, 0, 0] += 1.0
    seen[0, 1, IS_THERE] = other[0, 1, IS_THERE] = 1
    with torch.no_grad():
        assert network()(seen)[0][0, 1] != network()(other)[0][0, 1]


def test_an_empty_queue_is_no_trouble() -> None:
    logits, value = network()(torch.zeros(2, 4, len(FEATURES)))

    assert torch.isfinite(logits).all()
    assert torch.isfinite(value).all()


def test_the_index_on_observations_makes_the_schedule_of_the_index() -> None:
    """The same jobs through the environment and through the engine of learned orders."""
    trace = make_model("lublin", {"estimate": "modal"}).generate(300, seed=1)
    jobs = jobs_of(trace, kill=True)
    workload = Windows(trace, jobs=len(jobs))
    known = RunForecasts.certain(jobs.limit_ms / 1000)
    case = Case("made", jobs, workload.draw(np.random.default_rng(0)).processors, np.zeros(300, np.int64), known)

    played = play(choose_by("index"), workload, 1, slots=300)
    assert played.slowdown == pytest.approx(Outcome.of(case, case.run(Decider(QueueScorer(), None))).slowdown)


def test_rewards_are_shares_of_what_the_smallest_area_first_costs(workload: Windows) -> None:
    """Who chooses as the yardstick does gets -1 for each episode."""
    machines = MachinesForSb3(MeasuredOrder(workload, 3, slots=40))
    machines.seed(7)
    seen, totals = machines.reset(), []
    while len(totals) < 5:
        mask = np.stack(machines.env_method("action_masks"))
        seen, _, done, infos = machines.step(choose_by("saf")(seen, mask))
        totals += [info["episode"]["r"] for info in infos if "episode" in info]
        assert [bool(info) for info in infos] == done.tolist()

    assert totals == pytest.approx([-1.0] * len(totals))


def test_machines_for_sb3_begin_alike_with_the_same_seed(workload: Windows) -> None:
    machines = MachinesForSb3(MeasuredOrder(workload, 3, slots=16))
    machines.seed(7)
    one, another = machines.reset(), machines.reset()
    machines.seed(7)

    np.testing.assert_array_equal(machines.reset(), one)
    assert (another != one).any()
    assert machines.has_attr("action_masks")
    assert machines.env_is_wrapped(object, indices=[0, 2]) == [False, False]


def test_what_is_imitated_are_whole_episodes(workload: Windows) -> None:
    vector = MeasuredOrder(workload, 2, slots=40)
    moments = moments_of(vector, "saf", 60, seed=3)

    assert len(moments) >= 60
    assert moments.to_come.max() <= 0
    assert moments.to_come[0] == pytest.approx(-1.0)
    assert moments.mask[np.arange(len(moments)), moments.chosen].all()
    soon = moments_of(vector, "saf", 60, seed=3, discount=0.5).to_come
    assert -1 < soon[0] < 0


def test_a_rule_is_imitated(workload: Windows) -> None:
    moments = moments_of(MeasuredOrder(workload, 8, slots=40), "sjf", 1000, seed=3)
    learner = network()
    by_chance = (learner.choose(moments.seen, moments.mask) == moments.chosen).mean()

    assert imitate(learner, moments, passes=15, seed=0) > max(0.85, by_chance + 0.2)


def test_the_same_seed_gives_the_same_network(workload: Windows) -> None:
    one, again, other = (
        train_ppo(workload, replace(SMALL, seed=seed, imitate=rule))
        for seed, rule in ((1, None), (1, None), (2, None))
    )

    assert weights(one) == weights(again)
    assert one.curve == again.curve
    assert weights(one) != weights(other)


def test_a_training_that_was_cut_off_goes_on_to_the_same_end(workload: Windows, tmp_path: Path) -> None:
    whole = train_ppo(workload, SMALL)
    train_ppo(workload, replace(SMALL, decisions=128), folder=tmp_path)
    resumed = train_ppo(workload, SMALL, folder=tmp_path)

    assert weights(resumed) == weights(whole)
    assert resumed.curve == whole.curve
    assert [line["decisions"] for line in whole.curve] == [0, 128, 256]
    lines = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()]
    assert lines == whole.curve


def test_ctrl_c_returns_the_last_whole_round(workload: Windows, tmp_path: Path) -> None:
    asked = []

    def impatient(_network: QueueNetwork) -> dict[str, float]:
        asked.append(1)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return {}

    cut = train_ppo(workload, SMALL, judge=impatient, folder=tmp_path)
    short = train_ppo(workload, replace(SMALL, decisions=128))

    assert cut.interrupted
    assert cut.about["decisions"] == 128
    assert weights(cut) == weights(short)
    assert weights(train_ppo(workload, SMALL, folder=tmp_path)) == weights(train_ppo(workload, SMALL))


def test_the_folder_of_another_training_is_refused(workload: Windows, tmp_path: Path) -> None:
    train_ppo(workload, replace(SMALL, decisions=128), folder=tmp_path)

    with pytest.raises(InputError, match="another training"):
        train_ppo(workload, replace(SMALL, seed=5), folder=tmp_path)
    for other in (replace(workload, load=0.5), replace(workload, processors=1024)):
        with pytest.raises(InputError, match="another training"):
            train_ppo(other, SMALL, folder=tmp_path)
    for damaged in ("{", "", "{}\n", '{"decisions": 0}\n'):
        (tmp_path / "curve.jsonl").write_text(damaged)
        with pytest.raises(InputError, match=r"curve\.jsonl"):
            train_ppo(workload, SMALL, folder=tmp_path)


def test_what_was_learned_elsewhere_is_where_it_begins(workload: Windows) -> None:
    first = train_ppo(workload, SMALL)
    before = weights(first)
    seen = []

    def remember(now: QueueNetwork) -> dict[str, float]:
        seen.append(weights(TrainedPpo(now)))
        return {}

    elsewhere = Windows(workload.trace, jobs=30, load=0.8)
    carried = train_ppo(elsewhere, replace(SMALL, decisions=128), start=first, judge=remember)

    assert seen[0] == before == weights(first)
    assert weights(carried) != before
    assert carried.about["starts_from"]["decisions"] == 256


def test_progress_tells_how_far_it_is(workload: Windows) -> None:
    told = []
    train_ppo(workload, SMALL, progress=lambda done, of, line: told.append((done, of, line["decisions"])))

    assert told == [(0, 256, 0), (128, 256, 128), (256, 256, 256)]


def test_a_file_keeps_what_was_learned(workload: Windows, tmp_path: Path) -> None:
    trained = train_ppo(workload, SMALL)
    trained.save(tmp_path / "learned.safetensors")
    loaded = TrainedPpo.load(tmp_path / "learned.safetensors")

    assert weights(loaded) == weights(trained)
    assert (loaded.about, loaded.curve) == (trained.about, trained.curve)
    assert loaded.play(workload, 3).slowdowns.tolist() == trained.play(workload, 3).slowdowns.tolist()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.safetensors").write_bytes(content)

    with pytest.raises(InputError, match="not a network"):
        TrainedPpo.load(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="no file"):
        TrainedPpo.load(tmp_path / "missing.safetensors")


@pytest.mark.parametrize(
    "wrong", [{"imitate": "sjff"}, {"decisions": 0}, {"machines": 0}, {"slots": 1}, {"width": 10, "heads": 4}]
)
def test_settings_that_learn_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        PpoSettings(**wrong)  # type: ignore[arg-type]


def weights(trained: TrainedPpo) -> dict[str, list[float]]:
    return {name: value.flatten().tolist() for name, value in trained.network.state_dict().items()}


def test_a_log_is_told_every_number_of_the_curve(workload: Windows) -> None:
    class Log:
        def __init__(self) -> None:
            self.told: list[tuple[int, dict[str, float | None]]] = []

        def tell(self, step: int, numbers: dict[str, float | None]) -> None:
            self.told.append((step, numbers))

    log = Log()
    trained = train_ppo(workload, replace(SMALL, decisions=128), log=log)  # type: ignore[arg-type]

    assert [{"decisions": step, **numbers} for step, numbers in log.told] == trained.curve

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from presage.errors import InputError, MissingDependencyError, PresageError, UsageError
from presage.synthesizers import SYNTHESIZERS, Privacy, Request, Training, load_synthesizer, sample
from presage.synthesizers.external._base import from_frame, to_frame
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace

pd = pytest.importorskip("pandas")

SMALL = {"pool": 150, "epochs": 1}
MODULES = {
    "sdv-ctgan": ("sdv", "sdv.single_table", "sdv.metadata"),
    "sdv-tvae": ("sdv", "sdv.single_table", "sdv.metadata"),
    "sdv-copula-gan": ("sdv", "sdv.single_table", "sdv.metadata"),
    "sdv-gaussian-copula": ("sdv", "sdv.single_table", "sdv.metadata"),
    "realtabformer": ("realtabformer",),
    "mostlyai": ("mostlyai", "mostlyai.engine"),
}


class Shuffler:
    """A library that learns rows by heart; some of those that it draws are no jobs."""

    def __init__(self, *_: Any, **options: Any) -> None:
        self.options = options

    def fit(self, frame: Any, **_: Any) -> None:
        self.frame = frame["jobs"] if isinstance(frame, dict) else frame
        assert isinstance(self.frame, pd.DataFrame)

    def sample(self, num_rows: int = 0, n_samples: int = 0, **_: Any) -> Any:
        count = num_rows or n_samples
        drawn = self.frame.iloc[np.random.randint(0, len(self.frame), count)].reset_index(drop=True)  # noqa: NPY002
        drawn.loc[0, "user"] = "_RARE_"
        drawn = drawn.astype({"run_s": object})
        drawn.loc[min(1, count - 1), "run_s"] = None
        return {"jobs": drawn} if num_rows else drawn


class Metadata:
    @staticmethod
    def load_from_dict(told: dict[str, Any]) -> dict[str, Any]:
        assert told["tables"]["jobs"]["columns"]["run_s"] == {"sdtype": "numerical"}
        assert told["tables"]["jobs"]["columns"]["cpus"] == {"sdtype": "categorical"}
        return told


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put libraries in place that are called like the real ones and have nothing to learn."""
    for name in {module for modules in MODULES.values() for module in modules}:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    table: Any = sys.modules["sdv.single_table"]
    for name in ("CTGAN", "TVAE", "CopulaGAN", "GaussianCopula"):
        setattr(table, f"{name}Synthesizer", Shuffler)
    for name, attribute, value in (
        ("sdv", "single_table", table),
        ("sdv.metadata", "Metadata", Metadata),
        ("realtabformer", "REaLTabFormer", Shuffler),
        ("mostlyai.engine", "TabularARGN", Shuffler),
    ):
        setattr(sys.modules[name], attribute, value)


def make_log(jobs: int = 240) -> Trace:
    rows = [
        make_job(
            90 * place,
            5,
            10.0 + 7 * (place % 60),
            cpus=(1, 8, 4)[place % 3],
            user=("ann", "bob")[place % 2],
            limit_s=(600.0, None)[place % 2],
        )
        for place in range(jobs)
    ]
    return make_trace(*rows, cpus=64)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("kind", MODULES)
class TestEveryLibrary:
    def test_it_learns_draws_and_is_kept_without_the_library(
        self, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = make_log()
        model = SYNTHESIZERS.get(kind).train(log, SMALL, Training(seed=3))
        assert model.name == kind
        model.save(tmp_path)
        for name in MODULES[kind]:
            monkeypatch.setitem(sys.modules, name, None)
        loaded = load_synthesizer(tmp_path)
        first, second = (sample(each, Request(jobs=200, seed=1)) for each in (model, loaded))
        assert first.jobs.equals(second.jobs)
        assert len(first) == 200
        assert set(first.jobs["user"]) <= {"u1", "u2"}
        assert set(first.jobs["cpus_req"]) <= {1.0, 4.0, 8.0}
        rows = set(log.jobs.select("cpus_alloc", "run_s", "limit_s").rows())
        assert set(first.jobs.select("cpus_alloc", "run_s", "limit_s").rows()) <= rows

    def test_it_tells_in_which_phase_it_is_and_that_it_cannot_go_on(self, kind: str) -> None:
        told: list[tuple[int, int, str]] = []
        synthesizer = SYNTHESIZERS.get(kind)
        synthesizer.train(make_log(), SMALL, Training(progress=lambda *each: told.append(each)))
        assert [done for done, _, _ in told] == [1, 2, 3]
        assert {total for _, total, _ in told} == {3}
        assert [words.partition(" ")[0] for _, _, words in told] == ["writing", "learning", "drawing"]
        assert synthesizer.step == "phase"
        assert "no early stop, no --resume" in synthesizer.notice

    def test_the_same_seed_gives_the_same_pool(self, kind: str) -> None:
        first, second, other = (
            SYNTHESIZERS.get(kind).train(make_log(), SMALL, Training(seed=seed))._arrays() for seed in (1, 1, 2)
        )
        for name, values in first.items():
            np.testing.assert_array_equal(values, second[name])
        assert any((values != other[name]).any() for name, values in first.items())

    def test_rows_that_are_no_jobs_are_counted_and_not_kept(self, kind: str) -> None:
        model = SYNTHESIZERS.get(kind).train(make_log(), SMALL)
        assert model.record["pool"] == 150
        assert model.record["unusable_rows"] >= 2

    def test_a_pool_repeats_a_row_only_after_all_were_drawn(self, kind: str) -> None:
        model = SYNTHESIZERS.get(kind).train(make_log(), SMALL)
        model.pool = model.pool.rows(np.arange(100))
        model.pool.numbers["run_s"][:] = np.arange(100)
        drawn = model.draw(250, 0, np.random.default_rng(0)).numbers["run_s"]
        assert sorted(drawn[:100]) == sorted(drawn[100:200]) == list(range(100))

    def test_privacy_is_refused(self, kind: str) -> None:
        with pytest.raises(UsageError, match="private"):
            SYNTHESIZERS.get(kind).train(make_log(), SMALL, Training(privacy=Privacy(8.0, 1e-3)))

    def test_a_damaged_pool_is_refused(self, kind: str, tmp_path: Path) -> None:
        model = SYNTHESIZERS.get(kind).train(make_log(), SMALL)
        model.pool.codes["user"][:] = 7
        model.save(tmp_path)
        with pytest.raises(InputError, match="damaged"):
            load_synthesizer(tmp_path)


@pytest.mark.parametrize("kind", MODULES)
def test_without_the_library_it_says_what_to_install(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MODULES[kind]:
        monkeypatch.setitem(sys.modules, name, None)
    extra = SYNTHESIZERS.spec(kind).extra
    with pytest.raises(MissingDependencyError, match=rf"presage\[{extra}\]"):
        SYNTHESIZERS.get(kind).train(make_log(), SMALL)


@pytest.mark.usefixtures("libraries")
def test_the_licence_of_sdv_is_told() -> None:
    kind = SYNTHESIZERS.get("sdv-tvae")
    assert "Business Source License" in kind.notice
    assert kind.train(make_log(), SMALL).record["notice"] == kind.notice
    assert "License" not in SYNTHESIZERS.get("mostlyai").notice


@pytest.mark.usefixtures("libraries")
def test_a_library_that_draws_no_jobs_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shuffler, "sample", lambda self, **_: self.frame.assign(user="nobody").head(5))
    with pytest.raises(InputError, match="drew no row"):
        SYNTHESIZERS.get("realtabformer").train(make_log(), SMALL)


def test_a_frame_leads_back_to_the_same_jobs() -> None:
    from presage.synthesizers import Columns

    columns = Columns.fit(make_log())
    table = columns.encode(make_log())
    again = from_frame(to_frame(table, columns), columns)
    for name, codes in table.codes.items():
        np.testing.assert_array_equal(again.codes[name], codes)
    for name, numbers in table.numbers.items():
        np.testing.assert_array_equal(again.numbers[name], numbers)


@pytest.mark.usefixtures("libraries")
def test_a_library_that_is_broken_is_told_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ImportError("its own dependency is missing", name="elsewhere")

    monkeypatch.setattr(Shuffler, "fit", broken)
    with pytest.raises(PresageError, match="installed but cannot be used: its own dependency"):
        SYNTHESIZERS.get("mostlyai").train(make_log(), SMALL)

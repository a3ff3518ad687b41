from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import pytest

from presage.errors import UsageError
from presage.estimators import UnsupportedError
from presage.estimators.history.sweeps import Run, RunError, fit_sweep, run_locally, run_sweep


def runs(law: object, grid: Sequence[dict[str, float]]) -> list[Run]:
    return [Run(point, law(**point)) for point in grid]  # type: ignore[operator]  # any function will do


SIZES = [{"n": n} for n in (1000.0, 2000.0, 4000.0, 8000.0, 16000.0)]


class TestFit:
    def test_a_power_law_is_found_and_carried_on(self) -> None:
        fit = fit_sweep(runs(lambda n: 3e-6 * n**1.7, SIZES))
        assert fit.law == "power"
        assert fit.predict({"n": 64_000}).p50 == pytest.approx(3e-6 * 64_000**1.7, rel=1e-6)

    def test_a_line_with_a_start_is_no_power_law(self) -> None:
        fit = fit_sweep(runs(lambda n: 20 + n / 500, SIZES))
        assert fit.law in {"linear", "quadratic"}
        assert fit.errors["power"] > 0.02
        assert fit.predict({"n": 64_000}).p50 == pytest.approx(148, rel=1e-3)

    def test_more_nodes_help_less_and_less(self) -> None:
        grid = [{"nodes": nodes, "n": n} for nodes in (1.0, 2.0, 4.0, 8.0) for n in (100.0, 200.0, 400.0)]
        fit = fit_sweep(runs(lambda nodes, n: 5 + n / nodes + 0.1 * n + 2 * math.log(nodes), grid))
        assert fit.law == "amdahl-1"
        assert fit.predict({"nodes": 32, "n": 800}).p50 == pytest.approx(
            5 + 800 / 32 + 80 + 2 * math.log(32), rel=1e-3
        )

    def test_it_is_less_sure_the_farther_it_goes(self) -> None:
        noise = iter((1, 1.1, 0.9, 1.05, 1))
        fit = fit_sweep(runs(lambda n: 3e-6 * n**1.7 * next(noise), SIZES))
        near, far = fit.predict({"n": 12_000}), fit.predict({"n": 1e7})
        assert far.p90 / far.p50 > near.p90 / near.p50 > 1

    def test_the_same_runs_in_any_order_give_the_same_answer(self) -> None:
        made = runs(lambda n: 20 + n / 500, SIZES)
        first, second = fit_sweep(made).predict({"n": 5e4}), fit_sweep(made[::-1]).predict({"n": 5e4})
        assert first.p50 == pytest.approx(second.p50)

    def test_runs_of_one_scale_and_runs_of_no_time_do_not_break_it(self) -> None:
        assert fit_sweep([Run({"n": 5}, 3.0)] * 4).predict({"n": 5}).p50 == pytest.approx(3.0, rel=0.01)
        assert fit_sweep([Run({"n": n}, 0.0) for n in (1, 2, 3)]).predict({"n": 9}).p50 < 1e-6

    def test_it_refuses_what_says_nothing(self) -> None:
        with pytest.raises(UnsupportedError, match="2 measured runs say nothing"):
            fit_sweep(runs(lambda n: n, SIZES[:2]))
        with pytest.raises(UsageError, match="not those of the other runs"):
            fit_sweep([*runs(lambda n: n, SIZES), Run({"m": 1}, 1.0)])
        with pytest.raises(UsageError, match="n is 0"):
            fit_sweep([Run({"n": 0}, 1.0)] * 3)
        with pytest.raises(UsageError, match="A run of nan s"):
            fit_sweep([Run({"n": 1}, math.nan)] * 3)
        with pytest.raises(UsageError, match="n is inf"):
            fit_sweep(runs(lambda n: n, SIZES)).predict({"n": math.inf})


class TestSweep:
    def test_short_runs_come_first_and_every_value_gets_its_turn(self) -> None:
        seen: list[list[str]] = []

        def runner(command: Sequence[str], limit_s: float) -> float:
            assert limit_s == 60
            seen.append(list(command))
            return float(command[2]) / float(command[4])

        told: list[tuple[int, int]] = []
        sweep = run_sweep(
            "run --n {n} --nodes {nodes}", {"n": [400, 100], "nodes": [1, 2]}, runner, limit_s=60,
            progress=lambda done, all_of_them: told.append((done, all_of_them)),
        )  # fmt: skip
        assert [(each[2], each[4]) for each in seen] == [("100", "2"), ("100", "1"), ("400", "2"), ("400", "1")]
        assert [run.seconds for run in sweep.runs] == [50, 100, 200, 400]
        assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
        assert sweep.left_out == ()

    def test_a_budget_ends_it_and_failures_are_told(self) -> None:
        def runner(command: Sequence[str], limit_s: float) -> float:
            if command[1] == "2":
                raise RunError("no memory")
            return min(50.0, limit_s)

        sweep = run_sweep("run {n}", {"n": [1, 2, 3, 4, 5]}, runner, budget_s=90)
        assert [(run.parameters["n"], run.seconds) for run in sweep.runs] == [
            (1, 50),
            (3, pytest.approx(40, abs=0.1)),
        ]
        assert [(point["n"], why) for point, why in sweep.left_out] == [
            (2, "no memory"), (4, "the budget of 90 s was spent"), (5, "the budget of 90 s was spent"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("template", "grid"),
        [("run", {"n": [1]}), ("run {n}", {}), ("run {m}", {"n": [1]}), ("run {n", {"n": [1]}),
         ("run '{n}", {"n": [1]}), ("run {n}", {"n": [0]}), ("run {n.x}", {"n.x": [1]}), ("run {}", {"": [1]})],
    )  # fmt: skip
    def test_templates_and_grids_that_do_not_fit_are_refused(
        self, template: str, grid: dict[str, list[float]]
    ) -> None:
        with pytest.raises(UsageError):
            run_sweep(template, grid, lambda *_: 1.0)

    def test_commands_run_here_are_timed_and_their_ends_told(self) -> None:
        assert 0 < run_locally([sys.executable, "-c", "pass"], 30) < 30
        with pytest.raises(RunError, match="status 3: gone"):
            run_locally([sys.executable, "-c", "import sys; print('gone', file=sys.stderr); sys.exit(3)"], 30)
        with pytest.raises(RunError, match=r"more than 0.2 s"):
            run_locally([sys.executable, "-c", "import time; time.sleep(9)"], 0.2)
        with pytest.raises(RunError, match="could not be started"):
            run_locally(["/nowhere/at/all"], 1)

"""Run time of a batch script, from its own past or else from the user's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError
from presage.estimators.history.limits import RUNS_TO_ADVISE, SURE_SHARE, USUAL_FACTOR, advised_limit_s
from presage.estimators.history.matching import Likeness, Match, matches, past_of
from presage.estimators.history.samples import Samples
from presage.estimators.spread import Spread
from presage.traces.schema import Outcome
from presage.wording import counted

if TYPE_CHECKING:
    from presage.estimators.workloads import ScriptWorkload, Target
    from presage.traces import Trace

LAST_TWO_FACTOR = 4.0
ENOUGH_OF_A_NAME = 5
CONTINUATION = "continuation"
"""The kind of a job that went on from the checkpoint of another: its run is the rest of one."""
_FULL_RUNS = (Outcome.COMPLETED.value, Outcome.TIMEOUT.value)


class HistoryWalltime(Estimator):
    """Run times of the same script; then what the model of scheduler behaviour expects; then the user's last two.

    Runs that failed or were cancelled tell nothing of how long a full one takes and are left out; runs that
    reached their limit are lower bounds. `details` has the level that matched, how many runs it rests on, `p95_s`
    and a limit to ask for, `suggested_s`.
    """

    name = "history-walltime"
    quantity = Quantity.WALLTIME

    def estimate(self, request: EstimateRequest) -> Estimate:
        workload, trace = past_of(request, self.knowledge)
        share = request.target.share if request.target else None
        found = list(matches(trace, workload, share))
        for match in found:
            if match.likeness is not Likeness.NAME and len(runs := full_runs(match.jobs)):
                return self._of_runs(runs, match)
        return self._without_own_past(request, workload, trace, found)

    @staticmethod
    def spread_of(jobs: pl.DataFrame) -> Spread | None:
        """Return the run time that follows from these jobs; None if none of them ran to its end."""
        runs = full_runs(jobs)
        if not len(runs):
            return None
        return Samples(runs["run_s"].to_list(), USUAL_FACTOR, _finite(runs["limit_s"].max())).spread()

    def _without_own_past(
        self, request: EstimateRequest, workload: ScriptWorkload, trace: Trace, found: list[Match]
    ) -> Estimate:
        for match in found:
            if match.likeness is Likeness.NAME and len(runs := full_runs(match.jobs)) >= ENOUGH_OF_A_NAME:
                return self._of_runs(runs, match)
        try:
            return self._by_model(workload, request.target, trace)
        except UnsupportedError as error:
            return self._last_two(trace, workload, error.problem)

    def _of_runs(self, runs: pl.DataFrame, match: Match) -> Estimate:
        timeouts = runs.filter(pl.col("outcome") == Outcome.TIMEOUT.value)
        lengths = runs["run_s"].to_list()
        most_s = _finite(runs["limit_s"].max())
        samples = Samples(lengths, USUAL_FACTOR, most_s)
        advised_s = advised_limit_s(lengths, timeouts["run_s"].to_list(), most_s)
        notes = [f"From {counted(len(runs), 'earlier run')} of the {match.likeness.value}"]
        if not match.same_size:
            notes.append("Some of them had another number of processors or GPUs")
        if len(timeouts):
            notes.append(f"{len(timeouts):,} of them reached the limit and would have run longer")
        if advised_s is None:
            notes.append(f"Too few to advise a limit, which takes {RUNS_TO_ADVISE}")
        details = {"level": match.likeness.value, "runs": len(runs), "timeouts": len(timeouts)}
        return self._answer(samples.spread(), samples.quantile(SURE_SHARE), advised_s, notes, details)

    def _by_model(self, workload: ScriptWorkload, target: Target | None, trace: Trace) -> Estimate:
        from presage.estimators.queue_model import new_job, queue_model

        if target is None:
            raise UnsupportedError("The model needs to know where the job would run")
        told = queue_model(trace)
        expected = told.forecast(new_job(workload, target)).run_s
        spread = Spread(max(expected.p10, 0.0), max(expected.p50, 0.0), max(expected.p90, 0.0))
        own = counted(len(full_runs(_own(trace, workload.user))), "job")
        notes = [
            "No earlier run of this script is known: this is what the model of scheduler behaviour expects",
            f"From {own} of the user and {counted(told.ended, 'job')} in all",
        ]
        sure_s = spread.quantile(SURE_SHARE)
        return self._answer(spread, sure_s, None, notes, {"level": "model", "model": told.version})

    def _last_two(self, trace: Trace, workload: ScriptWorkload, why: str) -> Estimate:
        runs = full_runs(_own(trace, workload.user))["run_s"].to_list()
        if not runs:
            raise UnsupportedError("The user has no earlier job that ran to its end")
        last = runs[-2:]
        expected_s = sum(last) / len(last)
        notes = [f"The mean of the user's last {counted(len(last), 'run')}, whatever they were; {why}"]
        spread = _around_last_two(expected_s, runs)
        details = {"level": "last two", "runs": len(last)}
        return self._answer(spread, spread.quantile(SURE_SHARE), None, notes, details)

    def _answer(
        self, spread: Spread, sure_s: float, advised_s: float | None, notes: list[str], details: dict[str, Any]
    ) -> Estimate:
        details = {**details, "p95_s": sure_s, "suggested_s": advised_s}
        return Estimate(self.quantity, spread, Basis.HISTORY, self.name, self.version, tuple(notes), details)


def full_runs(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs that ran to their own end or to their limit, or of which nobody says how they ended."""
    whole = pl.col("outcome").is_null() | pl.col("outcome").is_in(_FULL_RUNS)
    return jobs.filter(whole & (pl.col("run_s") > 0) & pl.col("kind").ne_missing(pl.lit(CONTINUATION)))


def _around_last_two(expected_s: float, runs: list[float]) -> Spread:
    """Return the spread that the same rule would have needed for the runs before."""
    ratios = [run / max((a + b) / 2, 1e-9) for a, b, run in zip(runs, runs[1:], runs[2:], strict=False)][-200:]
    if len(ratios) < ENOUGH_OF_A_NAME:
        return Spread.around(expected_s, LAST_TWO_FACTOR)
    past = Samples(ratios, LAST_TWO_FACTOR)
    return Spread(expected_s * min(past.quantile(0.1), 1.0), expected_s, expected_s * max(past.quantile(0.9), 1.0))


def _own(trace: Trace, user: str) -> pl.DataFrame:
    return trace.jobs.filter(pl.col("user") == user) if user else trace.jobs


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None

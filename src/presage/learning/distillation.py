"""Learned scorers made readable: as a short formula, and as weights of Slurm's multifactor priority.

Both are sought in two steps. First they imitate: queues are drawn from runs of the learned policy, and of each
two jobs, one of which was started there, they should put the same one first as the scorer does. Then the best few
run in full, as the cases are and at a high load, and the one with the lowest bounded slowdown wins. One run is
one draw, so several cases are better than one. What is lost is told as a ratio to the learned scorer's own bounded
slowdown. All goes by forecasts; a policy's watch over itself takes no part.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, UsageError
from presage.learning.decisions import Pairs, pairs_of, reads_at_submit, sample_decisions
from presage.learning.formulas import FACTORS, READS, Formula
from presage.learning.outcomes import Outcome
from presage.learning.static_rules import FIRST_COME, loads
from presage.policies.queue_scorer import AGEING_S, INPUTS, OF_THE_JOB, QueueScorer
from presage.simulator.guided import Decider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.learning.cases import Case
    from presage.learning.learned_policy import LearnedPolicy
    from presage.policies.queue_scorer import Guard

    Floats = NDArray[np.float64]

GRAMMAR = (
    (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0),
    (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0),
    (-1.0, -0.5, 0.0, 0.5, 1.0),
    (-0.5, 0.0, 0.5, 1.0),
    (-3.0, -2.0, -1.0, -0.5, 0.0),
    (-2.0, -1.0, -0.5, 0.0),
)
"""The powers that each of `FACTORS` may have."""
PRICE = 0.005
"""A factor must bring at least so much agreement to be worth reading."""
MAX_AGES_S = tuple(3600 * hours for hours in (6, 12, 24, 48, 96, 168))
POINTS = 1000
"""Of Slurm's priority, for a difference of 1 in the logarithm of an index."""
AGE_UNITS = 12
_LONGEST_WAIT_S = 60 * 86_400.0
_SHARE, _WAITED = OF_THE_JOB.index("share_of_machine"), OF_THE_JOB.index("log_waited")
_SCREENING_PAIRS, _SCREENED = 1000, 500
_CHUNK = 100


@dataclass(frozen=True)
class Sampling:
    """How many decisions are looked at, and how many imitations are run in full."""

    decisions: int = 400
    """Of all cases together."""
    pairs: int = 25
    """Of each decision."""
    finalists: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.decisions, self.pairs, self.finalists) < 1:
            raise UsageError(
                "Without decisions, pairs or finalists nothing is found", expected="at least 1 of each"
            )


@dataclass(frozen=True)
class CaseLoss:
    """Mean bounded slowdowns on one case, and whether nobody waits much longer than in line."""

    case: str
    learned: float
    distilled: float
    safe: bool

    @property
    def ratio(self) -> float:
        """Above 1 the readable form is worse."""
        return self.distilled / self.learned


def _as_dict(losses: tuple[CaseLoss, ...]) -> dict[str, Any]:
    return {"ratio": overall(losses), "cases": [{**asdict(each), "ratio": each.ratio} for each in losses]}


def overall(losses: Sequence[CaseLoss]) -> float:
    """Return the geometric mean of the ratios."""
    return float(np.exp(np.mean([np.log(each.ratio) for each in losses])))


@dataclass(frozen=True)
class Distilled:
    """A formula in the place of a scorer."""

    formula: Formula
    agreement: float
    """The share of pairs put in the same order; 0.5 is chance."""
    losses: tuple[CaseLoss, ...]

    @property
    def ratio(self) -> float:
        """The geometric mean, over cases, of its bounded slowdown to the scorer's."""
        return overall(self.losses)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {"formula": str(self.formula), "agreement": self.agreement, **_as_dict(self.losses)}


@dataclass(frozen=True)
class SlurmWeights:
    """A scorer as Slurm can express it: weights for slurm.conf, and a nice value for each job at its submit.

    Slurm knows a job's age and size; forecasts reach it as the nice value, set by who may lower it. Priorities are
    whole numbers; a higher one goes first.
    """

    age: int
    max_age_s: int
    job_size: int
    """Below 0, small jobs are favoured."""
    nice: tuple[int, ...]
    """Points for the logarithms of r, t, q and p of `presage.learning.formulas`."""
    offset: int
    """Taken off every nice value, so that priorities stay above 1, where Slurm would cut them."""
    agreement: float
    losses: tuple[CaseLoss, ...]

    @property
    def ratio(self) -> float:
        """The geometric mean, over cases, of its bounded slowdown to the scorer's."""
        return overall(self.losses)

    @property
    def nice_formula(self) -> str:
        """How the nice value of a job is computed."""
        points = [*zip(FACTORS, self.nice, strict=False)]
        terms = [f"{'-' if of_one < 0 else '+'} {abs(of_one)}·ln({name})" for name, of_one in points if of_one]
        return f"round({' '.join([*terms, f'- {self.offset}']).removeprefix('+ ')})"

    def nice_of(self, case: Case) -> NDArray[np.int64]:
        """Return the nice value of every job; none is above 0."""
        return np.minimum(np.round(_points(case, self.nice) - self.offset), 0).astype(np.int64)

    def lines(self) -> list[str]:
        """Return what to write into slurm.conf, with the nice value as a comment."""
        hours, seconds = divmod(self.max_age_s, 3600)
        return [
            "PriorityType=priority/multifactor",
            f"PriorityMaxAge={hours // 24}-{hours % 24:02d}:{seconds // 60:02d}:{seconds % 60:02d}",
            f"PriorityWeightAge={self.age}",
            f"PriorityWeightJobSize={abs(self.job_size)}",
            f"PriorityFavorSmall={'YES' if self.job_size < 0 else 'NO'}",
            f"# Nice value of each job at its submit: {self.nice_formula}",
        ]

    def scorer(self) -> QueueScorer:
        """Return the scorer that runs in the place of Slurm; see `slurm_weights` for what is approximate in it."""
        weights = np.zeros(len(OF_THE_JOB))
        weights[READS[: len(self.nice)]] = np.array(self.nice) / POINTS
        weights[_SHARE] = -self.job_size / POINTS
        hidden, out = _age_units(self.max_age_s)
        return QueueScorer(weights, hidden, -self.age / POINTS * out)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {"slurm_conf": self.lines(), "agreement": self.agreement, **_as_dict(self.losses)}


def distil_formula(
    policy: LearnedPolicy,
    cases: Sequence[Case],
    *,
    judged_on: Sequence[Case] | None = None,
    sampling: Sampling | None = None,
) -> Distilled:
    """Return the formula of the grammar that does best in the place of a scorer, behind the same guard.

    A formula that puts every pair in the same order is the scorer itself, and wins at once. The loss is that on
    `judged_on`, by default on the very cases, which flatters. Raises InputError if nobody ever waited there.
    """
    sampling = sampling or Sampling()
    pairs = _pairs(policy, cases, sampling)
    few = pairs.select(slice(None, None, max(1, len(pairs) // _SCREENING_PAIRS)))
    screened = [formula for formula, _ in _ranked(_all_formulas(), few)[:_SCREENED]]
    ranked = _ranked(screened, pairs)
    best = [each for each in ranked if each[1] == 1][:1] or ranked[: sampling.finalists]
    formula, agreement = best[_contest([each.scorer() for each, _ in best], policy.guard, cases)]
    losses = losses_of(policy, Decider(formula.scorer(), policy.guard), judged_on or cases)
    return Distilled(formula, agreement, losses)


def slurm_weights(
    policy: LearnedPolicy,
    cases: Sequence[Case],
    *,
    judged_on: Sequence[Case] | None = None,
    sampling: Sampling | None = None,
) -> SlurmWeights:
    """Return the weights of Slurm's multifactor priority that do best in the place of a scorer.

    For each longest age, and with the size of a job either in Slurm's own size factor or in the nice value, the
    points are fitted by least squares to the scorer's differences in pairs, and rounded. What a scorer reads of
    users and of what fits is not imitated: a site's fair share stays its own. What was run in the place of Slurm:
    no guard, for Slurm has none; EASY backfilling at every event, where Slurm backfills from time to time and
    recomputes priorities every few minutes; the share of processors as the size factor, where Slurm takes the
    mean of it and that of nodes; nice values that are not rounded; and the age factor min(1, w / longest age)
    as a sum of smooth steps, off by at most 0.04 of its weight. The loss is that on `judged_on`, by default on
    the very cases. Raises InputError if nobody ever waited there.
    """
    sampling = sampling or Sampling()
    pairs = _pairs(policy, cases, sampling)
    fits = [_fit(pairs, age_s, by_nice=by_nice) for age_s in MAX_AGES_S for by_nice in (True, False)]
    fits.sort(key=lambda fit: -fit.agreement)
    fits = fits[: sampling.finalists]
    fit = fits[_contest([each.scorer() for each in fits], None, cases)]
    highest = max(float(_points(case, fit.nice).max()) for case in cases)
    return SlurmWeights(
        fit.age, fit.max_age_s, fit.job_size, fit.nice,
        # Rounded up with room for jobs that are longer than any so far.
        offset=int(np.ceil(max(highest, 0.0) / 10_000) + 1) * 10_000,
        agreement=fit.agreement,
        losses=losses_of(policy, Decider(fit.scorer(), None), judged_on or cases),
    )  # fmt: skip


def _points(case: Case, nice: tuple[int, ...]) -> Floats:
    """Return the nice value of every job, before the offset."""
    points: Floats = reads_at_submit(case)[:, READS[: len(nice)]] @ np.array(nice, np.float64)
    return points


def _pairs(policy: LearnedPolicy, cases: Sequence[Case], sampling: Sampling) -> Pairs:
    if not cases:
        raise UsageError("There is nothing to distil a policy on", expected="at least one case")
    rng = np.random.default_rng(sampling.seed)
    decisions = [
        decision
        for case in cases
        for decision in sample_decisions(case, case.run(policy.decider), -(-sampling.decisions // len(cases)), rng)
    ]
    pairs = pairs_of(decisions, policy.scorer, sampling.pairs, rng)
    if not len(pairs):
        raise InputError(
            "There is nothing to imitate: no two jobs ever waited together",
            remedy="Use a longer log, or one of a busier machine",
        )
    return pairs


def _all_formulas() -> list[Formula]:
    """Return one formula of the grammar for each order that it can express: the simplest."""
    simplest: dict[tuple[float, ...], tuple[float, ...]] = {}
    for powers in product(*GRAMMAR):
        largest = max(map(abs, powers))
        if largest == 0:
            continue
        direction = tuple(round(power / largest, 6) for power in powers)
        if direction not in simplest or _oddity(powers) < _oddity(simplest[direction]):
            simplest[direction] = powers
    return [Formula(powers) for powers in simplest.values()]


def _oddity(powers: tuple[float, ...]) -> tuple[int, float]:
    return sum(abs(power) not in (0, 1) for power in powers), sum(map(abs, powers))


def _ranked(formulas: Sequence[Formula], pairs: Pairs) -> list[tuple[Formula, float]]:
    """Return the formulas with their agreement, first the one that agrees most for its length."""
    apart = np.ascontiguousarray((pairs.behind - pairs.ahead)[:, READS].T)  # (factors, pairs)
    powers = np.array([formula.powers for formula in formulas])
    chunks = range(0, len(powers), _CHUNK)
    agreements = np.concatenate([pairs.agreement(powers[at : at + _CHUNK] @ apart) for at in chunks])
    worth = agreements - PRICE * np.array([len(formula) for formula in formulas])
    return [(formulas[at], float(agreements[at])) for at in np.argsort(-worth, kind="stable")]


def _contest(scorers: Sequence[QueueScorer], guard: Guard | None, cases: Sequence[Case]) -> int:
    """Return which has the lowest bounded slowdown (its logarithm, over `loads`); an unsafe one if all are."""
    if len(scorers) == 1:
        return 0
    cases = [at_load for case in cases for at_load in loads(case)]
    first_come = [Outcome.of(case, case.run(FIRST_COME, "requested")) for case in cases]
    costs = []
    for scorer in scorers:
        outcomes = [Outcome.of(case, case.run(Decider(scorer, guard))) for case in cases]
        unsafe = not all(own.is_safe(line) for own, line in zip(outcomes, first_come, strict=True))
        costs.append((unsafe, float(np.mean([np.log(outcome.slowdown) for outcome in outcomes]))))
    return min(range(len(costs)), key=costs.__getitem__)


def losses_of(policy: LearnedPolicy, distilled: Decider, cases: Sequence[Case]) -> tuple[CaseLoss, ...]:
    """Run a policy and what stands in its place, both by forecasts, and return what each case loses."""
    losses = []
    for case in cases:
        learned, own = (Outcome.of(case, case.run(decider)) for decider in (policy.decider, distilled))
        line = Outcome.of(case, case.run(FIRST_COME, "requested"))
        losses.append(CaseLoss(case.name, learned.slowdown, own.slowdown, own.is_safe(line)))
    return tuple(losses)


def _fit(pairs: Pairs, max_age_s: int, *, by_nice: bool) -> SlurmWeights:
    """Return the points that imitate a scorer best for one longest age; nothing is known of losses yet."""
    logs = len(FACTORS) - 2
    kept = READS[:logs] if by_nice else np.append(READS[: logs - 1], _SHARE)
    apart = pairs.behind - pairs.ahead
    aged = _age(pairs.ahead[:, _WAITED], max_age_s) - _age(pairs.behind[:, _WAITED], max_age_s)
    columns = np.column_stack([apart[:, kept], aged])
    points = np.linalg.lstsq(columns, pairs.gap, rcond=None)[0]
    if points[-1] < 0:  # Slurm never lets a job lose by waiting.
        points = np.append(np.linalg.lstsq(columns[:, :-1], pairs.gap, rcond=None)[0], 0.0)
    whole = np.round(points * POINTS).astype(int).tolist()
    agreement = float(pairs.agreement(columns @ np.array(whole, np.float64)))
    nice = tuple(whole[:logs]) if by_nice else (*whole[: logs - 1], 0)
    return SlurmWeights(whole[-1], max_age_s, 0 if by_nice else -whole[logs - 1], nice, 0, agreement, ())


def _age(log_waited: Floats, max_age_s: float) -> Floats:
    """Return Slurm's age factor."""
    return np.minimum(1.0, np.expm1(log_waited) * AGEING_S / max_age_s)


def _age_units(max_age_s: float) -> tuple[Floats, Floats]:
    """Return hidden units, and what each of them adds, that sum up to the age factor less a constant."""
    top = np.log1p(max_age_s / AGEING_S)
    step = top / (AGE_UNITS - 2)
    middles = (np.arange(AGE_UNITS) + 0.5) * step
    waited = np.concatenate(
        [np.linspace(0, top, 400), np.linspace(top, np.log1p(_LONGEST_WAIT_S / AGEING_S), 200)]
    )
    steps = np.column_stack([np.tanh((waited[:, None] - middles) / step), np.ones(len(waited))])
    out = np.linalg.lstsq(steps, _age(waited, max_age_s), rcond=None)[0][:-1]
    hidden = np.zeros((AGE_UNITS, INPUTS + 1))
    hidden[:, _WAITED], hidden[:, -1] = 1 / step, -middles / step
    return hidden, out

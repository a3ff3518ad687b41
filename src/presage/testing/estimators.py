"""The contract of an estimator as tests, and requests to try one on."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from presage.clusters.charges import Share
from presage.clusters.gpus import find_gpu
from presage.clusters.systems import NodeType
from presage.errors import InputError, PresageError
from presage.estimators import (
    Basis,
    Estimate,
    EstimateRequest,
    Estimator,
    Quantity,
    ScriptWorkload,
    Target,
    TrainingOptions,
    TrainingWorkload,
    UnsupportedError,
)
from presage.estimators._base import UNITS
from presage.estimators.plugins.contract import (
    BrokenPluginError,
    read_answer,
    read_request,
    write_answer,
    write_request,
)
from presage.estimators.training.profile import MemoryParts, OperatorClass, StepProfile

GIB = 1 << 30
HOSTILE = (
    "",
    "a\nb\x00c\x1b[31m",
    "$(touch hostile) `id` ; rm -rf x | cat",
    "'); DROP TABLE predictions; --",
    "--help",
    "../../../etc/passwd",
    "\u202eright to left\u2028",
    "\ud800 is half a character",
    "😀" * 5000,
)
"""Text that a job may carry, and that must do no harm."""


def make_profile(batch: int = 32) -> StepProfile:
    """Return what a step of a small network takes: 2 TFLOP and 40 GB in two kinds of operators."""
    return StepProfile(
        digest="0" * 64,
        batch=batch,
        parameter_count=25_000_000,
        parameter_bytes=100_000_000,
        peak_bytes=3 * GIB,
        reserved_bytes=int(3.5 * GIB),
        parts=MemoryParts(100_000_000, 100_000_000, 200_000_000, 3 * GIB - 400_000_000),
        classes={
            "matmul": OperatorClass(calls=50, flops=2e12, bytes=10e9),
            "elementwise": OperatorClass(calls=200, flops=1e9, bytes=30e9),
        },
    )


def make_target(*, gpu: str | None = "a100-40") -> Target:
    """Return a node of an invented cluster, with one GPU of it or its 8 cores."""
    node = NodeType(
        "gpu-node", cores=48, memory_bytes=256 * GIB, core_gflops=50.0, memory_bandwidth_bytes_s=200e9,
        gpus=4 if gpu else 0, gpu=gpu or "",
    )  # fmt: skip
    share = Share(nodes=1, cores=8, gpus=1 if gpu else 0, memory_bytes=32 * GIB)
    return Target("example", "batch", node, share, gpu=find_gpu(gpu) if gpu else None, walltime_s=4 * 3600.0)


def make_training_request(
    quantity: Quantity, *, target: Target | None = None, options: TrainingOptions | None = None
) -> EstimateRequest:
    """Return a question about a training of 1,000 steps whose profile is known."""
    workload = TrainingWorkload(
        "example-network", ((3, 224, 224),), options=options or TrainingOptions(batch=32), samples=3200, epochs=10
    )
    return EstimateRequest(quantity, workload, target or make_target(), make_profile())


def make_script_request(quantity: Quantity, **members: Any) -> EstimateRequest:
    """Return a question about a script that nobody has seen before."""
    workload = ScriptWorkload("job.sh", ("--size", "3"), digest="ab" * 32, user="ada", walltime_s=7200.0)
    return EstimateRequest(quantity, replace(workload, **members), make_target(gpu=None))


class EstimatorContract:
    """What every estimator must promise: see `Estimator`. A subclass gives one as the fixture `estimator`."""

    answers: ClassVar[bool | None] = True
    """False: it has no answer to any of the requests here, and must say why; None: either."""

    @pytest.fixture
    def estimator(self) -> Estimator:
        """Return the estimator under test."""
        raise NotImplementedError

    def requests(self, quantity: Quantity) -> list[EstimateRequest]:
        """Return questions that an estimator of the quantity can expect; those with an answer come first."""
        unknown = replace(make_training_request(quantity), target=None, profile=None)
        return [
            make_training_request(quantity),
            make_training_request(quantity, target=make_target(gpu=None)),
            make_script_request(quantity),
            unknown,
        ]

    def test_it_says_what_it_is(self, estimator: Estimator) -> None:
        assert estimator.name
        assert estimator.version
        assert isinstance(estimator.quantity, Quantity)

    def test_its_answers_are_distributions_that_say_what_they_rest_on(self, estimator: Estimator) -> None:
        answered = [
            answer
            for request in self.requests(estimator.quantity)
            if (answer := answer_or_reason(estimator, request)) is not None
        ]
        assert self.answers in (None, bool(answered))
        for answer in answered:
            quantiles = (answer.spread.p10, answer.spread.p50, answer.spread.p90)
            assert all(math.isfinite(amount) for amount in quantiles)
            assert list(quantiles) == sorted(quantiles)
            assert answer.quantity is estimator.quantity
            assert (answer.estimator, answer.version) == (estimator.name, estimator.version)
            assert isinstance(answer.basis, Basis)
            assert all(isinstance(note, str) and note for note in answer.notes)

    def test_its_answers_go_through_json(self, estimator: Estimator) -> None:
        for request in self.requests(estimator.quantity):
            answer = answer_or_reason(estimator, request)
            if answer is None:
                continue
            document = write_answer(answer)
            told = json.loads(document)
            assert told["unit"] == UNITS[estimator.quantity]
            again = read_answer(
                document, quantity=estimator.quantity, estimator=answer.estimator, version=answer.version
            )
            assert again.spread == answer.spread
            assert json.loads(write_answer(again)) == told

    def test_the_same_request_has_the_same_answer_and_is_left_as_it_was(self, estimator: Estimator) -> None:
        for request in self.requests(estimator.quantity):
            before = copy.deepcopy(request)
            first = answer_or_reason(estimator, request)
            assert request == before
            again = answer_or_reason(estimator, read_request(write_request(request)))
            if first is None or again is None:
                assert first is again
            else:
                assert (first.spread, first.basis) == (again.spread, again.basis)

    def test_what_it_cannot_answer_it_says_with_a_reason(self, estimator: Estimator) -> None:
        other = next(each for each in Quantity if each is not estimator.quantity)
        unknown = replace(make_training_request(estimator.quantity), target=None, profile=None)
        for request in (unknown, make_script_request(other)):
            answer_or_reason(estimator, request)

    @pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
    def test_hostile_text_does_no_harm(self, estimator: Estimator, text: str) -> None:
        quantity = estimator.quantity
        training = make_training_request(quantity)
        assert isinstance(training.workload, TrainingWorkload)
        named = replace(training.workload, model=text, name=text)
        for request in (
            replace(training, workload=named),
            make_script_request(quantity, script=text, user=text, name=text, account=text, commit=text),
        ):
            answer_or_reason(estimator, request)


def answer_or_reason(estimator: Estimator, request: EstimateRequest) -> Estimate | None:
    """Return the answer, None if the estimator says with a reason that it has none. Nothing else may be raised.

    A reason may also be that what the request names, like the file of a model, cannot be used: an InputError, as
    no other estimator could use it either.
    """
    refusal: PresageError
    try:
        return estimator.estimate(request)
    except (UnsupportedError, InputError) as error:
        refusal = error
    assert not isinstance(refusal, BrokenPluginError), f"it is broken: {refusal}"
    assert refusal.problem.strip()
    return None

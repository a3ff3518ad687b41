from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.clusters.charges import Share
from presage.clusters.gpus import GpuModel
from presage.clusters.systems import NodeType
from presage.errors import InputError
from presage.estimators import (
    Basis,
    Estimate,
    EstimateRequest,
    Precision,
    Quantity,
    ScriptWorkload,
    Spread,
    Target,
    TrainingOptions,
    TrainingWorkload,
)
from presage.estimators.plugins.contract import (
    MAX_DOCUMENT_BYTES,
    read_answer,
    read_refusal,
    read_request,
    write_answer,
    write_refusal,
    write_request,
)
from presage.estimators.training.profile import MemoryParts, OperatorClass, StepProfile
from presage.testing.estimators import make_script_request, make_training_request

texts = st.text(max_size=20)
counts = st.integers(0, 2**62)
amounts = st.floats(0, allow_nan=False, allow_infinity=False)
maybe = st.none()
targets = st.builds(
    Target,
    node_type=st.builds(NodeType, name=texts, cores=counts, memory_bytes=counts, features=st.tuples(texts)),
    share=st.builds(Share, nodes=counts, cores=counts, gpus=counts, memory_bytes=maybe | counts),
    gpu=maybe
    | st.builds(GpuModel, name=texts, bandwidth_bytes_s=amounts, peak_flops=st.dictionaries(texts, amounts)),
    walltime_s=maybe | amounts | st.integers(0, 10**6),
    settings=st.dictionaries(texts, texts),
)
trainings = st.builds(
    TrainingWorkload,
    model=texts,
    inputs=st.lists(st.lists(counts).map(tuple), max_size=3).map(tuple),
    options=st.builds(TrainingOptions, batch=counts, precision=st.sampled_from(Precision)),
    samples=maybe | counts,
    epochs=maybe | amounts | st.integers(0, 1000),
)
scripts = st.builds(ScriptWorkload, script=texts, arguments=st.lists(texts).map(tuple), walltime_s=maybe | amounts)
profiles = st.builds(
    StepProfile,
    parts=st.builds(MemoryParts, counts, counts, counts, counts),
    classes=st.dictionaries(texts, st.builds(OperatorClass, counts, amounts, amounts), max_size=3),
    notes=st.lists(texts).map(tuple),
    extra=st.dictionaries(texts, amounts),
)
requests = st.builds(
    EstimateRequest, st.sampled_from(Quantity), trainings | scripts, maybe | targets, maybe | profiles
)


@given(requests)
def test_a_request_comes_back_equal_and_to_the_byte(request: EstimateRequest) -> None:
    document = write_request(request)
    again = read_request(document)
    assert again == request
    assert type(again.workload) is type(request.workload)
    assert write_request(again) == document


@given(
    st.lists(amounts, min_size=3, max_size=3).map(sorted),
    st.sampled_from(Basis),
    st.lists(texts, max_size=5).map(tuple),
    st.dictionaries(
        texts, st.recursive(st.none() | st.booleans() | amounts | texts | counts, st.lists, max_leaves=5)
    ),
)
def test_an_answer_comes_back_equal(
    quantiles: list[float], basis: Basis, notes: tuple[str, ...], details: dict[str, object]
) -> None:
    answer = Estimate(Quantity.WAIT, Spread(*quantiles), basis, "some", "1.2", notes, details)
    document = write_answer(answer)
    assert read_answer(document, quantity=Quantity.WAIT, estimator="some", version="1.2") == answer


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_what_is_no_document_is_an_input_error(document: bytes) -> None:
    with pytest.raises(InputError):
        read_request(document)
    with pytest.raises(InputError):
        read_answer(document, quantity=Quantity.WAIT, estimator="some", version="1")
    assert read_refusal(document)


def test_equal_amounts_are_written_alike() -> None:
    request = make_training_request(Quantity.MEMORY)
    assert request.target is not None
    whole = replace(request, target=replace(request.target, walltime_s=14_400))
    assert whole == request
    assert write_request(whole) == write_request(request)


@pytest.mark.parametrize(
    ("member", "value", "problem"),
    [
        ("api", 2, "api"),
        ("quantity", "beauty", "quantity"),
        ("workload", {"kind": "poem"}, "workload"),
        ("workload", {"script": "job.sh"}, "workload"),
        ("workload", {"kind": "script", "script": 7}, "workload.script.script"),
        ("workload", {"kind": "script", "script": "x", "walltime": 60}, "workload.script.walltime"),
        ("target", {"system": "here"}, "target.partition"),
        ("colour", "blue", "colour"),
    ],
)
def test_a_request_that_is_wrong_says_where(member: str, value: object, problem: str) -> None:
    document = json.loads(write_request(make_script_request(Quantity.WAIT)))
    with pytest.raises(InputError, match=problem):
        read_request(json.dumps({**document, member: value}).encode())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"p10": 3.0, "p50": 2.0}, "rising order"),
        ({"p10": -1.0}, "rising order"),
        ({"p90": float("nan")}, "p90"),
        ({"p90": float("inf")}, "p90"),
        ({"p50": "2"}, "p50"),
        ({"p50": None}, "p50"),
        ({"quantity": "memory"}, "about memory"),
        ({"basis": "gut feeling"}, "basis"),
        ({"notes": ["x"] * 51}, "notes"),
        ({"notes": "one"}, "notes"),
        ({"details": {"x": float("nan")}}, "cannot be used"),
        ({"details": []}, "details"),
        ({"details": {"x": "y" * MAX_DOCUMENT_BYTES}}, "bytes"),
    ],
)
def test_an_answer_that_is_none_says_why(change: dict[str, object], problem: str) -> None:
    good = {"quantity": "walltime", "p10": 1.0, "p50": 2.0, "p90": 3.0, "basis": "stated"}
    read_answer(json.dumps(good).encode(), quantity=Quantity.WALLTIME, estimator="some", version="1")
    with pytest.raises(InputError, match=problem):
        read_answer(json.dumps(good | change).encode(), quantity=Quantity.WALLTIME, estimator="some", version="1")


def test_an_answer_is_named_after_whom_was_asked_and_may_say_more() -> None:
    said = {
        "quantity": "wait",
        "p10": 1,
        "p50": 2,
        "p90": 3,
        "basis": "history",
        "estimator": "liar",
        "mood": "good",
    }
    answer = read_answer(json.dumps(said).encode(), quantity=Quantity.WAIT, estimator="some", version="4")
    assert (answer.estimator, answer.version, answer.spread) == ("some", "4", Spread(1.0, 2.0, 3.0))


@pytest.mark.parametrize("details", [{"x": float("inf")}, {"x": object()}, {"x": {1, 2}}])
def test_details_that_json_cannot_carry_are_an_input_error(details: dict[str, object]) -> None:
    answer = Estimate(Quantity.WAIT, Spread(1, 2, 3), Basis.STATED, "some", "1", (), details)
    with pytest.raises(InputError, match="some"):
        write_answer(answer)


def test_a_request_that_json_cannot_carry_is_an_input_error() -> None:
    with pytest.raises(InputError):
        write_request(make_script_request(Quantity.WAIT, script="\ud800"))
    endless = replace(make_script_request(Quantity.WAIT).workload, walltime_s=float("inf"))
    with pytest.raises(InputError):
        write_request(EstimateRequest(Quantity.WAIT, endless))
    with pytest.raises(InputError, match="bytes"):
        write_request(make_script_request(Quantity.WAIT, script="x" * MAX_DOCUMENT_BYTES))


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ((write_refusal("no profile"), b"log"), "no profile"),
        ((b"", b"one\ntwo\n"), "two"),
        ((b"{}", b"[1]", b"\x1b[31mred"), " [31mred"),
        ((b"", b""), "it gave no reason"),
        ((b"x" * 1000,), "x" * 500 + "…"),
        ((b"[" * 10**6, b"deep"), "[" * 500 + "…"),
    ],
)
def test_the_reason_of_a_refusal_is_found(texts: tuple[bytes, ...], reason: str) -> None:
    assert read_refusal(*texts) == reason

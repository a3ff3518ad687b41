from __future__ import annotations

from importlib.util import find_spec
from typing import Any, ClassVar

import pytest

from presage.synthesizers import SYNTHESIZERS
from presage.testing import SynthesizerContract

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
TWO_ROUNDS: dict[str, Any] = {"epochs": 2, "batch": 64}


class TestGaussianCopula(SynthesizerContract):
    name = "copula"
    settings: ClassVar[dict[str, Any]] = {"rounds": 8}
    bad_settings = ({"rounds": 1}, {"rounds": "many"})
    goes_on = False


@needs_torch
class TestTvae(SynthesizerContract):
    name = "tvae"
    settings: ClassVar[dict[str, Any]] = {**TWO_ROUNDS, "width": 16, "latent": 8}
    bad_settings = ({"epochs": 0}, {"rate": 0}, {"width": -4}, {"modes": 0})


@needs_torch
class TestCtgan(SynthesizerContract):
    name = "ctgan"
    settings: ClassVar[dict[str, Any]] = {**TWO_ROUNDS, "width": 16, "noise": 8}
    bad_settings = ({"epochs": 0}, {"rate": 0}, {"batch": 9}, {"modes": 0})


@needs_torch
class TestCopulaGan(SynthesizerContract):
    name = "copula-gan"
    settings: ClassVar[dict[str, Any]] = {**TWO_ROUNDS, "width": 16, "noise": 8}
    bad_settings = ({"epochs": 0}, {"rate": 0}, {"batch": 9})


class TestFittedLublin(SynthesizerContract):
    name = "lublin"
    goes_on = False


@needs_torch
class TestRowTransformer(SynthesizerContract):
    name = "row-transformer"
    settings: ClassVar[dict[str, Any]] = {**TWO_ROUNDS, "width": 16, "layers": 1, "heads": 2}
    bad_settings = ({"epochs": 0}, {"rate": 0})


@needs_torch
class TestDiffusion(SynthesizerContract):
    name = "diffusion"
    settings: ClassVar[dict[str, Any]] = {**TWO_ROUNDS, "width": 16, "layers": 1, "steps": 5}
    bad_settings = ({"epochs": 0}, {"rate": 0})


@needs_torch
class TestSequenceModel(SynthesizerContract):
    name = "sequence"
    settings: ClassVar[dict[str, Any]] = {**TWO_ROUNDS, "width": 8, "hidden": 16}
    bad_settings = ({"epochs": 0}, {"rate": 0})
    private_log = "crowd"


def test_every_kind_of_our_own_is_under_contract() -> None:
    tested = {each.name for each in SynthesizerContract.__subclasses__()}
    targets = {spec.name: spec.target for spec in SYNTHESIZERS.specs()}
    own = {name for name, at in targets.items() if at.startswith("presage.") and ".external." not in at}
    assert tested >= own

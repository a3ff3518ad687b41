"""A configuration of transformers becomes its network, with the inputs and labels that it is trained with."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from presage.errors import InputError, MissingDependencyError
from presage.estimators.training.sources import load_source

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # transformers warns of much that is its own

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99,
    "max_position_embeddings": 64,
}  # fmt: skip
BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"], **SMALL}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 32, "n_layer": 2, "n_head": 4,
        "vocab_size": 99, "n_positions": 64}  # fmt: skip
VIT = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "image_size": 32,
    "patch_size": 8,
    **SMALL,
}
BART = {
    "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "d_model": 32, "encoder_layers": 1,
    "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "vocab_size": 99, "encoder_layerdrop": 0.5,
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a configuration is never looked up elsewhere")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(os, "environ", dict(os.environ))


def written(path: Path, config: dict[str, Any]) -> str:
    path.write_text(json.dumps(config))
    return f"hf:{path}"


def step(spec: str, *inputs: tuple[int, ...]) -> tuple[Any, Any, dict[str, Any], Any]:
    """Return source, network, inputs and loss of a step on fake memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    source = load_source(spec, inputs)
    with torch.device("meta"):
        module = source.build()
    with FakeTensorMode(allow_non_fake_inputs=True):
        module = module.to_empty(device="cpu")
        source.tie(module)
        positional, named = source.example_inputs(2)
        loss = source.loss(module(*positional, **named), (positional, named))
        if loss is not None:
            loss.backward()
    return source, module, {name: tuple(getattr(each, "shape", ())) for name, each in named.items()}, loss


# Weights of the body of BERT: three tables with a norm, then two layers of attention and two products.
BODY = (99 + 64 + 2) * 32 + 64 + 2 * (4 * (32 * 32 + 32) + 64 + (32 * 64 + 64) + (64 * 32 + 32) + 64)


@pytest.mark.parametrize(
    ("head", "weights", "labels"),
    [
        ("BertForMaskedLM", BODY + 32 * 32 + 32 + 64 + 99, {"labels": (2, 16)}),
        ("BertForSequenceClassification", BODY + 32 * 32 + 32 + 32 * 2 + 2, {"labels": (2,)}),
        ("BertForTokenClassification", BODY + 32 * 2 + 2, {"labels": (2, 16)}),
        ("BertForQuestionAnswering", BODY + 32 * 2 + 2, {"start_positions": (2,), "end_positions": (2,)}),
    ],
)
def test_the_head_is_that_of_the_architecture(
    tmp_path: Path, head: str, weights: int, labels: dict[str, tuple[int, ...]]
) -> None:
    config = {**BERT, "architectures": [head]}
    _, module, inputs, loss = step(written(tmp_path / "config.json", config), (16,))
    assert type(module).__name__ == head
    assert sum(each.numel() for each in module.parameters()) == weights, "tied ones count once"
    assert inputs == {"input_ids": (2, 16), **labels}
    assert loss.shape == ()


@pytest.mark.parametrize(
    ("config", "inputs", "expected"),
    [
        (GPT2, ((16,),), {"input_ids": (2, 16), "labels": (2, 16)}),
        (VIT, (), {"pixel_values": (2, 3, 32, 32), "labels": (2,)}),
        (BART, ((16,), (8,)), {"input_ids": (2, 16), "labels": (2, 8)}),
    ],
)
def test_other_families(tmp_path: Path, config: Any, inputs: Any, expected: Any) -> None:
    _, _, made, loss = step(written(tmp_path / "config.json", config), *inputs)
    assert made == expected
    assert loss is not None


def test_a_folder_and_fields_in_the_spec(tmp_path: Path) -> None:
    written(tmp_path / "config.json", {**GPT2, "dtype": "bfloat16"})
    source, module, _, _ = step(f"hf:{tmp_path}?attention=eager&n_layer=1", (16,))
    assert len(module.transformer.h) == 1
    assert module.config._attn_implementation == "eager"
    assert next(module.parameters()).dtype == torch.float32, "the numbers of a training are an option of its own"
    assert load_source(f"hf:{tmp_path}?attention=sdpa&n_layer=1", ((16,),)).digest != source.digest
    assert "has no field 'n_layers'" in problem(f"hf:{tmp_path}?n_layers=3")
    assert "attention=fast is unknown" in problem(f"hf:{tmp_path}?attention=fast")


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
    bare = {name: each for name, each in BERT.items() if name != "architectures"}
    source, _, inputs, loss = step(written(tmp_path / "config.json", bare))
    assert inputs == {"input_ids": (2, 64)}
    assert loss is None
    assert source.notes == (
        "The configuration names no architecture: the network is without a head.",
        "Texts of 64 tokens were assumed.",
    )


def test_images_of_another_size_than_the_configuration_says(tmp_path: Path) -> None:
    source, module, inputs, _ = step(written(tmp_path / "config.json", VIT), (3, 64, 64))
    assert inputs["pixel_values"] == (2, 3, 64, 64)
    assert module.vit.embeddings.position_embeddings.shape[1] == 64 + 1
    assert "64x64" in source.notes[0]


def problem(spec: str, *inputs: tuple[int, ...]) -> str:
    with pytest.raises(InputError) as caught, torch.device("meta"):
        load_source(spec, inputs).example_inputs(2)
    return str(caught.value)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"hidden_size": 3}, "has no model_type"),
        ({"model_type": "brt"}, "Did you mean b"),
        ({**BERT, "architectures": ["BertForEverything"]}, "has no architecture 'BertForEverything'"),
        ({**BERT, "architectures": ["Trainer"]}, "has no architecture 'Trainer'"),
        ({**BERT, "architectures": ["GPT2LMHeadModel"]}, "no architecture for a configuration of bert"),
        ({**BERT, "hidden_size": 33}, "building the network of a configuration"),
        ({**BERT, "hidden_size": "wide"}, "building the network of a configuration"),
    ],
)
def test_configurations_that_cannot_be_used(tmp_path: Path, config: dict[str, Any], told: str) -> None:
    assert told in problem(written(tmp_path / "config.json", config))


def test_texts_longer_than_the_network(tmp_path: Path) -> None:
    assert "65 tokens is longer than the 64 positions" in problem(written(tmp_path / "config.json", BERT), (65,))


def test_code_beside_a_configuration_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "modeling.py").write_text("raise AssertionError('run')\n")
    config = {"model_type": "mine", "auto_map": {"AutoModel": "modeling.Mine", "AutoConfig": "modeling.Config"}}
    assert "code that comes with a configuration is not run" in problem(written(tmp_path / "config.json", config))


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("presage.estimators.training.sources.hf.version", missing)
    with pytest.raises(MissingDependencyError, match=r"presage\[hf\]"):
        load_source("hf:config.json")

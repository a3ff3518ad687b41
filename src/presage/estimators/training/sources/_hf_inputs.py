"""What a model of transformers is trained with: its inputs by their kind, its labels by its head."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from presage.errors import InputError
from presage.estimators.training.sources._base import InputForm

_USUAL_LENGTH = 512
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification", "ForAudioClassification",
                "ForVideoClassification", "ForMultipleChoice")  # fmt: skip
_LANGUAGE = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "WithLMHeadModel")
_MODALITIES = ("pixel_values", "input_features", "input_values")


def inputs_of(
    kind: Any, config: Any, forms: tuple[InputForm, ...], batch: int
) -> tuple[dict[str, torch.Tensor], list[str]]:
    """Return keyword arguments of a forward pass of the class `kind`, and what was assumed.

    Raises InputError for inputs that it cannot take. Attention masks are left out: nothing is padding.
    """
    takes = inspect.signature(kind.forward).parameters
    notes: list[str] = []
    given = list(forms)
    made: dict[str, torch.Tensor] = {}
    for name in _MODALITIES:
        if name in takes and (name == kind.main_input_name or _is_of_two(kind, takes)):
            made[name] = _sense(name, config, given, notes).tensor(batch)
    if "input_ids" in takes and (kind.main_input_name == "input_ids" or _is_of_two(kind, takes)):
        shape = _text_shape(kind, config, given, notes)
        made["input_ids"] = _whole(batch, shape, _vocabulary(config))
    wants_length = getattr(config, "is_encoder_decoder", False) and not given
    labels = _labels(kind, config, given, made, takes)
    if wants_length:
        notes += [f"Answers of {each.shape[1]} tokens were assumed." for each in labels.values() if each.dim() > 1]
    made |= labels
    if not made:
        raise InputError(
            f"What {kind.__name__} takes is unknown here", remedy="Build it in a Python file: FILE.py:FUNCTION"
        )
    return made, notes


def _is_of_two(kind: Any, takes: Any) -> bool:
    """Whether the network compares texts with something else, like CLIP."""
    return (
        "return_loss" in takes and "input_ids" in takes and kind.main_input_name in {"input_ids", "pixel_values"}
    )


def _sense(name: str, config: Any, given: list[InputForm], notes: list[str]) -> InputForm:
    fits = next((form for form in given if len(form.shape) == (1 if name == "input_values" else 2)), None)
    if name == "pixel_values":
        fits = next((form for form in given if len(form.shape) >= 3), None)
    if fits is not None:
        given.remove(fits)
        return InputForm(fits.shape)
    usual = _usual_shape(name, config)
    if usual is None:
        raise InputError(
            f"The configuration does not say how large its input {name} is",
            expected="the shape of each input, without the batch", remedy="Name it, for example 3x224x224",
        )  # fmt: skip
    notes.append(f"{name} of {'x'.join(map(str, usual))} were assumed.")
    return InputForm(usual)


def _usual_shape(name: str, config: Any) -> tuple[int, ...] | None:
    seen = getattr(config, "vision_config", None) or config
    size = getattr(seen, "image_size", None)
    if name == "pixel_values" and size:
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        return (getattr(seen, "num_channels", 3), height, width)
    positions = getattr(config, "max_source_positions", None)
    if name == "input_features" and positions:
        return (config.num_mel_bins, 2 * positions)
    return None


def _text_shape(kind: Any, config: Any, given: list[InputForm], notes: list[str]) -> tuple[int, ...]:
    text = config.get_text_config()
    sizes = (getattr(text, name, None) for name in ("max_position_embeddings", "n_positions"))
    most = next((size for size in sizes if isinstance(size, int) and size > 0), None)
    if given:
        shape = given.pop(0).shape
        rotary = any(getattr(text, name, None) for name in ("rope_parameters", "rope_scaling", "rope_theta"))
        relative = hasattr(text, "relative_attention_num_buckets")
        if most and shape[-1] > most and not rotary and not relative:
            raise InputError(
                f"A text of {shape[-1]} tokens is longer than the {most} positions of the network",
                expected=f"a length of at most {most}",
                remedy="Give a shorter length, or set the field of the configuration behind a question mark",
            )
    else:
        shape = (min(most or _USUAL_LENGTH, _USUAL_LENGTH),)
        notes.append(f"Texts of {shape[0]} tokens were assumed.")
    if kind.__name__.endswith("ForMultipleChoice") and len(shape) == 1:
        shape = (4, *shape)
    return shape


def _labels(
    kind: Any, config: Any, given: list[InputForm], made: dict[str, torch.Tensor], takes: Any
) -> dict[str, torch.Tensor]:
    name = kind.__name__
    first = next(iter(made.values()), None)
    if first is None:
        return {}
    batch = first.shape[0]
    tokens = made["input_ids"].shape[1:] if "input_ids" in made else None
    if _is_of_two(kind, takes):
        return {"return_loss": True}
    answer = given.pop(0).shape if given else None
    if getattr(config, "is_encoder_decoder", False) and "labels" not in takes:
        return {"decoder_input_ids": _whole(batch, answer or tokens or (_USUAL_LENGTH,), _vocabulary(config))}
    if name.endswith("ForQuestionAnswering") and "start_positions" in takes:
        return {each: _whole(batch, (), 1) for each in ("start_positions", "end_positions")}
    if "labels" not in takes:
        return {}
    if name.endswith(_CLASSIFIERS):
        if getattr(config, "num_labels", 2) == 1:
            return {"labels": torch.zeros((batch,))}
        return {
            "labels": _whole(
                batch, (), tokens[0] if tokens and name.endswith("MultipleChoice") else config.num_labels
            )
        }
    if name.endswith("ForTokenClassification") and tokens:
        return {"labels": _whole(batch, tokens, config.num_labels)}
    if name.endswith("ForSemanticSegmentation"):
        return {"labels": _whole(batch, tuple(first.shape[-2:]), config.num_labels)}
    if name.endswith(_LANGUAGE):
        return {"labels": _whole(batch, _answer_shape(config, answer, tokens), _vocabulary(config))}
    return {}


def _answer_shape(config: Any, answer: tuple[int, ...] | None, tokens: Any) -> tuple[int, ...]:
    if not getattr(config, "is_encoder_decoder", False):
        return tuple(tokens)
    most = getattr(config, "max_target_positions", None) or _USUAL_LENGTH
    return answer or tuple(tokens or (min(most, _USUAL_LENGTH),))


def _vocabulary(config: Any) -> int:
    return max(1, int(config.get_text_config().vocab_size))


def _whole(batch: int, shape: Any, below: int) -> torch.Tensor:
    return torch.randint(max(below, 1), (batch, *shape))

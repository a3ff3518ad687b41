"""A network by its configuration for transformers: `hf:config.json`. Nothing is downloaded."""

from __future__ import annotations

import importlib
import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from presage.errors import InputError, MissingDependencyError, PresageError, closest
from presage.estimators.training.sources._base import (
    Example,
    InputForm,
    ModelSource,
    canonical,
    digest_of,
    path_of,
    read_bytes,
    read_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

_MOST_BYTES = 16 << 20
_ATTENTIONS = ("eager", "sdpa")


class HfConfig(ModelSource):
    """A configuration as transformers saves it: a `config.json`, or the folder that holds one.

    `architectures` in it says which head the network has; without, it is the bare one. Options: `attention` (eager
    or sdpa), `architecture` (another head), and any field of the configuration.
    """

    def __init__(
        self, spec: str, forms: tuple[InputForm, ...] = (), options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(spec, forms, options)
        try:
            self._version = version("transformers")
        except PackageNotFoundError:
            raise MissingDependencyError(
                "transformers", extra="hf", purpose="Reading a configuration of transformers"
            ) from None
        path = path_of(spec)
        path = path / "config.json" if path.is_dir() else path
        self._document = read_json(read_bytes(path, most_bytes=_MOST_BYTES), str(path))
        self._attention = self.options.pop("attention", None)
        self._architecture = self.options.pop("architecture", None)
        self._check_options()
        self._config: Any = None
        self._class: Any = None

    @property
    def digest(self) -> str:
        own = [self._attention, self._architecture, self.options, [form.shape for form in self.forms]]
        return digest_of("hf", self._version, canonical(self._document), canonical(own))

    def build(self) -> torch.nn.Module:
        import torch

        transformers = _import_transformers()
        try:
            self._config = self._make_config(transformers)
            self._class = self._find_class(transformers)
            self._fit_config()
            keywords = {"dtype": torch.float32}
            if self._attention:
                keywords["attn_implementation"] = self._attention
            module = self._class._from_config(self._config, **keywords)
            _keep_all_layers(module)
        except PresageError:
            raise
        # A configuration is free text to transformers: its values end in any exception there is.
        except Exception as error:  # noqa: BLE001
            raise self.explain(error, "building the network of a configuration") from None
        return module.train()

    def example_inputs(self, batch: int) -> Example:
        from presage.estimators.training.sources._hf_inputs import inputs_of

        if self._class is None:
            import torch

            with torch.device("meta"):
                self.build()
        made, notes = inputs_of(self._class, self._config, self.forms, batch)
        self.notes = tuple(dict.fromkeys((*self.notes, *notes)))
        return (), made

    def loss(self, outputs: Any, inputs: Example) -> torch.Tensor | None:
        del inputs
        loss = getattr(outputs, "loss", None)
        return None if loss is None else loss.mean()

    def _check_options(self) -> None:
        if self._attention is not None and self._attention not in _ATTENTIONS:
            raise InputError(
                f"attention={self._attention} is unknown", expected=f"one of {', '.join(_ATTENTIONS)}"
            )
        if not isinstance(self._document.get("model_type"), str):
            raise InputError(
                f"{self.spec} has no model_type", expected="the config.json of a model of transformers"
            )

    def _make_config(self, transformers: Any) -> Any:
        fields = {name: value for name, value in self._document.items() if name != "auto_map"}
        kind = fields.pop("model_type")
        known = list(transformers.CONFIG_MAPPING.keys())
        if kind not in known:
            near = closest(kind, known)
            raise InputError(
                f"transformers {self._version} has no model of the type {kind!r}",
                expected="a model_type that it knows; code that comes with a configuration is not run",
                remedy=f"Did you mean {near}?" if near else "Build the network in a Python file: FILE.py:FUNCTION",
            )
        config = transformers.AutoConfig.for_model(kind, **fields)
        for name, value in self.options.items():
            if not hasattr(config, name):
                near = closest(name, [each for each in vars(config) if not each.startswith("_")])
                raise InputError(
                    f"A configuration of {kind} has no field {name!r}",
                    expected="attention, architecture, or a field of the configuration",
                    remedy=f"Did you mean {near}?" if near else "",
                )
            setattr(config, name, value)
        return config

    def _find_class(self, transformers: Any) -> Any:
        named = self._architecture or next(iter(self._document.get("architectures") or ()), None)
        if named is None:
            self.notes = (*self.notes, "The configuration names no architecture: the network is without a head.")
            mapping = transformers.MODEL_MAPPING
            if type(self._config) not in mapping:
                raise InputError(f"{self.spec} names no architecture", remedy="Add ?architecture=NAME")
            bare = mapping[type(self._config)]
            return bare[0] if isinstance(bare, tuple) else bare
        found: Any = getattr(transformers, str(named), None)
        is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
        if not is_model:
            raise InputError(
                f"transformers {self._version} has no architecture {named!r}",
                expected="the name of a PyTorch model class, like BertForMaskedLM",
            )
        if found.config_class is not None and not isinstance(self._config, found.config_class):
            raise InputError(
                f"{named} is no architecture for a configuration of {self._config.model_type}",
                expected=f"a configuration of {found.config_class.model_type}",
            )
        return found

    def _fit_config(self) -> None:
        """Set what training sets: no cache of keys and values, a padding token, images of the size given."""
        if hasattr(self._config, "use_cache"):
            self._config.use_cache = False
        text = self._config.get_text_config()
        if getattr(text, "pad_token_id", 0) is None:
            text.pad_token_id = 0
        image = next((form.shape for form in self.forms if len(form.shape) == 3), None)
        size = getattr(self._config, "image_size", None)
        if image is not None and isinstance(size, int) and image[1:] != (size, size):
            self._config.image_size = image[1] if image[1] == image[2] else list(image[1:])
            self.notes = (
                *self.notes,
                f"The network is built for images of {image[1]}x{image[2]}; its configuration says {size}.",
            )


def _import_transformers() -> Any:
    # Before the import, which reads them once.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    return importlib.import_module("transformers")


class _NeverBelow:
    """What no number drawn is below: with it for their probability, layers are never skipped at random.

    Whether to skip depends on a value, which a step that computes nothing does not have.
    """

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    @classmethod
    def __torch_function__(cls, *_arguments: Any, **_named: Any) -> bool:
        return False


def _keep_all_layers(network: torch.nn.Module) -> None:
    for holder in (network.config, *network.modules()):
        for name, value in list(vars(holder).items()):
            if name.endswith("layerdrop") and isinstance(value, float | int):
                vars(holder)[name] = _NeverBelow()

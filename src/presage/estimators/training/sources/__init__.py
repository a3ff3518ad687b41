"""How a network is named and becomes a torch module.

    train.py:build_model?layers=12      a function of a file, with arguments
    package.module:build_model          the same of an installed package
    hf:config.json?attention=eager      a configuration of transformers; nothing is downloaded
    onnx:model.onnx                     an exported graph
    keras:model.json                    a Keras model's own description

Meant for the subprocess that traces a step, because it runs the user's code and torch may abort. Naming a source
and taking its digest neither imports torch nor runs that code; `build` does both. Nothing is ever unpickled.
"""

from __future__ import annotations

from presage.estimators.training.sources._base import (
    SOURCES,
    Example,
    InputForm,
    ModelSource,
    load_source,
)

__all__ = ["SOURCES", "Example", "InputForm", "ModelSource", "load_source"]

"""A function of the user's own is found, called and, where it fails, explained in its own lines."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from presage.errors import InputError, PresageError, UnknownNameError, UnreadableSourceError
from presage.estimators.training.sources import SOURCES, InputForm, ModelSource, load_source
from presage.registry import Spec

torch = pytest.importorskip("torch")

TRAIN = """
    import torch
    from parts.blocks import block

    def build_model(layers=2, width=4, *, name="plain"):
        print("building", name)
        return torch.nn.Sequential(*[block(width) for _ in range(layers)])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x):
            return self.layer(x).reshape(7)

    def fails():
        return deeper(0)

    def deeper(number):
        return 1 / number

    def leaves():
        raise SystemExit(3)

    def nothing():
        pass

    WIDTH = 8

    if __name__ == "__main__":
        raise RuntimeError("this would train")
"""

BLOCKS = """
    import torch
    from .sizes import FACTOR

    def block(width):
        return torch.nn.Linear(width, width)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    write(tmp_path / "train.py", TRAIN)
    write(tmp_path / "parts" / "__init__.py", "")
    write(tmp_path / "parts" / "blocks.py", BLOCKS)
    write(tmp_path / "parts" / "sizes.py", "FACTOR = 1\n")
    write(tmp_path / "unrelated.py", "X = 1\n")
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in {"parts", "presage_source"}]:
        del sys.modules[name]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))


def problem(spec: str, *inputs: tuple[int, ...]) -> str:
    with pytest.raises(InputError) as caught:
        load_source(spec, inputs).build()
    return str(caught.value)


def test_a_function_is_called_with_what_the_spec_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = load_source(f"{folder}/train.py:build_model?layers=3&width=5&name=deep%20one", ((5,),))
    module = source.build()
    assert [tuple(layer.weight.shape) for layer in module] == [(5, 5)] * 3
    assert module.training
    (values,), named = source.example_inputs(6)
    assert module(values).shape == (6, 5)
    assert named == {}
    assert source.loss(module(values), ((values,), {})) is None
    told = capsys.readouterr()
    assert told.out == "", "standard output belongs to the answer"
    assert "building deep one" in told.err


def test_nothing_is_run_or_imported_before_it_is_built(folder: Path) -> None:
    script = f"""
        import sys
        from presage.estimators.training.sources import load_source
        print(len(load_source({str(folder / "train.py:build_model")!r}).digest), "torch" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["64", "False"]


@given(st.text(max_size=30), st.sampled_from(["", "hf:", "onnx:", "keras:", "file:", "a.py:"]))
@example("~nobody-of-that-name/train.py:build", "")
@settings(max_examples=150)
def test_no_name_ends_in_a_traceback(text: str, kind: str) -> None:
    with pytest.raises(PresageError):
        load_source(kind + text)


def test_a_module_of_the_working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    source = load_source("parts.blocks:block?width=7")
    assert source.build().in_features == 7
    assert problem("parts.blockz:block").startswith("There is no Python module named 'parts.blockz'")


def test_the_digest_is_of_all_that_the_file_is_made_of(folder: Path) -> None:
    spec = f"{folder}/train.py:build_model?layers=3"
    first = load_source(spec).digest
    (folder / "unrelated.py").write_text("X = 2\n")
    assert load_source(spec).digest == first
    assert load_source(f"{folder}/train.py:build_model?layers=4").digest != first
    (folder / "parts" / "sizes.py").write_text("FACTOR = 2\n")
    assert load_source(spec).digest != first, "two imports away"


def test_the_digest_does_not_depend_on_where_the_file_lies(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    write(other / "one.py", "def build():\n    pass\n")
    write(folder / "one.py", "def build():\n    pass\n")
    assert load_source(f"{other}/one.py:build").digest == load_source(f"{folder}/one.py:build").digest


def test_close_names_are_suggested(folder: Path) -> None:
    told = problem(f"{folder}/train.py:build_modle")
    assert "defines nothing named 'build_modle'" in told
    assert "Did you mean train.py:build_model" in told
    with pytest.raises(UnreadableSourceError, match=r"Did you mean .*train\.py"):
        load_source(f"{folder}/tra1n.py:build_model")
    assert "names no function" in problem(f"{folder}/train.py")
    with pytest.raises(UnknownNameError):
        SOURCES.get("onxx")


def test_failures_show_the_lines_of_the_user(folder: Path) -> None:
    told = problem(f"{folder}/train.py:fails")
    assert told.startswith("ZeroDivisionError: division by zero, while calling fails (")
    assert "train.py, line 18, in fails: return deeper(0); train.py, line 21, in deeper: return 1 / number" in told
    assert "python_file.py" not in told
    assert "SystemExit" in problem(f"{folder}/train.py:leaves")
    assert "returned nothing (None)" in problem(f"{folder}/train.py:nothing")
    assert "line 26: def nothing():" in problem(f"{folder}/train.py:nothing")
    assert "WIDTH in train.py is a int" in problem(f"{folder}/train.py:WIDTH")


def test_wrong_arguments_show_the_signature(folder: Path) -> None:
    told = problem(f"{folder}/train.py:build_model?depth=3")
    assert "unexpected keyword argument 'depth'" in told
    assert 'train.py, line 5: def build_model(layers=2, width=4, *, name="plain"):' in told
    for spec in ("train.py:build_model?layers", "train.py:build_model?layers=1&layers=2"):
        assert "is no new argument" in problem(f"{folder}/{spec}")


def test_a_file_that_cannot_be_imported(folder: Path) -> None:
    write(folder / "broken.py", "def build():\n    return (1,\n")
    assert "broken.py, line 2, is not Python" in problem(f"{folder}/broken.py:build")
    write(folder / "needs.py", "import no_such_package\n\ndef build():\n    pass\n")
    told = problem(f"{folder}/needs.py:build")
    assert "needs.py, line 1" in told
    assert "Install no_such_package" in told
    write(folder / "trains.py", "import sys\n\ndef build():\n    pass\n\nsys.exit(0)\n")
    assert '__name__ == "__main__"' in problem(f"{folder}/trains.py:build")
    (folder / "binary.py").write_bytes(b"\x00\xff" * 50)
    assert "is not Python" in problem(f"{folder}/binary.py:build")
    write(
        folder / "arguments.py",
        "import argparse\nargparse.ArgumentParser().parse_args()\n\ndef build():\n    pass\n",
    )
    assert "returned nothing" in problem(f"{folder}/arguments.py:build"), "the command line is not the user's"


def test_what_a_forward_pass_raises_can_be_explained(folder: Path) -> None:
    source = load_source(f"{folder}/train.py:Net", ((3,),))
    module = source.build()
    with pytest.raises(RuntimeError) as caught:
        module(*source.example_inputs(2)[0])
    told = str(source.explain(caught.value, "running the network forward"))
    assert (
        "while running the network forward (train.py, line 15, in forward: return self.layer(x).reshape(7))"
        in told
    )


@pytest.mark.parametrize(
    ("loss", "outputs"),
    [
        ("torch.nn.CrossEntropyLoss()", (4, 3)),
        ("torch.nn.functional.cross_entropy", (4, 3, 5)),
        ("torch.nn.MSELoss()", (4, 3)),
        ("torch.nn.functional.l1_loss", (4,)),
        ("torch.nn.BCEWithLogitsLoss()", (4, 3)),
        ("lambda outputs: outputs.sum()", (4, 3)),
        ("lambda outputs, inputs: (outputs.sum() + inputs.sum()).reshape(1)", (4, 3)),
    ],
)
def test_a_loss_that_comes_with_the_network(folder: Path, loss: str, outputs: tuple[int, ...]) -> None:
    write(folder / "own.py", f"import torch\n\ndef build():\n    return torch.nn.Linear(3, 3), {loss}\n")
    source = load_source(f"{folder}/own.py:build", ((3,),))
    source.build()
    value = source.loss(torch.ones(outputs, requires_grad=True), ((torch.ones(2),), {}))
    assert value is not None
    assert value.shape == ()
    value.backward()


@pytest.mark.parametrize(
    ("loss", "told"), [("3", "The loss that build returned is a int"), ("lambda o: o", "The loss is a Tensor")]
)
def test_a_loss_that_is_none(folder: Path, loss: str, told: str) -> None:
    write(folder / "own.py", f"import torch\n\ndef build():\n    return torch.nn.Linear(3, 3), {loss}\n")
    source = load_source(f"{folder}/own.py:build", ((3,),))

    def learn() -> None:
        source.build()
        source.loss(torch.ones(4), ((), {}))

    with pytest.raises(InputError, match=told):
        learn()


@pytest.mark.parametrize(
    ("inputs", "shapes"),
    [
        ("torch.zeros(2, 3)", ([(5, 3)], {})),
        ("(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))", ([(5, 3), (5,)], {})),
        ("{'x': torch.zeros(2, 3)}", ([], {"x": (5, 3)})),
        ("lambda batch: {'x': torch.zeros(batch, 9)}", ([], {"x": (5, 9)})),
    ],
)
def test_inputs_that_come_with_the_network(folder: Path, inputs: str, shapes: tuple[Any, Any]) -> None:
    write(folder / "own.py", f"import torch\n\ndef build():\n    return torch.nn.Linear(3, 3), None, {inputs}\n")
    source = load_source(f"{folder}/own.py:build")
    with torch.device("meta"):
        source.build()
    positional, named = source.example_inputs(5)
    assert ([tuple(each.shape) for each in positional], {k: tuple(v.shape) for k, v in named.items()}) == shapes


def test_inputs_that_nobody_named(folder: Path) -> None:
    source = load_source(f"{folder}/train.py:build_model")
    source.build()
    with pytest.raises(InputError, match="Nothing says what the network"):
        source.example_inputs(2)


def test_shapes_and_kinds_of_inputs() -> None:
    spec = f"{__file__}:write"
    forms = load_source(spec, ((3, 4), (5,)), ("float", "int:9")).forms
    assert forms == (InputForm((3, 4)), InputForm((5,), 9))
    values = forms[1].tensor(100)
    assert values.shape == (100, 5)
    assert set(values.flatten().tolist()) == set(range(9))
    for inputs, kinds in [
        (((3,),), ("float", "float")),
        (((0,),), ()),
        (((3,),), ("int",)),
        (((3,),), ("int:0",)),
    ]:
        with pytest.raises(InputError):
            load_source(spec, inputs, kinds)


def test_shared_weights_become_one_again() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
            self.tie_weights()

        def tie_weights(self) -> None:
            self.b.weight = self.a.weight

    with torch.device("meta"):
        module = Tied()
    module = module.to_empty(device="cpu")
    load_source(f"{__file__}:write").tie(module)
    assert len(list(module.parameters())) == 3


def test_another_package_may_add_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SOURCES, "_specs", dict(SOURCES._specs))
    SOURCES.register(Spec("tiny", f"{__name__}:Tiny", "one layer"))
    source = load_source("tiny:3?bias=false", ((3,),))
    assert source.build().bias is None
    assert source.digest == "3"


class Tiny(ModelSource):
    """One layer of the size in the spec."""

    @property
    def digest(self) -> str:
        return self.spec

    def build(self) -> Any:
        return torch.nn.Linear(int(self.spec), 1, **self.options)

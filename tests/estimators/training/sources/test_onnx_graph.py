"""An exported graph computes what the network it came from computes, and is trained like it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from presage.errors import InputError, MissingDependencyError, UnreadableSourceError
from presage.estimators.training.sources import load_source

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812


class Attention(nn.Module):
    """Sizes read off tensors at run time, as exporters see them: Shape, Gather, Concat, Reshape."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(50, width)
        self.places = nn.Parameter(torch.randn(1, 32, width))
        self.project = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens) + self.places[:, : tokens.shape[1]]
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.norm(x + (scores @ v).transpose(1, 2).reshape(batch, length, width))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8), nn.Hardswish())
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(self.stem(images), 3, 2, 1)
        return self.head(x + self.deep(x))


class UpAndDown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 2, stride=2)
        self.up = nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, output_padding=1)
        self.slope = nn.PReLU(4)
        self.last = nn.Conv2d(8, 2, (1, 3), padding=(0, 1), dilation=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.pad(self.slope(self.up(self.down(images))), (1, 0, 0, 1), mode="reflect")
        y = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        z = F.avg_pool2d(F.interpolate(x, scale_factor=2.0, mode="nearest"), 2, count_include_pad=False)
        z = F.interpolate(z, size=y.shape[-2:], mode="nearest")
        return self.last(torch.cat([F.elu(y), torch.clamp(z, -1, 1)], 1))


class Recurrent(nn.Module):
    def __init__(self, kind: str, *, both: bool = False) -> None:
        super().__init__()
        self.cells = getattr(nn, kind)(6, 5, num_layers=2, batch_first=True, bidirectional=both)
        self.head = nn.Linear(10 if both else 5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0].mean(1))


class Arithmetic(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        first, second = x.chunk(2, -1)
        y = torch.where(first > second, first.exp().log1p(), second.abs().sqrt()) ** 2
        z = torch.stack([y.flip(1), y.cumsum(1)], 1)[:, :, 1::2]
        return torch.einsum("bcij,bkij->bck", z, z), x.topk(2, -1)[0].amax(1), (x.std(-1) % 0.3).squeeze()


def export(model: nn.Module, inputs: tuple[Any, ...], path: Path, **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, str(path), dynamo=False, **options)
    return f"onnx:{path}"


def open_batch(*names: str) -> dict[str, Any]:
    return {"input_names": list(names), "dynamic_axes": {name: {0: "batch"} for name in names}}


NETWORKS = {
    "attention": (Attention, torch.arange(14).reshape(2, 7)),
    "residual": (Residual, torch.randn(2, 3, 17, 17)),
    "up-and-down": (UpAndDown, torch.randn(2, 3, 8, 8)),
    "lstm": (lambda: Recurrent("LSTM"), torch.randn(2, 4, 6)),
    "lstm-both": (lambda: Recurrent("LSTM", both=True), torch.randn(2, 4, 6)),
    "gru": (lambda: Recurrent("GRU", both=True), torch.randn(2, 4, 6)),
    "rnn": (lambda: Recurrent("RNN"), torch.randn(2, 4, 6)),
    "arithmetic": (Arithmetic, torch.randn(2, 6, 8)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_graph_computes_what_its_network_does(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, example = NETWORKS[name]
    model = make().eval()
    spec = export(model, (example,), tmp_path / "m.onnx", do_constant_folding=True, **open_batch("x"))
    built = load_source(spec, (tuple(example.shape[1:]),)).build().eval()
    other = example.flip(0) if example.dtype == torch.long else torch.randn(3, *example.shape[1:])
    with torch.no_grad():
        torch.testing.assert_close(built(other), model(other), rtol=1e-4, atol=1e-5)


def test_an_open_length_is_followed_through_the_sizes(tmp_path: Path) -> None:
    model = Attention().eval()
    axes = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch", 1: "length"}}}
    spec = export(model, (torch.zeros(2, 7, dtype=torch.long),), tmp_path / "m.onnx", **axes)
    with pytest.raises(InputError, match=r"leaves open how large x \(\?x\?\)"):
        load_source(spec)
    built = load_source(spec, ((9,),)).build().eval()
    tokens = torch.randint(50, (4, 9))
    torch.testing.assert_close(built(tokens), model(tokens), rtol=1e-4, atol=1e-5)


def test_training_a_graph_is_training_its_network(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = Residual().train()
    images = torch.randn(4, 3, 16, 16)
    kept = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
    spec = export(model, (images,), tmp_path / "m.onnx", **kept, **open_batch("x"))
    built = load_source(spec).build()
    shapes = sorted(tuple(weight.shape) for weight in model.parameters())
    assert sorted(tuple(weight.shape) for weight in built.parameters()) == shapes
    torch.testing.assert_close(built(images), model(images), rtol=1e-4, atol=1e-5)
    before = {name: each.clone() for name, each in built.named_buffers()}
    built(images).square().mean().backward()
    assert all(weight.grad is not None for weight in built.parameters())
    changed = [name for name, each in built.named_buffers() if not torch.equal(each, before[name])]
    assert len(changed) == 2, "the running mean and variance of the one batch norm follow the batches"


@pytest.mark.parametrize("name", NETWORKS)
def test_a_graph_runs_where_nothing_is_computed(name: str, tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    make, example = NETWORKS[name]
    source = load_source(
        export(make().eval(), (example,), tmp_path / "m.onnx", **open_batch("x")), (tuple(example.shape[1:]),)
    )
    with torch.device("meta"):
        module = source.build()
    assert all(weight.is_meta for weight in module.parameters())
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert all(isinstance(weight, FakeTensor) for weight in source.build().parameters())
        module = module.to_empty(device="cpu")
        arguments, named = source.example_inputs(5)
        outputs = module(*arguments, **named)
    first = outputs[0] if isinstance(outputs, tuple) else outputs
    assert isinstance(first, FakeTensor)
    assert first.shape[0] == 5


def graph_file(
    path: Path, nodes: list[Any], inputs: dict[str, Any], weights: dict[str, Any], opset: int = 17
) -> str:
    """Write a graph whose last node gives `y`."""
    helper = onnx.helper
    kinds = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64}
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, kinds[kind], shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(each), name) for name, each in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    path.write_bytes(model.SerializeToString())
    return f"onnx:{path}"


def run_node(path: Path, operator: str, values: Any, *others: Any, opset: int = 17, **attributes: Any) -> Any:
    """Return what one operator makes of `values`, with `others` stored in the file."""
    names = [f"w{place}" for place in range(len(others))]
    node = onnx.helper.make_node(operator, ["x", *names], ["y"], **attributes)
    weights = dict(zip(names, others, strict=True))
    spec = graph_file(path, [node], {"x": ("f", [None, *values.shape[1:]])}, weights, opset)
    return load_source(spec).build().eval()(values)


ROW = torch.tensor([[-2.0, -0.5, 0.0, 0.5, 2.0, 4.0]])


@pytest.mark.parametrize(
    ("operator", "opset", "others", "attributes", "expected"),
    [
        ("Clip", 6, [], {"min": -1.0, "max": 1.0}, [-1, -0.5, 0, 0.5, 1, 1]),
        ("Clip", 17, [np.float32(-1), np.float32(1)], {}, [-1, -0.5, 0, 0.5, 1, 1]),
        ("LeakyRelu", 17, [], {"alpha": 0.5}, [-1, -0.25, 0, 0.5, 2, 4]),
        ("HardSigmoid", 17, [], {}, [0.1, 0.4, 0.5, 0.6, 0.9, 1]),
        ("Slice", 9, [], {"starts": [1], "ends": [3], "axes": [1]}, [-0.5, 0]),
        ("Slice", 17, [np.array([-1]), np.array([-7]), np.array([1]), np.array([-2])], {}, [4, 0.5, -0.5]),
        ("Pad", 10, [], {"pads": [0, 1, 0, 0], "value": 7.0}, [7, -2, -0.5, 0, 0.5, 2, 4]),
        ("Pad", 17, [np.array([0, 0, 0, 1])], {}, [-2, -0.5, 0, 0.5, 2, 4, 0]),
        ("ReduceSum", 11, [], {"axes": [1], "keepdims": 0}, [4]),
        ("ReduceSum", 17, [np.array([1])], {"keepdims": 0}, [4]),
        ("ReduceMean", 18, [np.array([1])], {}, [4 / 6]),
        ("ReduceL2", 17, [], {"axes": [1]}, [24.5**0.5]),
        ("Tile", 17, [np.array([1, 2])], {}, [-2, -0.5, 0, 0.5, 2, 4] * 2),
        ("Gather", 17, [np.array([-1, 0])], {"axis": 1}, [4, -2]),
        ("Gather", 17, [np.array(4)], {"axis": 1}, [2]),
        ("CumSum", 17, [np.array(1)], {"exclusive": 1, "reverse": 1}, [6, 6.5, 6.5, 6, 4, 0]),
        ("Mod", 17, [np.float32(3)], {"fmod": 1}, [-2, -0.5, 0, 0.5, 2, 1]),
        ("Softmax", 11, [], {}, torch.softmax(ROW, 1).flatten().tolist()),
        ("Dropout", 6, [], {"ratio": 0.9}, ROW.flatten().tolist()),
        ("Flatten", 17, [], {"axis": 0}, ROW.flatten().tolist()),
        ("Max", 17, [np.float32([1])], {}, [1, 1, 1, 1, 2, 4]),
    ],
)
def test_operators_of_old_and_new_sets(
    tmp_path: Path, operator: str, opset: int, others: list[Any], attributes: dict[str, Any], expected: list[float]
) -> None:
    made = run_node(tmp_path / "m.onnx", operator, ROW, *others, opset=opset, **attributes)
    torch.testing.assert_close(made.flatten(), torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize(("kind", "corner"), [("SAME_UPPER", 4.0), ("SAME_LOWER", 1.0), ("VALID", 4.0)])
def test_padding_that_keeps_the_size(tmp_path: Path, kind: str, corner: float) -> None:
    ones = torch.ones(1, 1, 5, 5)
    made = run_node(tmp_path / "m.onnx", "Conv", ones, np.ones((1, 1, 2, 2), np.float32), auto_pad=kind)
    assert made.shape[-1] == (4 if kind == "VALID" else 5)
    assert made[0, 0, 0, 0] == corner
    pooled = run_node(tmp_path / "p.onnx", "AveragePool", ones, auto_pad=kind, kernel_shape=[2, 2])
    assert torch.equal(pooled, torch.ones_like(pooled)), "what is padded is not counted"


@pytest.mark.parametrize(("make", "operators"), [(nn.SiLU, ["presage:Silu"]), (nn.GELU, ["Gelu"])])
def test_what_an_exporter_took_apart_is_one_again(tmp_path: Path, make: Any, operators: list[str]) -> None:
    values = torch.randn(3, 5)
    spec = export(make(), (values,), tmp_path / "m.onnx", opset_version=17, **open_batch("x"))
    apart = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node if node.op_type != "Constant"]
    assert len(apart) > 1
    built = load_source(spec).build()
    assert [node.operator for node in built._graph.nodes] == operators
    torch.testing.assert_close(built(values), make()(values), rtol=1e-3, atol=1e-5)


def test_a_sigmoid_that_is_needed_elsewhere_stays(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Sigmoid", ["x"], ["s"]),
        onnx.helper.make_node("Mul", ["x", "s"], ["m"]),
        onnx.helper.make_node("Sub", ["m", "s"], ["y"]),
    ]
    built = load_source(graph_file(tmp_path / "m.onnx", nodes, {"x": ("f", [None, 6])}, {})).build()
    assert [node.operator for node in built._graph.nodes] == ["Sigmoid", "Mul", "Sub"]
    torch.testing.assert_close(built(ROW), ROW * ROW.sigmoid() - ROW.sigmoid())


def test_depth_to_space_undoes_space_to_depth(tmp_path: Path) -> None:
    values = torch.arange(32.0).reshape(1, 2, 4, 4)
    folded = run_node(tmp_path / "a.onnx", "SpaceToDepth", values, blocksize=2)
    assert folded.shape == (1, 8, 2, 2)
    assert torch.equal(run_node(tmp_path / "b.onnx", "DepthToSpace", folded, blocksize=2), values)


def test_a_batch_written_into_the_graph_gives_way(tmp_path: Path) -> None:
    reshape = onnx.helper.make_node("Reshape", ["x", "shape"], ["h"])
    product = onnx.helper.make_node("MatMul", ["h", "w"], ["y"])
    weights = {"shape": np.array([1, 12]), "w": np.ones((12, 2), np.float32)}
    source = load_source(graph_file(tmp_path / "m.onnx", [reshape, product], {"x": ("f", [1, 3, 4])}, weights))
    arguments, _ = source.example_inputs(8)
    assert source.build()(*arguments).shape == (8, 2)
    assert "exported for batches of 1" in source.notes[0]


def test_a_graph_that_lost_its_normalization_is_noted(tmp_path: Path) -> None:
    images = torch.randn(2, 3, 16, 16)
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    kept = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
    assert "inference" in load_source(export(layers.eval(), (images,), tmp_path / "a.onnx")).notes[0]
    assert load_source(export(layers.train(), (images,), tmp_path / "b.onnx", **kept)).notes == ()


def test_whole_numbers_stay_within_the_table_they_look_up(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Gather", ["table", "x"], ["y"])
    spec = graph_file(
        tmp_path / "m.onnx", [node], {"x": ("i", ["n", 200])}, {"table": np.ones((3, 2), np.float32)}
    )
    source = load_source(spec)
    (tokens,), _ = source.example_inputs(4)
    assert tokens.shape == (4, 200)
    assert set(tokens.flatten().tolist()) == {0, 1, 2}
    assert [tuple(weight.shape) for weight in source.build().parameters()] == [(3, 2)]


def test_all_missing_operators_are_named_at_once(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("NonZero", ["x"], ["a"]),
        onnx.helper.make_node("Det", ["a"], ["b"]),
        onnx.helper.make_node("Det", ["b"], ["c"]),
        onnx.helper.make_node("BiasGelu", ["c"], ["y"], domain="com.microsoft"),
    ]
    with pytest.raises(InputError) as caught:
        load_source(graph_file(tmp_path / "m.onnx", nodes, {"x": ("f", [1])}, {})).build()
    assert "Det (2x), NonZero (1x), com.microsoft:BiasGelu (1x)" in str(caught.value)


def test_what_is_wrong_with_a_graph_is_said(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with pytest.raises(UnreadableSourceError, match="does not exist"):
        load_source(f"onnx:{path}")
    for content in (b"", b"not a graph", bytes(range(256)) * 9):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"no ONNX file|no graph"):
            load_source(f"onnx:{path}")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    spec = graph_file(path, [node], {"x": ("f", [None, 4])}, {"w": np.ones((4, 2), np.float32)})
    with pytest.raises(InputError, match="takes 1 inputs, and 2 shapes were given"):
        load_source(spec, ((4,), (4,)))
    with pytest.raises(InputError, match=r"MatMul.*fails"):
        load_source(spec).build()(torch.zeros(2, 5))
    with pytest.raises(InputError, match="takes no arguments"):
        load_source(f"{spec}?a=1")


def test_a_size_that_depends_on_values_is_refused(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["s"], to=onnx.TensorProto.INT64),
        onnx.helper.make_node("Reshape", ["w", "s"], ["y"]),
    ]
    spec = graph_file(tmp_path / "m.onnx", nodes, {"x": ("f", [2])}, {"w": np.ones(4, np.float32)})
    with pytest.raises(InputError, match="must be known before"):
        load_source(spec).build()(torch.tensor([2.0, 2.0]))


def test_weights_of_cells_that_do_not_fit_do_not_end_the_process(tmp_path: Path) -> None:
    node = onnx.helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=5)
    weights = {"w": np.ones((1, 20, 7), np.float32), "r": np.ones((1, 20, 5), np.float32)}
    source = load_source(graph_file(tmp_path / "m.onnx", [node], {"x": ("f", [4, None, 6])}, weights), ((2, 6),))
    with pytest.raises(InputError, match="do not fit each other"):
        source.build()(torch.zeros(4, 2, 6))


def test_a_large_constant_takes_memory_like_any_tensor(tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    nodes = [
        onnx.helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]),
        onnx.helper.make_node("Add", ["x", "zeros"], ["y"]),
    ]
    sizes = np.array([1 << 20, 1 << 20])
    source = load_source(graph_file(tmp_path / "m.onnx", nodes, {"x": ("f", [None, 1])}, {"sizes": sizes}))
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = source.build()(*source.example_inputs(1)[0])
    assert made.shape == (1 << 20, 1 << 20), "four TiB, had they been made"


def test_digests_are_of_the_content(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    specs = [graph_file(tmp_path / f"{place}.onnx", [node], {"x": ("f", [None, 4])}, {}) for place in (1, 2)]
    first, second = (load_source(spec).digest for spec in specs)
    assert first == second
    other = graph_file(tmp_path / "3.onnx", [node], {"x": ("f", [None, 5])}, {})
    assert load_source(other).digest != first


def test_without_onnx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"presage\[onnx\]"):
        load_source("onnx:model.onnx")

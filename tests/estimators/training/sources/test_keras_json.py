"""A Keras model's description becomes a network with the sizes that Keras gives it; all numbers are by hand."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from presage.errors import InputError, UnreadableSourceError
from presage.estimators.training.sources import load_source

torch = pytest.importorskip("torch")

Layers = list[tuple[str, dict[str, Any]]]


def sequential(shape: list[int | None], *layers: tuple[str, dict[str, Any]], dialect: int = 3) -> dict[str, Any]:
    name = "batch_shape" if dialect == 3 else "batch_input_shape"
    given = [("InputLayer", {name: [None, *shape], "dtype": "float32", "name": "input_1"}), *layers]
    return {
        "module": "keras", "class_name": "Sequential", "keras_version": f"{dialect}.9.0",
        "config": {"name": "m", "layers": [{"class_name": kind, "config": config} for kind, config in given]},
    }  # fmt: skip


def written(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document))
    return f"keras:{path}"


def built(path: Path, document: Any, *inputs: tuple[int, ...]) -> tuple[Any, Any]:
    source = load_source(written(path / "m.json", document), inputs)
    network = source.build()
    arguments, named = source.example_inputs(3)
    return network, network(*arguments, **named)


def weights_of(network: Any) -> int:
    return sum(each.numel() for each in network.parameters())


CONVOLUTION = {"filters": 8, "kernel_size": [3, 3], "strides": [1, 1], "padding": "valid", "activation": "relu"}


@pytest.mark.parametrize("dialect", [2, 3])
def test_a_small_network_for_digits(tmp_path: Path, dialect: int) -> None:
    document = sequential(
        [28, 28, 1],
        ("Conv2D", {**CONVOLUTION, "filters": 32}),
        ("MaxPooling2D", {"pool_size": [2, 2], "padding": "valid", "strides": [2, 2]}),
        ("Conv2D", {**CONVOLUTION, "filters": 64}),
        ("MaxPooling2D", {"pool_size": [2, 2]}),
        ("Flatten", {}),
        ("Dropout", {"rate": 0.5}),
        ("Dense", {"units": 10, "activation": "softmax"}),
        dialect=dialect,
    )
    network, outputs = built(tmp_path, document)
    assert weights_of(network) == (9 * 32 + 32) + (9 * 32 * 64 + 64) + (5 * 5 * 64 * 10 + 10) == 34_826
    assert outputs.shape == (3, 10)
    torch.testing.assert_close(outputs.sum(-1), torch.ones(3))
    outputs.square().sum().backward()
    assert all(each.grad is not None for each in network.parameters())


IMAGE, SERIES = [9, 9, 4], [7, 6]

ONE_LAYER: dict[str, tuple[list[int], str, dict[str, Any], int, tuple[int, ...]]] = {
    "dense": (SERIES, "Dense", {"units": 5, "activation": "gelu"}, 6 * 5 + 5, (7, 5)),
    "dense without bias": (SERIES, "Dense", {"units": 5, "use_bias": False}, 30, (7, 5)),
    "same": (IMAGE, "Conv2D", {**CONVOLUTION, "padding": "same"}, 9 * 4 * 8 + 8, (9, 9, 8)),
    "same, even": (IMAGE, "Conv2D", {**CONVOLUTION, "kernel_size": 2, "padding": "same"}, 136, (9, 9, 8)),
    "same, strides": (IMAGE, "Conv2D", {**CONVOLUTION, "strides": 2, "padding": "same"}, 296, (5, 5, 8)),
    "valid, strides": (IMAGE, "Conv2D", {**CONVOLUTION, "strides": 2}, 296, (4, 4, 8)),
    "groups": (IMAGE, "Conv2D", {**CONVOLUTION, "groups": 2}, 9 * 2 * 8 + 8, (7, 7, 8)),
    "dilated": (IMAGE, "Conv2D", {**CONVOLUTION, "dilation_rate": [2, 2]}, 296, (5, 5, 8)),
    "first": ([4, 9, 9], "Conv2D", {**CONVOLUTION, "data_format": "channels_first"}, 296, (8, 7, 7)),
    "causal": (SERIES, "Conv1D", {"filters": 3, "kernel_size": 4, "padding": "causal"}, 4 * 6 * 3 + 3, (7, 3)),
    "volume": ([5, 5, 5, 2], "Conv3D", {"filters": 3, "kernel_size": 2}, 8 * 2 * 3 + 3, (4, 4, 4, 3)),
    "depthwise": (IMAGE, "DepthwiseConv2D", {"kernel_size": 3, "depth_multiplier": 2}, 9 * 8 + 8, (7, 7, 8)),
    "separable": (IMAGE, "SeparableConv2D", {"filters": 5, "kernel_size": 3}, 9 * 4 + 4 * 5 + 5, (7, 7, 5)),
    "up, same": (IMAGE, "Conv2DTranspose", {"filters": 5, "kernel_size": 3, "strides": 2, "padding": "same"},
                 9 * 4 * 5 + 5, (18, 18, 5)),
    "up, valid": (IMAGE, "Conv2DTranspose", {"filters": 5, "kernel_size": 3, "strides": 2}, 185, (19, 19, 5)),
    "up, narrow": (IMAGE, "Conv2DTranspose", {"filters": 5, "kernel_size": 1, "strides": 2}, 25, (18, 18, 5)),
    "batch norm": (IMAGE, "BatchNormalization", {"axis": [3], "momentum": 0.9}, 2 * 4, (9, 9, 4)),
    "batch norm, no scale": (IMAGE, "BatchNormalization", {"axis": -1, "scale": False}, 4, (9, 9, 4)),
    "layer norm": (SERIES, "LayerNormalization", {"axis": [2]}, 12, (7, 6)),
    "group norm": (IMAGE, "GroupNormalization", {"groups": 2}, 8, (9, 9, 4)),
    "prelu": (IMAGE, "PReLU", {"shared_axes": [1, 2]}, 4, (9, 9, 4)),
    "max, same": (IMAGE, "MaxPooling2D", {"pool_size": 2, "padding": "same"}, 0, (5, 5, 4)),
    "average": (IMAGE, "AveragePooling2D", {"pool_size": [3, 3], "strides": [3, 3]}, 0, (3, 3, 4)),
    "global": (IMAGE, "GlobalAveragePooling2D", {}, 0, (4,)),
    "global, kept": (IMAGE, "GlobalMaxPooling2D", {"keepdims": True}, 0, (1, 1, 4)),
    "padding": (IMAGE, "ZeroPadding2D", {"padding": [[1, 2], [0, 3]]}, 0, (12, 12, 4)),
    "cropping": (IMAGE, "Cropping2D", {"cropping": [[1, 2], [0, 3]]}, 0, (6, 6, 4)),
    "larger": (IMAGE, "UpSampling2D", {"size": [2, 3], "interpolation": "bilinear"}, 0, (18, 27, 4)),
    "reshape": (IMAGE, "Reshape", {"target_shape": [-1, 12]}, 0, (27, 12)),
    "permute": (IMAGE, "Permute", {"dims": [3, 1, 2]}, 0, (4, 9, 9)),
    "repeat": ([6], "RepeatVector", {"n": 4}, 0, (4, 6)),
    "lstm": (SERIES, "LSTM", {"units": 5}, 4 * (5 * (6 + 5) + 5), (5,)),
    "lstm, series": (SERIES, "LSTM", {"units": 5, "return_sequences": True, "dropout": 0.1}, 240, (7, 5)),
    "gru": (SERIES, "GRU", {"units": 5, "reset_after": True}, 3 * (5 * (6 + 5) + 2 * 5), (5,)),
    "gru, reset before": (SERIES, "GRU", {"units": 5, "reset_after": False}, 3 * (5 * 11 + 5), (5,)),
    "simple rnn": (SERIES, "SimpleRNN", {"units": 5, "use_bias": False}, 5 * 11, (5,)),
    "bidirectional": (SERIES, "Bidirectional", {"merge_mode": "concat", "layer": {
        "class_name": "LSTM", "config": {"units": 5, "return_sequences": True}}}, 2 * 240, (7, 10)),
    "bidirectional, sum": (SERIES, "Bidirectional", {"merge_mode": "sum", "layer": {
        "class_name": "GRU", "config": {"units": 5}}}, 2 * 195, (5,)),
    "at every step": ([2, *IMAGE], "TimeDistributed", {"layer": {"class_name": "Conv2D", "config": CONVOLUTION}},
                      296, (2, 7, 7, 8)),
    "a model at every step": ([2, 6], "TimeDistributed", {"layer": sequential([6], ("Dense", {"units": 5}))},
                              35, (2, 5)),
    "scaled": (IMAGE, "Rescaling", {"scale": 1 / 255}, 0, (9, 9, 4)),
    "normalized": (IMAGE, "Normalization", {"axis": -1}, 0, (9, 9, 4)),
    "spatial dropout": (IMAGE, "SpatialDropout2D", {"rate": 0.2}, 0, (9, 9, 4)),
    "attention": (SERIES, "MultiHeadAttention", {"num_heads": 2, "key_dim": 4, "dropout": 0.1},
                  3 * (6 * 8 + 8) + (8 * 6 + 6), (7, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_LAYER)
def test_weights_and_sizes_of_a_layer(tmp_path: Path, name: str) -> None:
    shape, kind, config, weights, made = ONE_LAYER[name]
    network, outputs = built(tmp_path, sequential(shape, (kind, config)))
    assert weights_of(network) == weights
    assert outputs.shape == (3, *made)
    assert bool(torch.isfinite(outputs).all())


def tensor(layer: str, output: int = 0, call: int = 0) -> dict[str, Any]:
    return {
        "class_name": "__keras_tensor__",
        "config": {"shape": [None, 7, 6], "dtype": "float32", "keras_history": [layer, call, output]},
    }


def layer(kind: str, name: str, nodes: list[Any], **config: Any) -> dict[str, Any]:
    return {"class_name": kind, "name": name, "config": {"name": name, **config}, "inbound_nodes": nodes}


def functional(layers: list[dict[str, Any]], inputs: Any, outputs: Any) -> dict[str, Any]:
    config = {"name": "m", "layers": layers, "input_layers": inputs, "output_layers": outputs}
    return {"class_name": "Functional", "config": config}


def test_a_branching_model_of_keras_3(tmp_path: Path) -> None:
    layers = [
        layer("InputLayer", "in", [], batch_shape=[None, 7, 6]),
        # Listed before what it needs: the order of the list is not the order of the calls.
        layer("Add", "add", [{"args": [[tensor("in"), tensor("mha")]], "kwargs": {}}]),
        layer("MultiHeadAttention", "mha", [{"args": [tensor("in")], "kwargs": {
            "value": tensor("ctx"), "use_causal_mask": False, "training": None}}], num_heads=2, key_dim=4),
        layer("Dense", "ctx", [{"args": [tensor("in")], "kwargs": {}}], units=10),
        layer("Dense", "out", [{"args": [tensor("add")], "kwargs": {}}], units=1),
    ]  # fmt: skip
    network, outputs = built(tmp_path, functional(layers, [["in", 0, 0]], ["out", 0, 0]))
    attention = (6 * 8 + 8) + 2 * (10 * 8 + 8) + (8 * 6 + 6)
    assert weights_of(network) == attention + (6 * 10 + 10) + (6 + 1)
    assert outputs.shape == (3, 7, 1)


def test_shared_and_nested_layers_of_keras_2(tmp_path: Path) -> None:
    inner = sequential([6], ("Dense", {"units": 4}), dialect=2)
    layers = [
        layer("InputLayer", "a", [], batch_input_shape=[None, 6]),
        layer("InputLayer", "b", [], batch_input_shape=[None, 6]),
        {**inner, "name": "twin", "inbound_nodes": [[["a", 0, 0, {}]], [["b", 0, 0, {}]]]},
        layer("Concatenate", "both", [[["twin", 0, 0, {}], ["twin", 1, 0, {}]]], axis=-1),
        layer("Dense", "first", [[["both", 0, 0, {}]]], units=2),
        layer("Dense", "second", [[["both", 0, 0, {}]]], units=3),
    ]
    document = functional(layers, [["a", 0, 0], ["b", 0, 0]], [["first", 0, 0], ["second", 0, 0]])
    network, outputs = built(tmp_path, document)
    assert weights_of(network) == (6 * 4 + 4) + (8 * 2 + 2) + (8 * 3 + 3), "the twin counts once"
    assert [tuple(each.shape) for each in outputs] == [(3, 2), (3, 3)]


def test_states_pass_from_encoder_to_decoder(tmp_path: Path) -> None:
    layers = [
        layer("InputLayer", "words", [], batch_shape=[None, 7], dtype="int32"),
        layer("Embedding", "table", [[["words", 0, 0, {}]]], input_dim=20, output_dim=6),
        layer("LSTM", "encoder", [[["table", 0, 0, {}]]], units=5, return_state=True),
        layer("LSTM", "decoder", [[["table", 0, 0, {}], ["encoder", 0, 1, {}], ["encoder", 0, 2, {}]]], units=5),
    ]
    source = load_source(written(tmp_path / "m.json", functional(layers, [["words", 0, 0]], [["decoder", 0, 0]])))
    (words,), _ = source.example_inputs(50)
    assert words.dtype == torch.long
    assert 15 < int(words.max()) < 20
    network = source.build()
    assert network(words).shape == (50, 5)
    assert weights_of(network) == 20 * 6 + 2 * 240


def test_convolutions_agree_with_sums_by_hand(tmp_path: Path) -> None:
    settings = {"filters": 1, "kernel_size": 2, "strides": 1, "padding": "same", "use_bias": False}
    source = load_source(written(tmp_path / "m.json", sequential([3, 3, 1], ("Conv2D", settings))))
    network = source.build()
    with torch.no_grad():
        next(iter(network.parameters())).fill_(1.0)
    made = network(torch.arange(9.0).reshape(1, 3, 3, 1))[0, :, :, 0]
    assert made.tolist() == [[8, 12, 7], [20, 24, 13], [13, 15, 8]], "what is uneven is padded behind"


def test_a_network_on_meta_and_in_fake_mode(tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    document = sequential(IMAGE, ("Conv2D", CONVOLUTION), ("BatchNormalization", {}), ("Flatten", {}))
    source = load_source(written(tmp_path / "m.json", document))
    with torch.device("meta"):
        network = source.build()
    assert all(each.is_meta for each in (*network.parameters(), *network.buffers()))
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert all(each.is_meta for each in source.build().parameters()), "nothing takes memory there either"
        network = network.to_empty(device="cpu")
        arguments, _ = source.example_inputs(6)
        assert network(*arguments).shape == (6, 7 * 7 * 8)


def test_an_archive_is_read_without_its_weights(tmp_path: Path) -> None:
    document = sequential([6], ("Dense", {"units": 4}))
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(document))
        archive.writestr("model.weights.h5", b"\x89HDF\r\n\x1a\n not read")
    packed, plain = load_source(str(tmp_path / "m.keras")), load_source(written(tmp_path / "m.json", document))
    assert packed.digest == plain.digest
    assert weights_of(packed.build()) == 28
    twice = load_source(written(tmp_path / "t.json", json.dumps(document)))
    assert twice.digest == plain.digest


def test_an_open_size_is_asked_for(tmp_path: Path) -> None:
    spec = written(tmp_path / "m.json", sequential([None, None, 3], ("Conv2D", CONVOLUTION)))
    with pytest.raises(InputError, match="leaves open how large"):
        load_source(spec)
    source = load_source(spec, ((5, 6, 3),))
    assert source.build()(*source.example_inputs(2)[0]).shape == (2, 3, 4, 8)


def test_code_in_a_model_is_refused(tmp_path: Path) -> None:
    document = sequential(
        [6], ("Lambda", {"function": ["4wEAAAA", None, None]}), ("MyLayer", {}), ("Lambda", {"function": "x"}),
        ("TimeDistributed", {"layer": {"class_name": "Strange", "config": {}}}),
    )  # fmt: skip
    with pytest.raises(InputError) as caught:
        load_source(written(tmp_path / "m.json", document)).build()
    assert "Lambda (2x), MyLayer (1x), Strange (1x)" in str(caught.value)
    assert "never run" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(sequential([6], (None, {}))), json.dumps(sequential([10**20], ("Flatten", {}))),
        "", "[]", "null", '{"class_name": []}',
        '"x"', "{}", '{"class_name": "Sequential"}', '{"class_name": "Sequential", "config": 3}',
        '{"class_name": "Functional", "config": {"layers": [{"class_name": "Dense"}]}}', "[" * 5000, "PK\x03\x04",
        '{"class_name": "Functional", "config": {"layers": [], "input_layers": [["a",0,0]], "output_layers": []}}',
        json.dumps(sequential([6], ("Dense", {}))), json.dumps(sequential([6], ("Dense", {"units": -1}))),
        json.dumps(sequential([6], ("Dense", {"units": "many"}))),
        json.dumps(sequential([6], ("Conv2D", CONVOLUTION))),
        json.dumps(sequential([6], ("Activation", {"activation": "sharp"}))),
        json.dumps(sequential([6], ("Bidirectional", {}))),
        json.dumps(functional([layer("Add", "a", [[["a", 0, 0, {}]]])], [["a", 0, 0]], [["a", 0, 0]])),
        json.dumps(functional([layer("InputLayer", "a", [], batch_shape=[1, 2])], [["a", 0, 0]], [["b", 0, 0]])),
        json.dumps(sequential([6], ("Dense", {"units": 10**30}))),
        json.dumps(sequential([6], ("Reshape", {"target_shape": [4]}))),
    ],
)  # fmt: skip
def test_a_description_that_makes_no_sense_is_an_input_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(InputError):
        load_source(f"keras:{tmp_path / 'm.json'}").build()


def test_other_files_are_named_for_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "m.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(InputError, match=r"HDF5.*to_json"):
        load_source(f"keras:{tmp_path / 'm.h5'}")
    with pytest.raises(UnreadableSourceError):
        load_source(f"keras:{tmp_path / 'none.json'}")

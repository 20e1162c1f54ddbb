"""ONNX graph of multilingual-e5-small, written from its weights in fp32 or int8.

One text a run: input ``x`` [1, tokens, 384] is the sum of word, position and type embeddings,
output ``y`` [1, 384] the mean of the last layer. Linear layers in int8 scale the activations of
the whole input at once, hence no batches: a text's vector must not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from rag.providers.e5.weights import Weights, dequantize

_CONTRIB = "com.microsoft"


def build_model(weights: Weights, precision: str) -> bytes:
    """Return the serialised model; ``precision`` is int8 or fp32.

    BERT (Devlin et al. 2019); int8 as in ONNX Runtime's dynamic quantisation, symmetric weights
    with one scale an output channel.
    """
    model: bytes = _Writer(weights, is_int8=precision == "int8").model().SerializeToString()
    return model


class _Writer:
    def __init__(self, weights: Weights, *, is_int8: bool) -> None:
        self._weights = weights
        self._is_int8 = is_int8
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []

    def model(self) -> ModelProto:
        width = self._weights.hidden
        self._constant("axis", np.array([2], np.int64))
        x = self._normalise("x", "emb.ln")
        for layer in range(self._weights.layers):
            x = self._layer(x, f"l{layer}.")
        self._constant("token_axis", np.array([1], np.int64))
        self._node("ReduceMean", [x, "token_axis"], "y", keepdims=0)
        graph = helper.make_graph(
            self._nodes,
            "e5",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "tokens", width])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, width])],
            self._constants,
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def _layer(self, x: str, name: str) -> str:
        parts = [f"{name}{part}" for part in "qkv"]
        joined = self._linear(x, parts, name + "qkv", width=self._weights.hidden)
        self._nodes.append(helper.make_node("Split", [joined], parts, axis=-1, num_outputs=3))
        heads = self._weights.heads
        mixed = self._node(
            "MultiHeadAttention", parts, name + "mix", domain=_CONTRIB, num_heads=heads
        )
        out = self._linear(mixed, [name + "ao"], name + "ao", width=self._weights.hidden)
        x = self._normalise(self._node("Add", [x, out], name + "a"), name + "aln")
        inner = self._linear(x, [name + "fi"], name + "fi", width=self._weights.hidden)
        active = self._node("Gelu", [inner], name + "gelu", approximate="none")
        out = self._linear(active, [name + "fo"], name + "fo", width=self._weights.inner)
        return self._normalise(self._node("Add", [x, out], name + "b"), name + "oln")

    def _linear(self, x: str, tensors: Sequence[str], name: str, *, width: int) -> str:
        blocks = [self._weights.blocks(tensor + ".w", width) for tensor in tensors]
        matrix = dequantize(np.concatenate(blocks))
        biases = [self._weights.floats(tensor + ".b") for tensor in tensors]
        bias = self._constant(name + ".bias", np.concatenate(biases))
        if not self._is_int8:
            product = self._node(
                "MatMul", [x, self._constant(name + ".w", matrix.T)], name + ".product"
            )
            return self._node("Add", [product, bias], name + ".out")
        scale = np.maximum(np.abs(matrix).max(axis=1) / 127, np.finfo(np.float32).tiny)
        whole = np.rint(matrix / scale[:, None]).astype(np.int8)
        inputs = [
            x,
            self._constant(name + ".w", whole.T),
            self._constant(name + ".scale", scale.astype(np.float32)),
            "",
            bias,
        ]
        return self._node("DynamicQuantizeMatMul", inputs, name + ".out", domain=_CONTRIB)

    def _normalise(self, x: str, name: str) -> str:
        # LayerNormalization spelt out: ONNX Runtime's own kernel took 30 % of the time, these
        # operators a third of that. Dividing by the length instead of the deviation moves
        # sqrt(width) into the gain; the epsilon of 1e-12 is far below float32's resolution.
        mean = self._node("ReduceMean", [x, "axis"], name + ".mean")
        centred = self._node("Sub", [x, mean], name + ".centred")
        length = self._node("ReduceL2", [centred, "axis"], name + ".length")
        unit = self._node("Div", [centred, length], name + ".unit")
        gain = self._weights.floats(name + ".w") * np.float32(self._weights.hidden**0.5)
        scaled = self._node("Mul", [unit, self._constant(name + ".gain", gain)], name + ".scaled")
        shift = self._constant(name + ".shift", self._weights.floats(name + ".b"))
        return self._node("Add", [scaled, shift], name + ".norm")

    def _constant(self, name: str, values: NDArray[np.generic]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _node(
        self, kind: str, inputs: Sequence[str], output: str, *, domain: str = "", **options: Any
    ) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **options))
        return output

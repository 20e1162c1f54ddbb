"""BPE tokenizer o200k of OpenAI: token counts and offsets; an estimate for remote models."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import ConfigurationError
from rag.providers.local_models import Once

if TYPE_CHECKING:
    from bpe_openai._bindings import PyTokenizer

MAX_TOKENS = 200_000
SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    encoder: PyTokenizer
    n_bytes: NDArray[np.uint8]


def _load() -> _Vocabulary:
    package = find_spec("bpe_openai")
    if package is None or package.origin is None:
        raise _missing()
    folder = Path(package.origin).parent
    n_bytes = np.zeros(MAX_TOKENS, dtype=np.uint8)
    with gzip.open(folder / "data" / "o200k_base.tiktoken.gz") as lines:
        for line in lines:
            encoded, _, token = line.partition(b" ")
            n_bytes[int(token)] = len(encoded) // 4 * 3 - encoded.count(b"=")
    # By file: importing the package itself unpacks three vocabularies into 100 MB of dicts.
    binaries = [path for path in folder.glob("_bindings.*") if path.suffix in (".so", ".pyd")]
    spec = spec_from_file_location("bpe_openai._bindings", binaries[0]) if binaries else None
    if spec is None or spec.loader is None:
        raise _missing()
    bindings = module_from_spec(spec)
    spec.loader.exec_module(bindings)
    return _Vocabulary(bindings.tokenizer_for_encoding("o200k_base"), n_bytes)


def _missing() -> ConfigurationError:
    return ConfigurationError(
        "The package {package} is missing or damaged.",
        hint="Install it again from requirements.txt.",
        package="bpe-openai",
    )


_VOCABULARY = Once(_load)


class BpeTokenizer:
    """The Tokenizer port on bpe-openai: byte pairs, vocabulary in the package, no download.

    Texts that look like special tokens are counted as the plain text they are.
    """

    id = "o200k"

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        return int(_VOCABULARY.get().encoder.count(_encodable(text)))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return each token's (start, end) in code points of ``text``, in order.

        Tokens that share a character, as emoji and rare Han do, each cover all of it.
        """
        vocabulary = _VOCABULARY.get()
        text = _encodable(text)
        tokens = vocabulary.encoder.encode(text)
        ends = np.cumsum(vocabulary.n_bytes[np.asarray(tokens, dtype=np.int64)], dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        if not text.isascii():
            raw = np.frombuffer(text.encode(), dtype=np.uint8)
            # A code point begins at each byte that is no continuation byte (10xxxxxx).
            heads = np.flatnonzero((raw & 0xC0) != 0x80)
            starts = np.searchsorted(heads, starts, side="right") - 1
            ends = np.searchsorted(heads, ends - 1, side="right")
        return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _encodable(text: str) -> str:
    # A lone surrogate has no bytes; the replacement keeps all positions.
    return SURROGATES.sub("\ufffd", text)

"""Tokenizers and documents for the tests of cutting: small, real, and awkward on purpose."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from rag.core.documents import Block, Page, ParsedDocument

LATIN = "abcdefghijklmnopqrstuvwxyz"
WORDS = ("the", "pump", "year", "valve", "ing", "tion", "保修", "水泵", "两年", "温度")


class PackageTokenizer:
    """The Tokenizer port on a model of the tokenizers package."""

    def __init__(self, name: str, engine: Tokenizer) -> None:
        self.id = name
        self._engine = engine

    def count(self, text: str) -> int:
        return len(self.offsets(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        clean = text.encode("utf-8", "replace").decode()
        found: list[tuple[int, int]] = self._engine.encode(clean, add_special_tokens=False).offsets
        return found


def unigram() -> PackageTokenizer:
    """Pieces of words; what it does not know is a token per run."""
    han = [chr(code) for code in range(0x4E00, 0x9FA6)]
    scored = [("<unk>", 0.0), ("▁", -3.0), *((c, -4.0) for c in [*LATIN, *LATIN.upper(), *han])]
    scored += [(word, -3.0 - len(word) / 4) for word in WORDS]
    engine = Tokenizer(models.Unigram(scored, unk_id=0, byte_fallback=False))
    engine.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    return PackageTokenizer("unigram", engine)


def word_level() -> PackageTokenizer:
    """A token is whatever stands between blanks, be it five million characters."""
    engine = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PackageTokenizer("word-level", engine)


def byte_level() -> PackageTokenizer:
    """A token is a byte: three for a Han character, so that many begin inside one."""
    alphabet = {byte: number for number, byte in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    engine = Tokenizer(models.BPE(alphabet, []))
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s+"), "isolated"),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ]
    )
    return PackageTokenizer("byte-level", engine)


_SCRAPS = st.sampled_from(
    [
        "水泵",
        "保修期为两年",
        "。",
        "，",
        "；",
        "the pump ",
        "valve ",
        ". ",
        "! ",
        "e.g. ",
        "3.5 ",
        "\n",
        "\n\n",
        " ",
        "\t",
        "👨‍👩‍👧",
        "🇨🇳🇺🇸",
        "e\u0301",
        "ｱ",
        "한국어",
        "العربية ",
        "-",
        "“引文。”",
        "\u3000",
        "| a | b |\n",
        "x" * 70,
    ]
)
_PIECE = st.one_of(
    _SCRAPS,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.builds(lambda scrap, n: scrap * n, _SCRAPS, st.integers(1, 60)),
)


@st.composite
def documents(draw: st.DrawFn) -> ParsedDocument:
    """Documents with pages and with headings, tables and paragraphs anywhere."""
    texts = draw(st.lists(st.lists(_PIECE, max_size=12).map("".join), min_size=1, max_size=5))
    text = "\f".join(texts)
    pages, position = [], 0
    for number, page in enumerate(texts, start=1):
        pages.append(Page(number, str(number), position, position + len(page)))
        position += len(page) + 1
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)))
    blocks = []
    for start, end in pairwise(cuts):
        kind = draw(st.sampled_from(["heading", "table", "paragraph", "list"]))
        level = draw(st.integers(1, 3)) if kind == "heading" else 0
        blocks.append(Block(kind, start, end, level))
    has_pages = draw(st.booleans())
    return ParsedDocument("txt", text, "test/1", tuple(pages) if has_pages else (), tuple(blocks))

"""Word formulas (OMML, [ECMA-376] 22.1) as one line of text: a/(b+1).

Parsers put formulas in front of the paragraph that they are a part of.
"""

from __future__ import annotations

from xml.parsers import expat

_PARTS = {"num": "", "den": "/", "sup": "^", "sub": "_", "rad": "√", "d": "", "deg": ""}


class _Speller:
    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._is_text = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self._is_text = name == "t"
        if name in _PARTS:
            self.texts.append("")
        elif name in ("nary", "chr"):
            # A sum or a product says so; without a word it is an integral.
            sign = next((v for key, v in attributes.items() if key.endswith("val")), "∫")
            self.texts[-1] = self.texts[-1].removesuffix("∫") + sign

    def end(self, tag: str) -> None:
        name = tag.rpartition(":")[2]
        self._is_text = False
        if name in _PARTS:
            text = self.texts.pop()
            is_bare = name in ("num", "den", "sup", "sub") and (len(text) == 1 or text.isalnum())
            if text:
                self.texts[-1] += _PARTS[name] + (text if is_bare else f"({text})")

    def data(self, text: str) -> None:
        if self._is_text:
            self.texts[-1] += text


def spell_formula(xml: bytes) -> str:
    """Return the formulas within an element on one line; raises ExpatError."""
    speller = _Speller()
    # It is cut out of a document: nothing declares its prefixes.
    parser = expat.ParserCreate()
    parser.StartElementHandler = speller.start
    parser.EndElementHandler = speller.end
    parser.CharacterDataHandler = speller.data
    parser.Parse(xml, True)
    return speller.texts[0]

"""Symbol fonts of Word: the characters that stand for their signs.

Such a sign is a number in a font; who does not know the font sees a letter or nothing. A box that
is ticked by whatever mark is ☒, an empty one ☐.
"""

from __future__ import annotations

_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
_SMALL = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_SIGNS: dict[str, dict[int, str]] = {
    "wingdings": {
        **dict.fromkeys((0x78, 0xFD, 0xFE), "☒"),
        **dict.fromkeys((0x6F, 0x70, 0x71, 0x72, 0xA8), "☐"),
        0xFC: "✓",
        0xFB: "✗",
        0x6C: "●",
        0x6E: "■",
        0xA1: "○",
        0xA4: "◉",
        **dict.fromkeys((0x77, 0x9F, 0xA7), "•"),
        0xDF: "←",
        0xE0: "→",
        0xE1: "↑",
        0xE2: "↓",
        **dict.fromkeys((0xD8, 0xF0), "⇒"),
    },
    "wingdings 2": {
        **dict.fromkeys((0x51, 0x52, 0x53, 0x54), "☒"),
        **dict.fromkeys((0x2A, 0xA3), "☐"),
        0x50: "✓",
        0x4F: "✗",
        0x99: "◉",
        0x98: "○",
    },
    "webdings": {0x61: "✓", 0x72: "✗", 0x63: "☐", 0x67: "■"},
    "symbol": {
        **{65 + n: sign for n, sign in enumerate(_GREEK)},
        **{97 + n: sign for n, sign in enumerate(_SMALL)},
        **{code: chr(code) for code in (*range(0x20, 0x40), 0x5B, 0x5D, 0x7B, 0x7C, 0x7D)},
        0x2D: "−",
        0xA3: "≤",
        0xA5: "∞",
        0xAB: "↔",
        0xAC: "←",
        0xAD: "↑",
        0xAE: "→",
        0xAF: "↓",
        0xB0: "°",
        0xB1: "±",
        0xB2: "″",
        0xB3: "≥",
        0xB4: "×",
        0xB6: "∂",
        0xB7: "•",
        0xB8: "÷",
        0xB9: "≠",
        0xBA: "≡",
        0xBB: "≈",
        0xD5: "∏",
        0xD6: "√",
        0xD7: "⋅",
        0xDE: "⇒",
        0xE5: "∑",
        0xF2: "∫",
    },
}


def symbol_text(font: str, text: str) -> str:
    """Return what a text in a symbol font shows; other fonts, and unknown signs, stay."""
    signs = _SIGNS.get(font.strip().lower())
    if not signs:
        return text
    # Their characters may be written as such, or in a private area of Unicode.
    return "".join(
        signs.get(ord(sign) - 0xF000 if 0xF000 <= ord(sign) <= 0xF0FF else ord(sign), sign)
        for sign in text
    )


def symbol_sign(font: str, code: str) -> str:
    """Return what a ``w:sym`` shows; a sign that no table knows is told by nothing."""
    try:
        sign = chr(int(code, 16))
    except (ValueError, OverflowError):
        return ""
    shown = symbol_text(font, sign)
    return "" if "\ue000" <= shown <= "\uf8ff" else shown

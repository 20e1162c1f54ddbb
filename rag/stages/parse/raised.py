"""Superscripts and subscripts: figures as they are set, so that 10² is not 102."""

from __future__ import annotations

_SIGNS = {
    "superscript": str.maketrans("0123456789+-−=()n, ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ, "),
    "subscript": str.maketrans("0123456789+-−=(), ", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎, "),
}


def raise_figures(text: str, position: str) -> str:
    """Return figures in their ``position``, superscript or subscript; words stay as they are."""
    signs = _SIGNS.get(position)
    figures = text.strip()
    if not signs or not figures or any(ord(sign) not in signs for sign in figures):
        return text
    return text.replace(figures, figures.translate(signs))

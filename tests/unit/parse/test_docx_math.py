"""Formulas of Word as one line."""

from __future__ import annotations

import re

import pytest

from rag.stages.parse.word.docx_preprocess import linearize_formula


@pytest.mark.parametrize(
    ("xml", "line"),
    [
        ("<t>a &lt; b</t>", "a < b"),
        ("<f><num><t>a</t></num><den><t>b+1</t></den></f>", "a/(b+1)"),
        ("<f><num><t>a-b</t></num><den><t>12</t></den></f>", "(a-b)/12"),
        ("<t>H</t><sub><t>2</t></sub><t>O</t>", "H_2O"),
        (
            "<nary><naryPr><chr val='∑'/></naryPr><sub><t>i=1</t></sub><sup><t>n</t></sup><e><t>i</t></e></nary>",
            "∑_(i=1)^ni",
        ),
        ("<nary><naryPr/><sub/><sup/><e><t>f</t></e></nary>", "∫f"),
        ("<rad><deg/><e><t>x</t></e></rad><d><dPr/><e><t>y</t></e></d>", "√(x)(y)"),
    ],
)
def test_a_formula_is_one_line(xml: str, line: str) -> None:
    prefixed = re.sub(r"<(/?)(\w)", r"<\1m:\2", xml).replace("val=", "m:val=")
    assert linearize_formula(f"<m:oMath> <m:r>{prefixed}</m:r> </m:oMath>".encode()) == line

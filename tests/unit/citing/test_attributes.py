"""Attributes however a model writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.citation_markers import read_attributes

WRITTEN = {
    ' doc_id="a" quote="b c"': {"doc_id": "a", "quote": "b c"},
    " quote='b \"c\"' doc_id=a": {"quote": 'b "c"', "doc_id": "a"},
    ' DOC_ID = "a"\n QUOTE = "b" /': {"doc_id": "a", "quote": "b"},
    " doc_id=“a” quote=“他说“好””": {"doc_id": "a", "quote": "他说“好”"},
    " doc_id=‘a’ quote=「红」": {"doc_id": "a", "quote": "红"},
    ' doc_id＝"a" quote＝＂b＂': {"doc_id": "a", "quote": "b"},
    " doc_id=&quot;a&quot; quote=&quot;b &lt; c&quot;": {"doc_id": "a", "quote": "b < c"},
    ' doc_id=\\"a\\" quote=\\"b\\"': {"doc_id": "a", "quote": "b"},
    ' quote="x &amp; y &#39;z&#39;"': {"quote": "x & y 'z'"},
    ' quote="the "red" valve" doc_id="a"': {"quote": 'the "red" valve', "doc_id": "a"},
    ' quote=""': {"quote": ""},
    " nothing here": {},
    "": {},
}


@pytest.mark.parametrize("text", WRITTEN)
def test_attributes_are_read_as_meant(text: str) -> None:
    assert read_attributes(text) == WRITTEN[text]


@given(st.text(st.sampled_from("ab=\"'“”‘’「」＂\\&quot; /\n"), max_size=80))
def test_nothing_raises(text: str) -> None:
    assert all(name == name.lower() for name in read_attributes(text))

"""Our enhancers: the contract, the language of their wording, what each asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import UnknownNameError
from rag.core.plugins import PLUGINS
from rag.plugins.enhancers.analytical import Analytical
from rag.plugins.enhancers.creative import Creative
from rag.plugins.enhancers.standard import Standard
from rag.services.answers.context_builder import PromptEnhancer
from rag.stages.prompting.prompt import Wording, enhance_prompt
from tests.contracts import EnhancerContract

CONTEXT = (
    "【参考资料】\n1. 【manual】HX-400.pdf\n水泵每天运行四小时，50 %。{x.__class__} %(a)s\n---\n"
)
ENGLISH = "[Sources]\n1. manual: HX-400.pdf\nThe pump runs four hours a day."
ZH, EN = Wording("请", "规则", ("甲", "乙")), Wording("Do: ", "Rules", ("a", "b"))


class TestStandard(EnhancerContract):
    plugin = Standard


class TestCreative(EnhancerContract):
    plugin = Creative


class TestAnalytical(EnhancerContract):
    plugin = Analytical


def enhance(prompt: str, kind: str, context: str = CONTEXT) -> str:
    return PromptEnhancer.enhance_prompt(prompt, context, kind)


def test_the_seed_names_are_there() -> None:
    assert {"standard", "creative", "analytical"} <= set(PLUGINS.names("enhancer"))


@pytest.mark.parametrize(
    ("kind", "lead", "heading", "n_rules"),
    [
        ("standard", "基于以上参考资料，写一份运行说明", "要求：", 3),
        ("creative", "创作任务：写一份运行说明", "创作指南：", 4),
        ("analytical", "分析任务：写一份运行说明", "分析要求：", 4),
    ],
)
def test_a_chinese_prompt_is_worded_in_chinese(
    kind: str, lead: str, heading: str, n_rules: int
) -> None:
    said = enhance("写一份运行说明", kind)
    head, body = said.split(f"\n\n{lead}\n\n{heading}\n")
    assert head == CONTEXT
    assert [line[:3] for line in body.splitlines()] == [f"{n}. " for n in range(1, n_rules + 1)]
    assert not any(letter in body for letter in "abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(
    ("kind", "lead", "heading"),
    [
        ("standard", "On the basis of the reference material above: How long?", "Rules:"),
        ("creative", "Writing task: How long?", "Guidelines:"),
        ("analytical", "Analysis task: How long?", "Requirements:"),
    ],
)
def test_an_english_prompt_is_worded_in_english_whatever_the_sources(
    kind: str, lead: str, heading: str
) -> None:
    said = enhance("How long?", kind)
    assert said.startswith(f"{CONTEXT}\n\n{lead}\n\n{heading}\n1. ")
    assert not any("\u3400" <= letter <= "\u9fff" for letter in said.removeprefix(CONTEXT))


def test_a_prompt_without_letters_takes_the_language_of_the_sources() -> None:
    assert "要求：" in enhance("42?", "standard")
    assert "Rules:" in enhance("42?", "standard", ENGLISH)


def test_a_chinese_prompt_with_a_product_name_stays_chinese() -> None:
    assert "要求：" in enhance("HX-400水泵每天运行多久？", "standard", ENGLISH)


def test_standard_is_the_default() -> None:
    assert PromptEnhancer.enhance_prompt("问", CONTEXT) == enhance("问", "standard")
    assert PromptEnhancer().enhance_prompt(
        original_prompt="问", rag_context=CONTEXT, enhancement_type="standard"
    ) == enhance("问", "standard")


@pytest.mark.parametrize("kind", ["standard", "creative", "analytical"])
def test_no_context_leaves_the_very_prompt(kind: str) -> None:
    prompt = " \r\n {0} \x00\ufeff "
    assert enhance(prompt, kind, "") is prompt
    assert enhance(prompt, kind, " \n") == prompt


@pytest.mark.parametrize("context", ["", CONTEXT])
def test_an_unknown_type_lists_the_known_ones_context_or_not(context: str) -> None:
    with pytest.raises(
        UnknownNameError, match="Unknown enhancer “standart”. Known: analytical, .*standard"
    ):
        enhance("x", "standart", context)


@given(st.text(), st.text().filter(lambda text: text.strip()))
def test_prompt_and_context_are_never_interpreted(prompt: str, context: str) -> None:
    said = enhance_prompt(prompt, context, chinese=ZH, english=EN)
    assert said in (
        f"{context}\n\n请{prompt}\n\n规则\n1. 甲\n2. 乙\n",
        f"{context}\n\nDo: {prompt}\n\nRules\n1. a\n2. b\n",
    )

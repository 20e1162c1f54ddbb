"""Contract suite of prompt enhancers: tests for pytest, inherited by one subclass per enhancer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rag.plugins.contract_plugin import PluginContract, odd_texts

CONTEXT = (
    "【参考资料】\n1. 【manual】HX-400.pdf\nThe pump runs at 40 %. {not_a_field} %s {{x}}\n---\n"
)


class EnhancerContract(PluginContract):
    """What holds for every enhancer. To be set: ``plugin``, and ``options`` where it needs some."""

    kind = "enhancer"

    def test_without_context_the_prompt_is_unchanged(self) -> None:
        for prompt in odd_texts():
            assert self.make().enhance(prompt, "") == prompt, f"{prompt[:20]!r} was changed"

    def test_prompt_and_context_stand_in_the_result_as_they_came(self) -> None:
        for text in odd_texts():
            assert_holds(self.make().enhance(text, CONTEXT), text, CONTEXT)
            context = f"{CONTEXT}{text}"
            assert_holds(self.make().enhance("How fast is the pump?", context), context)

    def test_equal_input_gives_an_equal_result(self) -> None:
        enhancer = self.make()
        prompts = [*odd_texts(), *odd_texts()]
        expected = [self.make().enhance(prompt, CONTEXT) for prompt in prompts]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda prompt: enhancer.enhance(prompt, CONTEXT), prompts)) == (
                expected
            )


def assert_holds(result: Any, *parts: str) -> None:
    """Assert that ``result`` is a text that contains each part unchanged."""
    assert isinstance(result, str), f"enhance returned {type(result).__name__}"
    for part in parts:
        assert part in result, f"{part[:30]!r} is not in the result"

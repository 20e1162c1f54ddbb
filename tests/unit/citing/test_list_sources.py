"""The list of sources that people read."""

from __future__ import annotations

from typing import Any

from rag.stages.citing.list_sources import list_sources


def citation(number: int, **more: Any) -> dict[str, Any]:
    source = {"type": "document", "name": "manual.pdf", "id": "7"}
    return {
        "id": number,
        "source": source,
        "claim": "The pump stops.",
        "verdict": "verified",
        **more,
    }


def test_no_citations_give_no_list() -> None:
    assert list_sources([]) == ""


def test_sources_are_listed_in_the_language_of_what_is_cited() -> None:
    assert list_sources([citation(1), citation(2, page=3)]) == (
        "\n\n[Sources]\n[1] document - manual.pdf\n[2] document - manual.pdf, p. 3"
    )
    assert list_sources([citation(1, claim="水泵停止。", page=3)]) == (
        "\n\n【参考来源】\n[1] document - manual.pdf，第 3 页"
    )


def test_a_seed_s_own_citation_is_enough() -> None:
    assert list_sources(
        [{"id": 1, "source": {"type": "角色", "name": "张三", "id": "9"}, "relevance": 1}]
    ) == ("\n\n【参考来源】\n[1] 角色 - 张三")
    assert list_sources([{"id": 1, "source": None}]) == "\n\n[Sources]\n[1] 未知 - 未知".replace(
        "未知", "unknown"
    )


def test_whatever_is_not_verified_says_so() -> None:
    lines = list_sources(
        [
            citation(1),
            citation(2, verdict="altered", quote="wait 50 minutes", found="wait 15 minutes"),
            citation(
                3,
                verdict="altered",
                quote="The office opens.",
                found="The office opens, unless it snows",
            ),
            citation(4, verdict="wrong_document"),
            citation(5, verdict="unknown", source={"type": "", "name": "doc_09", "id": ""}),
        ]
    ).splitlines()[3:]
    assert (
        lines
        == [
            "[1] document - manual.pdf",
            "[2] document - manual.pdf (differs from the source)",
            "[3] document - manual.pdf (the quote is cut short)",
            "[4] document - manual.pdf (the words stand here, not where it was said)",
            "[5] unknown - doc_09 (no support found)",
        ][0:]
    )


def test_chinese_remarks() -> None:
    text = list_sources(
        [
            citation(
                1, claim="水泵停止。", verdict="altered", quote="等待50分钟", found="等待15分钟"
            ),
            citation(2, claim="水泵停止。", verdict="unknown"),
        ]
    )
    assert "（与原文不完全一致）" in text
    assert "（未找到依据）" in text


def test_a_name_cannot_break_the_list() -> None:
    text = list_sources([citation(1, source={"type": "a\nb", "name": "x\n[9] y - z", "id": ""})])
    assert text.count("\n") == 3

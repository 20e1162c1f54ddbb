"""Answers from tables without a model: the cell in words, its row quoted with the header."""

from __future__ import annotations

import pytest

from rag.core.ports import ChatRequest
from rag.core.types import HOLDING_VERDICTS
from rag.providers.extractive import ExtractiveChatModel
from tests.unit.passages import make_passages, verify_citations

DEVICES = """参数

| 型号 | A100 | B200 | C300 |
| 功率(W) | 1200 | 1500 | 1800 |
| 重量(kg) | 12.5 | 15.2 | 20 |
| 价格(元) | 3999 | 5999 | 8999 |"""
PARTS_HEADER = "| Part no. | Name | Stock | Price EUR |"
PARTS_ROWS = """| PN-1035 | Bracket type 35, only for use without oil | 0 | 52.50 |
| PN-1036 | Bracket type 36 | 1 | 54.00 |
| PN-1037 | Bracket type 3 | 2 | 55.50 |"""
PARTS = f"{PARTS_HEADER}\n{PARTS_ROWS}"
SUMS = """| 项目 | 数量 | 单价 | 合计 |
| 螺丝 | 10 | 0.5 | [formula without a stored value] |
| 总计 |  |  | [formula without a stored value] |"""
EMPTY_SUMS = "| 项目 | 合计 |\n| 螺丝 |  |\n| 总计 |  |"
STAFF = """| Name | Department | Phone |
|---|---|---|
| Ada Stone | Sales | 4711 |
| Bo Lind | Research | 4712 |

Bo Lind also looks after the archive."""


def answer(question: str, text: str, header: str = "") -> tuple[str, list[str]]:
    """Return the answer as it is shown, and what it quotes; each quote must hold."""
    request = ChatRequest(
        [], question=question, passages=[("doc_01", text)], table_headers=[header]
    )
    raw = ExtractiveChatModel().generate(request).text
    shown, citations = verify_citations(raw, make_passages(text))
    assert all(one.verdict in HOLDING_VERDICTS for one in citations), citations
    return shown, [one.found for one in citations]


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        ("B200的功率是多少", DEVICES, "B200的功率(W)：1500。"),
        ("How heavy is the B200?", DEVICES, "重量(kg) of B200: 15.2."),
        ("C300多少钱", DEVICES, "C300的价格(元)：8999。"),
        ("A100和B200的价格", DEVICES, "A100的价格(元)：3999；B200的价格(元)：5999。"),
        ("price of PN-1036", PARTS, "Price EUR of PN-1036: 54.00."),
        ("PN-1036 的库存", PARTS, "PN-1036的Stock：1。"),
        ("How much does Bracket type 3 cost?", PARTS, "Price EUR of Bracket type 3: 55.50."),
        ("PN-1036", PARTS, "Name of PN-1036: Bracket type 36; Stock: 1; Price EUR: 54.00."),
        ("What is the phone number of Bo Lind?", STAFF, "Phone of Bo Lind: 4712."),
    ],
)
def test_it_names_the_column_and_quotes_the_row_with_its_header(
    question: str, text: str, said: str
) -> None:
    shown, quoted = answer(question, text)
    assert shown == f"{said}[1]"
    header = next(line for line in text.splitlines() if line.startswith("|"))
    assert quoted[0].startswith(header)


def test_each_row_that_is_named_is_told() -> None:
    shown, _ = answer("Stock of PN-1035 and PN-1037", PARTS)
    assert shown == "Stock of PN-1035: 0.[1]\nStock of PN-1037: 2.[2]"


def test_what_a_header_names_is_told_whole_where_rows_are_attributes() -> None:
    shown, _ = answer("B200", DEVICES)
    assert shown.splitlines()[0] == "功率(W) of B200: 1500.[1]"
    assert len(shown.splitlines()) == 3


@pytest.mark.parametrize("text", [SUMS, EMPTY_SUMS])
def test_a_sum_that_was_never_worked_out_is_told(text: str) -> None:
    shown, quoted = answer("总计是多少", text)
    assert shown.startswith("总计的合计：单元格")
    assert "没有存储的值" in shown
    assert ("公式" in shown) == (text is SUMS)
    assert "| 总计 |" in quoted[0]


def test_a_table_that_goes_on_has_the_header_that_it_carries() -> None:
    shown, quoted = answer("price of PN-1036", PARTS_ROWS, PARTS_HEADER)
    assert shown == "Price EUR of PN-1036: 54.00.[1]"
    assert quoted == ["| PN-1036 | Bracket type 36 | 1 | 54.00 |"]


def test_prose_that_answers_better_is_quoted_instead() -> None:
    shown, _ = answer("Who also looks after the archive?", STAFF)
    assert shown == "Bo Lind also looks after the archive.[1]"


def test_a_header_is_never_the_answer() -> None:
    shown, _ = answer("What are the name, department and phone?", STAFF)
    assert "| Name | Department" not in shown

"""Table lookup: of several columns that a question may name, the one held most completely."""

from __future__ import annotations

import pytest

from rag.stages.query.table_lookup import look_up_cells
from rag.stages.text.tables import read_tables

CALLS = """
| Priority | Meaning | Call back | Technician on site |
| Priority 1 | people are in danger | 30 minutes | 6 hours |
| Priority 2 | one unit is out of operation | 4 hours | 2 working days |
"""
PRICES = """
| Part | Stock | Price EUR | Price USD | Price paid |
| PN-7 | 12 | 30 | 33 | 28 |
| PN-8 | 14 | 40 | 44 | 39 |
"""
CALLS_ZH = """
| 级别 | 含义 | 电话回复 | 技术员到场 |
| 一级故障 | 有人处于危险之中 | 30 分钟 | 6 小时 |
| 二级故障 | 一台设备停机 | 4 小时 | 2 个工作日 |
"""
PRICES_ZH = """
| 零件 | 库存 | 价格 | 实付价格 |
| PN-7 | 12 | 30 | 28 |
| PN-8 | 14 | 40 | 39 |
"""


@pytest.mark.parametrize(
    ("question", "text", "columns"),
    [
        (
            "How soon is a technician on site after a priority 1 call?",
            CALLS,
            ["Technician on site"],
        ),
        ("How soon do you call back for priority 1?", CALLS, ["Call back"]),
        ("What was the price paid for PN-7?", PRICES, ["Price paid"]),
        ("What is the price USD of PN-7?", PRICES, ["Price USD"]),
        ("What are stock and price USD of PN-7?", PRICES, ["Stock", "Price USD"]),
        ("打电话报一级故障以后，技术员到场要多久？", CALLS_ZH, ["技术员到场"]),
        ("一级故障的电话回复要多久？", CALLS_ZH, ["电话回复"]),
        ("PN-7 的实付价格是多少？", PRICES_ZH, ["实付价格"]),
        ("PN-7 的库存和价格是多少？", PRICES_ZH, ["库存", "价格"]),
    ],
)
def test_the_column_held_most_completely_is_meant(
    question: str, text: str, columns: list[str]
) -> None:
    (table,) = read_tables(text)
    (found,) = look_up_cells(question, table)
    assert [table.column(place) for place in found.places] == columns

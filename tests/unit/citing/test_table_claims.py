"""Claims about tables: a number counts in the row and column that the claim names alone."""

from __future__ import annotations

import pytest

from rag.stages.citing.table_claims import judge_by_tables
from rag.stages.citing.verify import verify_answer
from rag.stages.text.tables import read_records
from tests.unit.passages import make_passages

DEVICES = """| 型号 | A100 | B200 | C300 |
| 功率(W) | 1200 | 1500 | 1800 |
| 重量(kg) | 12.5 | 15.2 | 20 |
| 人口(万人) | 3 | 386 | 50 |"""
PARTS = """| Part no. | Name | Stock | Price EUR |
| PN-1035 | Bracket type 35 | 0 | 52.50 |
| PN-1036 | Bracket type 36 | 1 | 54.00 |"""
STAFF = "| 姓名 | 部门 | 电话 |\n| 张三 | 技术部 | 4711 |\n| 李四 | 销售部 | 4712 |"
TEAMS = """| 球队 | 平均年纪(岁) | 奖杯数(座) | 参赛编号 |
| 白鹭队 | 23.9 | 35 | 712 |
| 红狐队 | 22.9 | 34 | 576 |"""
FOODS = """| Cereal | Energy kcal | Pack pcs | Rating points |
| Rye Stars | 480 | 27 | 60 |
| Total | 885 | 88 | 235 |"""
# Columns told by their unit, by a part of their name, or by having no unit.
RIGHT = [
    ("白鹭队队员平均23.9岁。", TEAMS),
    ("白鹭队拿过35座奖杯。", TEAMS),
    ("白鹭队的编号是712。", TEAMS),
    ("Rye Stars comes by 27 pcs.", FOODS),
    ("Rye Stars has 60 points.", FOODS),
    ("仓库里水泵还有30件。", "| 品名 | 单价(元) | 结存 |\n| 水泵 | 45 | 30 |"),
    ("The B200 needs 1500 W.", DEVICES),
    ("The B200 needs 1.5 kW.", DEVICES),
    ("B200的功率是1500瓦。", DEVICES),
    ("A100重12.5千克，B200重15.2千克。", DEVICES),
    ("The A100 and B200 need 1200 W and 1500 W respectively.", DEVICES),
    ("B200的人口(万人)：386。", DEVICES),
    ("B200有386万人。", DEVICES),
    ("PN-1036 costs 54.00 EUR.", PARTS),
    ("Bracket type 36 has a price of 54 euros.", PARTS),
    ("PN-1036 is Bracket type 36.", PARTS),
    ("张三在技术部，电话4711。", STAFF),
]
WRONG = [
    ("白鹭队队员平均35岁。", TEAMS, "number"),
    ("白鹭队拿过712座奖杯。", TEAMS, "number"),
    ("白鹭队的编号是35。", TEAMS, "number"),
    ("Rye Stars comes by 60 pcs.", FOODS, "number"),
    ("Rye Stars has 27 points.", FOODS, "number"),
    ("仓库里水泵还有45件。", "| 品名 | 单价(元) | 结存 |\n| 水泵 | 45 | 30 |", "number"),
    ("The B200 needs 1200 W.", DEVICES, "number"),
    ("B200的功率是1800W。", DEVICES, "number"),
    ("B200的重量是12.5公斤。", DEVICES, "number"),
    ("A100重15.2千克，B200重12.5千克。", DEVICES, "number"),
    ("The A100 and B200 need 1500 W and 1200 W respectively.", DEVICES, "number"),
    ("B200 does not need 1500 W.", DEVICES, "denial"),
    ("B200有386人。", DEVICES, "number"),
    ("PN-1036 costs 1 EUR.", PARTS, "number"),
    ("The stock of PN-1036 is 54.", PARTS, "number"),
    ("PN-1036 is Bracket type 35.", PARTS, "name"),
    ("张三在销售部。", STAFF, "name"),
    ("李四的电话是4711。", STAFF, "number"),
]


@pytest.mark.parametrize(("claim", "table"), RIGHT)
def test_what_a_table_says_holds(claim: str, table: str) -> None:
    found = judge_by_tables(claim, table)
    assert found is not None and found.holds
    answer = verify_answer(claim, make_passages("The weather was mild.", table))
    assert answer.outcome == "answered"
    assert answer.citations[0].found.startswith("|")


@pytest.mark.parametrize(("claim", "table", "reason"), WRONG)
def test_a_number_or_name_of_another_row_or_column_contradicts(
    claim: str, table: str, reason: str
) -> None:
    found = judge_by_tables(claim, table)
    assert found is not None and found.reason == reason
    answer = verify_answer(claim, make_passages("The weather was mild.", table))
    assert [one.verdict for one in answer.groundedness.statements] == ["contradicted"]


def test_a_quoted_row_that_says_another_thing_is_no_proof() -> None:
    tag = '<cite doc_id="doc_01" quote="| PN-1036 | Bracket type 36 | 1 | 54.00 |"></cite>'
    for claim, verdict in (
        ("PN-1036 costs 54.00 EUR", "cited"),
        ("PN-1036 costs 52.50 EUR", "contradicted"),
    ):
        answer = verify_answer(f"{claim}{tag}", make_passages(PARTS))
        assert [one.verdict for one in answer.groundedness.statements] == [verdict]


@pytest.mark.parametrize(
    ("claim", "table"),
    [
        ("The B200 was first sold here.", DEVICES),
        ("Nothing of it is named.", PARTS),
        ("It costs 54.00 EUR.", "Prose without a table."),
        ("", PARTS),
        ("The D400 needs 1500 W.", DEVICES),
    ],
)
def test_of_what_it_does_not_name_a_table_says_nothing(claim: str, table: str) -> None:
    assert judge_by_tables(claim, table) is None


def test_prose_beside_a_table_still_counts() -> None:
    text = f"{DEVICES}\n\nThe B200 was first sold in 2019 in three towns."
    answer = verify_answer("The B200 was first sold in 2019.", make_passages(text))
    assert [one.verdict for one in answer.groundedness.statements] == ["attributed"]


def test_a_table_that_goes_on_is_read_with_its_header() -> None:
    rows = PARTS.split("\n", 1)[1]
    header = PARTS.split("\n", 1)[0]
    found = judge_by_tables("The stock of PN-1036 is 54.", rows, header)
    assert found is not None and not found.holds


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        ("Unit of F07: UVS-30; Meaning: lamp intensity below 55 percent.", True),
        ("Unit of C31: CarbonRise 12; Meaning: no signal from the pit sensor.", True),
        ("C36 means that the solenoid valve does not close.", True),
        ("F07 means a chamber temperature above 48 degrees Celsius.", False),
        ("F07: lamp intensity below 65 percent.", False),
    ],
)
def test_words_of_a_cell_bring_their_numbers_and_denials(claim: str, holds: bool) -> None:
    text = (
        "| Code | Unit | Meaning |\n| --- | --- | --- |\n| F03 | UVS-30 | door open while the lamp is on |\n"
        "| F07 | UVS-30 | lamp intensity below 55 percent |\n"
        "| F12 | UVS-30 | chamber temperature above 48 degrees Celsius |\n"
        "| C31 | CarbonRise 12 | no signal from the pit sensor |\n"
        "| C36 | CarbonRise 12 | solenoid valve does not close |\n"
    )
    found = judge_by_tables(claim, text)
    assert (found is not None and found.holds) is holds


RECORDS = (
    "name: Drum pump\nprice: 450\nstock: 12\nwarehouse: North",
    "name: Gear pump\nprice: 500\nwarehouse: South\nnote: sold out\nuntil May",
    "编号: A-17\n品名: 水泵\n单价: 88.5\n负责人: 王小芳\n\n编号: A-18\n品名: 阀门\n单价: 12\n负责人: 李强",
    "order_id: 20240017\ntotal_eur: 310.5\nstatus: shipped",
)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("The price of the Drum pump is 450.", "attributed"),
        ("The Drum pump costs 450.", "attributed"),
        ("The Drum pump is in the North warehouse.", "attributed"),
        ("The Gear pump has a price of 500 and the Drum pump one of 450.", "attributed"),
        ("水泵的单价是88.5元。", "attributed"),
        ("Drum pump的价格是450。", "attributed"),
        ("Order 20240017 was shipped.", "attributed"),
        ("The total of order 20240017 is 310.50 EUR.", "attributed"),
        ("The price of the Drum pump is 500.", "contradicted"),
        ("The stock of the Drum pump is 450.", "contradicted"),
        ("The Drum pump does not cost 450.", "contradicted"),
        ("The Drum pump is in the South warehouse.", "contradicted"),
        ("水泵的单价是12元。", "contradicted"),
        ("阀门的负责人是王小芳。", "contradicted"),
        ("Order 20240018 was shipped.", "unsupported"),
        ("The Screw pump costs 450.", "unsupported"),
    ],
)
def test_a_record_says_what_its_fields_hold_of_it_alone(claim: str, verdict: str) -> None:
    answer = verify_answer(claim, make_passages(*RECORDS))
    assert [one.verdict for one in answer.groundedness.statements] == [verdict]


def test_a_quoted_record_says_nothing_in_another_field() -> None:
    tag = '<cite doc_id="doc_01" quote="price: 450"></cite>'
    for claim, verdict in (("costs 450", "cited"), ("has a stock of 450", "contradicted")):
        answer = verify_answer(f"The Drum pump {claim}{tag}.", make_passages(*RECORDS))
        assert [one.verdict for one in answer.groundedness.statements] == [verdict]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Note: the pump is loud.",
        "Prose first.\nname: X\nprice: 4",
        "a: b\n" + "x\n" * 5,
        ":\n:\n",
    ],
)
def test_prose_with_colons_is_no_record(text: str) -> None:
    assert read_records(text) == ()

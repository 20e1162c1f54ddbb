"""Tables benchmark: answers from made-up tables, and claims of a model about them.

Run ``python -m benchmarks.tables [--tune] [--show N]``. Tables of a seed lie either way, with units
in their labels, total rows and a header that was carried on. A claim is right, or has the number of
another row or column. Rules were written with other subjects, words and a seed of their own
(``--tune`` prints them, and keeps nothing); the row is about those that were not looked at.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.citation_quotes import as_passages
from benchmarks.record import Report
from rag.core.ports import ChatRequest
from rag.core.types import HOLDING_VERDICTS
from rag.providers.extractive import ExtractiveChatModel
from rag.stages.citing.verify import verify_answer
from rag.stages.prompting.context import Passage

N_TABLES = {True: 60, False: 120}
SEEDS = {True: 1, False: 2003}
# A subject's names, and its attributes: label, unit, least and most value, decimals, what asks for
# it and what says it. {0} is the row's name, {1} the value.
Subject = tuple[str, Sequence[str], Sequence[tuple[str, str, int, int, int, str, str]]]
TUNED: dict[str, Sequence[Subject]] = {
    "zh": [
        (
            "型号",
            [f"HX-{n}00" for n in range(1, 20)],
            [
                ("功率", "W", 200, 3000, 0, "{0}的功率是多少", "{0}需要{1}瓦"),
                ("重量", "kg", 5, 90, 1, "{0}有多重", "{0}的重量为{1}公斤"),
                ("价格", "元", 900, 9000, 0, "{0}多少钱", "{0}的价格是{1}元"),
            ],
        ),
        (
            "城市",
            ["青石市", "白沙市", "云溪市", "南湾市", "长亭市", "金河市", "东岭市", "西塘市"],
            [
                ("人口", "万人", 20, 900, 0, "{0}的人口", "{0}有{1}万人"),
                ("面积", "平方公里", 100, 9000, 0, "{0}面积多大", "{0}的面积是{1}平方公里"),
                ("门店数量", "", 2, 60, 0, "{0}的门店数量", "{0}的门店数量是{1}"),
            ],
        ),
        # Units that measure nothing, and words for a column that are neither its name nor known.
        (
            "球队",
            ["雄鹰队", "猎豹队", "海豚队", "黑熊队", "白鹭队", "红狐队"],
            [
                ("平均年纪", "岁", 18, 34, 1, "{0}的平均年纪", "{0}队员平均{1}岁"),
                ("奖杯数", "座", 1, 40, 0, "{0}的奖杯数", "{0}拿过{1}座奖杯"),
                ("门票", "元", 60, 900, 0, "{0}的门票", "看{0}比赛要{1}元"),
                ("参赛编号", "", 1000, 9000, 0, "{0}的参赛编号", "{0}的编号是{1}"),
            ],
        ),
    ],
    "en": [
        (
            "Part no.",
            [f"PN-{n}" for n in range(2001, 2030)],
            [
                ("Stock", "", 0, 400, 0, "stock of {0}", "{1} of {0} are in stock"),
                ("Price", "EUR", 3, 900, 2, "How much does {0} cost?", "{0} costs {1} EUR"),
                ("Weight", "kg", 1, 90, 1, "How heavy is {0}?", "{0} weighs {1} kg"),
            ],
        ),
        (
            "City",
            ["Ashford", "Brookton", "Carlow", "Denby", "Elmore", "Farnham", "Garth", "Holt"],
            [
                ("Population", "", 900, 90000, 0, "population of {0}", "{0} has {1} inhabitants"),
                ("Area", "km2", 3, 90, 1, "What is the area of {0}?", "{0} has an area of {1} km²"),
                ("Shops", "", 2, 60, 0, "shops in {0}", "The number of shops in {0} is {1}"),
            ],
        ),
        (
            "Cereal",
            ["Oatly Crunch", "Berry Flakes", "Corn Rings", "Honey Pops", "Rye Stars"],
            [
                ("Energy", "kcal", 300, 500, 0, "energy of {0}", "{0} gives you {1} kcal"),
                ("Pack", "pcs", 6, 48, 0, "pack of {0}", "{0} comes by {1} pcs"),
                ("Rating points", "", 50, 99, 0, "rating points of {0}", "{0} has {1} points"),
            ],
        ),
    ],
}
HELD_OUT: dict[str, Sequence[Subject]] = {
    "zh": [
        (
            "品名",
            ["水泵", "阀门", "法兰盘", "滤芯", "轴承", "密封圈", "联轴器", "减速机", "压力表"],
            [
                ("库存量", "", 1, 700, 0, "仓库里{0}的库存量还有多少？", "目前{0}库存{1}件"),
                ("单价", "元", 5, 4000, 2, "请问{0}单价是多少", "{0}每件单价{1}元"),
                ("保修期", "月", 3, 48, 0, "{0}的保修期有多长？", "{0}的保修期为{1}个月"),
                ("净重", "克", 20, 900, 0, "{0}净重多少克", "一件{0}净重{1}克"),
            ],
        ),
        (
            "姓名",
            ["王小芳", "赵建国", "陈立", "孙悦", "吴桐", "郑一鸣", "冯雪", "褚文静"],
            [
                ("工资", "元", 4000, 30000, 0, "{0}的工资是多少？", "{0}每月工资{1}元"),
                ("年龄", "岁", 20, 60, 0, "{0}多大年龄", "{0}今年{1}岁"),
                ("分机号", "", 1000, 9999, 0, "{0}的分机号是什么", "{0}的分机号是{1}"),
            ],
        ),
        (
            "课程",
            ["陶艺入门", "花艺基础", "木工初级", "插画进阶", "烘焙班", "古琴小组"],
            [
                ("名额", "个", 5, 60, 0, "{0}的名额", "{0}还能收{1}个学员"),
                ("学费", "元", 200, 4000, 0, "{0}的学费", "上{0}要交{1}元"),
                ("课时", "节", 4, 48, 0, "{0}的课时", "{0}一共{1}节课"),
                ("教室编号", "", 100, 990, 0, "{0}的教室编号", "{0}在编号{1}的教室"),
            ],
        ),
    ],
    "en": [
        (
            "Model",
            [f"{name} {n}" for name in ("Falcon", "Heron", "Kite") for n in (1, 2, 3, 10, 20)],
            [
                (
                    "Power",
                    "W",
                    200,
                    3000,
                    0,
                    "What power does the {0} need?",
                    "The {0} draws {1} W",
                ),
                ("Volume", "litres", 4, 90, 1, "volume of the {0}", "The {0} holds {1} litres"),
                ("Length", "mm", 200, 990, 0, "How long is the {0}?", "The {0} is {1} mm long"),
                (
                    "Warranty",
                    "months",
                    3,
                    48,
                    0,
                    "warranty of {0}",
                    "{0} has a warranty of {1} months",
                ),
            ],
        ),
        (
            "Name",
            ["Ada Stone", "Bo Lind", "Cleo Marsh", "Dan Frey", "Eve Holm", "Finn Roe", "Gil Ames"],
            [
                (
                    "Salary",
                    "EUR",
                    2000,
                    9000,
                    0,
                    "What does {0} earn?",
                    "{0} earns {1} EUR a month",
                ),
                ("Age", "", 20, 60, 0, "What is the age of {0}?", "{0} is {1} years old"),
                (
                    "Extension",
                    "",
                    1000,
                    9999,
                    0,
                    "extension of {0}",
                    "You reach {0} on extension {1}",
                ),
            ],
        ),
        (
            "Ferry",
            ["Aurora", "Borealis", "Calypso", "Dorado", "Estrella"],
            [
                ("Cabins", "berths", 20, 400, 0, "cabins of {0}", "The {0} sleeps {1} berths"),
                ("Cruise pace", "kn", 9, 40, 1, "cruise pace of the {0}", "The {0} does {1} kn"),
                ("Deck number", "", 2, 14, 0, "deck number of the {0}", "The {0} has deck {1}"),
            ],
        ),
    ],
}
TOTAL = {"zh": "合计", "en": "Total"}


@dataclass(frozen=True, slots=True)
class Made:
    """A table as a passage has it, with the header that was carried on; cells by name and label."""

    text: str
    carried: str
    subject: Subject
    names: Sequence[str]
    values: dict[tuple[str, str], str]
    layout: str


def made_tables(language: str, *, is_tuning: bool) -> Iterator[Made]:
    """Yield tables of all layouts in turn."""
    rng = random.Random(SEEDS[is_tuning])
    subjects = (TUNED if is_tuning else HELD_OUT)[language]
    for number in range(N_TABLES[is_tuning]):
        layout = ("rows", "columns", "total", "carried")[number % 4]
        yield make_table(rng.choice(subjects), layout, language, rng)


def make_table(subject: Subject, layout: str, language: str, rng: random.Random) -> Made:
    """Return a table whose values all differ."""
    corner, names, attributes = subject
    chosen = rng.sample(names, rng.randint(3, min(7, len(names))))
    form = rng.choice(("{0}({1})", "{0}（{1}）") if language == "zh" else ("{0} ({1})", "{0} {1}"))
    labels = {a[0]: form.format(a[0], a[1]) if a[1] else a[0] for a in attributes}
    values, used = dict[tuple[str, str], str](), set[str]()
    for name in chosen:
        for label, _, least, most, digits, *_ in attributes:
            while (value := f"{rng.uniform(least, most):.{digits}f}") in used:
                pass
            used.add(value)
            values[name, label] = value
    rows = [[corner, *labels.values()]]
    rows += [[name, *(values[name, label] for label in labels)] for name in chosen]
    if layout == "total":
        sums = [sum(float(values[name, label]) for name in chosen) for label in labels]
        rows.append([TOTAL[language], *(f"{one:.0f}" for one in sums)])
    if layout == "columns":
        rows = [list(row) for row in zip(*rows, strict=True)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    carried = lines.pop(0) if layout == "carried" else ""
    return Made("\n".join(lines), carried, subject, chosen, values, layout)


def as_passage(made: Made) -> tuple[Passage, ...]:
    """Return the table as what was found."""
    (passage,) = as_passages([made.text])
    return (replace(passage, hit=replace(passage.hit, table_header=made.carried)),)


def measure_answers(report: Report, language: str, tables: Sequence[Made], n_shown: int) -> None:
    """Print how many questions are answered with their cell, its column and a quote that holds."""
    count, model = Counter[str](), ExtractiveChatModel()
    for made in tables:
        for name in made.names[:3]:
            for label, _, _, _, _, question, _ in made.subject[2]:
                asked = question.format(name)
                request = ChatRequest(
                    [],
                    question=asked,
                    passages=[("doc_01", made.text)],
                    table_headers=[made.carried],
                )
                answer = verify_answer(model.generate(request).text, as_passage(made))
                first = answer.text.split("\n")[0]
                is_right = bool(re.search(rf"{re.escape(made.values[name, label])}(?!\d)", first))
                others = [
                    made.values[name, other[0]] for other in made.subject[2] if other[0] != label
                ]
                is_right = (
                    is_right and label in first and not any(o in first.split() for o in others)
                )
                holds = all(one.verdict in HOLDING_VERDICTS for one in answer.citations)
                is_right = is_right and holds and bool(answer.citations)
                count.update({"n": 1, "right": is_right, "held": answer.outcome == "answered"})
                if not is_right and count["n"] - count["right"] <= n_shown:
                    print(f"    {asked}: {answer.text!r} of {made.text!r}")
    report.add(
        f"{language}: cell answered (of {count['n']})", count["right"] / count["n"], least=0.95
    )
    report.add(
        f"{language}: such answers judged as said", count["held"] / count["n"], is_kept=False
    )


def measure_claims(report: Report, language: str, tables: Sequence[Made], n_shown: int) -> None:
    """Print how many right claims are doubted, and how many wrong ones pass."""
    n, failed = Counter[str](), Counter[str]()
    rng = random.Random(7)
    for made in tables:
        for name in made.names[:3]:
            for label, *_, says in made.subject[2]:
                right = made.values[name, label]
                rows = [made.values[one, label] for one in made.names if one != name]
                columns = [made.values[name, one[0]] for one in made.subject[2] if one[0] != label]
                for kind, value in (
                    ("right", right),
                    ("row", rng.choice(rows)),
                    ("column", rng.choice(columns)),
                ):
                    claim = says.format(name, value)
                    answer = verify_answer(claim + "。.", as_passage(made))
                    holds = answer.outcome == "answered"
                    n[kind] += 1
                    failed[kind] += holds != (kind == "right")
                    if holds != (kind == "right") and failed[kind] <= n_shown:
                        print(f"    {kind}, {claim} of {made.text!r}")
    for kind, name, most in (
        ("right", "right claims doubted", 0.05),
        ("row", "numbers of another row passed", 0.05),
        ("column", "numbers of another column passed", 0.05),
    ):
        report.add(f"{language}: {name} (of {n[kind]})", failed[kind] / n[kind], most=most)


def main(arguments: list[str] | None = None) -> None:
    """Measure both languages and keep the row, unless only the tuned tables are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true", help="the other tables; keeps nothing")
    parser.add_argument(
        "--show", type=int, default=0, metavar="N", help="print N failures of a kind"
    )
    chosen = parser.parse_args(arguments)
    report = Report("tables")
    for language in ("zh", "en"):
        tables = list(made_tables(language, is_tuning=chosen.tune))
        measure_answers(report, language, tables, chosen.show * chosen.tune)
        measure_claims(report, language, tables, chosen.show * chosen.tune)
    if not chosen.tune:
        report.save()


if __name__ == "__main__":
    main()

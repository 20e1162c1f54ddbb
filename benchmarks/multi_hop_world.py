"""Made-up world of people, towns, books, firms and buildings: questions bridge two passages.

Every kind says the same of each of its things, so that no passage can be told from its neighbours
without the name that only another passage holds. The wordings of the two halves differ.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

SEED = 20261130
N_OF_EACH = 40
HALVES = ("tuning", "held-out")


@dataclass(frozen=True, slots=True)
class BridgedQuestion:
    """A question whose answer stands in the second of two passages, named in the first alone."""

    key: str
    language: str
    half: str
    text: str
    passages: tuple[str, ...]


_NAMES: Mapping[str, Mapping[str, tuple[list[str], list[str]]]] = {
    "en": {
        "person": (
            [
                "Edda",
                "Ivo",
                "Marlen",
                "Tobias",
                "Wilma",
                "Ruben",
                "Sanne",
                "Lucian",
                "Petra",
                "Anselm",
            ],
            [
                "Harrowgate",
                "Lindqvist",
                "Okonedo",
                "Brasseur",
                "Tallis",
                "Verhoef",
                "Dunmore",
                "Castell",
            ],
        ),
        "town": (
            ["Hal", "Brim", "Oster", "Kel", "Wen", "Tarn", "Mor", "Lis", "Pell", "Grun"],
            ["wick", "ford", "stad", "haven", "burgh", "mouth"],
        ),
        "book": (
            [
                "Silent",
                "Amber",
                "Crooked",
                "Winter",
                "Paper",
                "Northern",
                "Salted",
                "Hollow",
                "Distant",
                "Iron",
            ],
            ["Orchard", "Ledger", "Lighthouse", "Meridian", "Harvest"],
        ),
        "firm": (
            [
                "Novar",
                "Celdon",
                "Brisk",
                "Ultan",
                "Ferro",
                "Quill",
                "Aster",
                "Bolden",
                "Tessel",
                "Varnet",
            ],
            ["Works", "Instruments", "Mills", "Foundry", "Optics"],
        ),
        "building": (
            [
                "Corn",
                "Silk",
                "Harbour",
                "Mint",
                "Salt",
                "Archive",
                "Glass",
                "Tide",
                "Bell",
                "Lantern",
            ],
            ["Exchange", "Pavilion", "Arcade", "Hall", "Rotunda"],
        ),
        "river": (
            ["Ald", "Sev", "Bor", "Tir", "Ness", "Ullen", "Cav", "Rho"],
            ["a", "en", "ow", "is", "er"],
        ),
    },
    "zh": {
        "person": (
            list("陆沈顾秦乔温裴苏傅邵"),
            ["承远", "雨桐", "景行", "若兰", "思齐", "云舟", "明哲", "清和"],
        ),
        "town": (list("青临云安澄白南丰石松"), ["河县", "岭镇", "泽市", "浦镇", "原县", "川市"]),
        "book": (
            ["寂静", "琥珀", "北方", "冬日", "纸上", "远方", "盐色", "空谷", "铁色", "斜阳"],
            ["果园", "灯塔", "账本", "收获", "子午线"],
        ),
        "firm": (
            ["恒锐", "博澜", "启衡", "正屿", "卓岚", "鸿钧", "联晟", "远拓", "精程", "维朗"],
            ["仪器", "铸造", "纺织", "光学", "机械"],
        ),
        "building": (
            ["谷物", "丝绸", "港口", "盐业", "玻璃", "潮汐", "钟声", "灯火", "铸币", "档案"],
            ["交易所", "大厅", "会馆", "拱廊", "穹楼"],
        ),
        "river": (list("澜沅浔泗涟沧淇溱"), list("江河水溪川")),
    },
}
_BOOK_MARKS = {"en": "“{}”", "zh": "《{}》"}
_SCHOOLS = {
    "en": ["the Polytechnic of Arlon", "the Royal College of Vessin", "the Academy of Tromp"],
    "zh": ["安陵工学院", "维新师范学堂", "东屏大学"],
}
_JOBS = {
    "en": ["pharmacist", "surveyor", "typesetter", "glazier"],
    "zh": ["药剂师", "测绘员", "排字工", "玻璃匠"],
}
_PASSAGES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "en": {
        "person": (
            "{person} was born in {town} in {year}, trained as a {job} and studied at {school}. "
            "Letters from those years show a patient mind with a dislike of ceremony.",
            "A native of {town}, {person} (born {year}) learned the trade of a {job}. "
            "{school} admitted the young talent two years later; a prize followed.",
        ),
        "town": (
            "{town} lies on the {river} and has {n} inhabitants. Its mayor is {other}. "
            "A market has been held on the square since the Middle Ages.",
            "With {n} inhabitants {town} is a quiet place; the {river} flows past its walls. "
            "{other} was elected mayor last spring.",
        ),
        "book": (
            "{book} is a novel by {person}, first printed in {year2}. "
            "Reviewers praised its slow pace and its portraits of minor figures.",
            "The novel {book} came out in {year2}. Its author, {person}, rewrote "
            "the end four times.",
        ),
        "firm": (
            "{firm} was founded by {person} and has its seat in {town}. It makes the {product}. "
            "The company employs three hundred people.",
            "The {product} is made by {firm}, a company that {person} founded. "
            "Its offices stand near the station of {town}.",
        ),
        "building": (
            "The {building} was designed by {person} and opened in {year2}. "
            "Its roof of copper was renewed twice.",
            "When the {building} opened in {year2}, its architect {person} did not attend. "
            "The façade is of pale limestone.",
        ),
    },
    "zh": {
        "person": (
            "{person}，{year}年出生于{town}，早年学做{job}，后就读于{school}。"
            "那些年的书信显示出耐心的性格，不喜欢排场。",
            "{person}是{town}人，生于{year}年，做过{job}。两年后考入{school}，并获得奖学金。",
        ),
        "town": (
            "{town}位于{river}岸边，有{n}名居民，镇上的负责人是{other}。广场上的集市自古就有。",
            "{town}十分安静，人口{n}人，{river}从城墙下流过。去年春天，{other}当选为当地负责人。",
        ),
        "book": (
            "{book}是{person}的长篇小说，{year2}年首次出版。评论称赞它节奏舒缓，小人物写得生动。",
            "长篇小说{book}于{year2}年问世，作者{person}把结尾改写了四次。",
        ),
        "firm": (
            "{firm}由{person}创办，总部设在{town}，生产{product}。公司有三百名员工。",
            "{product}是{firm}的产品。这家公司由{person}创立，办公楼在{town}车站附近。",
        ),
        "building": (
            "{building}由{person}设计，{year2}年落成。铜屋顶先后更换过两次。",
            "{building}于{year2}年启用，建筑师{person}没有出席典礼。外墙用的是浅色石灰岩。",
        ),
    },
}
# What is asked: of which thing, over which bridge, in the wordings of either half.
_ASKED: Mapping[str, tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...]] = {
    "en": (
        (
            "book",
            "person",
            (
                "Where was the author of {book} born?",
                "In which year was the writer who wrote {book} born?",
            ),
            (
                "What is the birthplace of the person that penned {book}?",
                "Which trade did the author of {book} learn?",
                "{book} was written by whom, and which school did its author attend?",
            ),
        ),
        (
            "person",
            "town",
            (
                "Which river flows through the town where {person} was born?",
                "How many inhabitants does the birthplace of {person} have?",
            ),
            (
                "Who is mayor of {person}'s home town?",
                "What's the population of the place {person} comes from?",
                "The town in which {person} was born lies on which river?",
            ),
        ),
        (
            "firm",
            "person",
            (
                "At which school did the founder of {firm} study?",
                "When was the founder of {firm} born?",
            ),
            (
                "What profession was the person who founded {firm} trained in?",
                "Where does the founder of {firm} come from?",
                "Which college did {firm}'s founder go to?",
            ),
        ),
        (
            "building",
            "person",
            (
                "In which town was the architect who designed the {building} born?",
                "What had the architect of the {building} been trained as?",
            ),
            (
                "Name the school at which the designer of the {building} studied.",
                "When was the {building}'s architect born?",
                "The man or woman who built the {building}: from which town?",
            ),
        ),
        (
            "product",
            "town",
            (
                "On which river lies the town where the maker of the {product} has its seat?",
                "How many people live in the town in which the company that makes the {product} "
                "is based?",
            ),
            (
                "Who is the mayor of the town that is home to the producer of the {product}?",
                "What is the population of the seat of the company behind the {product}?",
                "Which river passes the town from which the {product} comes?",
            ),
        ),
        (
            "town",
            "mayor",
            (
                "Where was the mayor of {town} born?",
                "What did the mayor of {town} learn as a trade?",
            ),
            (
                "In which year was {town}'s mayor born?",
                "Which school has the person attended who is mayor of {town}?",
                "From where does the mayor of {town} come?",
            ),
        ),
    ),
    "zh": (
        (
            "book",
            "person",
            ("{book}的作者的出生地是哪里？", "写{book}的作家是哪一年出生的？"),
            (
                "{book}的作者是哪里人？",
                "{book}这本小说的作者早年学的是什么手艺？",
                "创作了{book}的那个人毕业于哪所学校？",
            ),
        ),
        (
            "person",
            "town",
            ("{person}出生的地方有哪条河流过？", "{person}的出生地有多少人口？"),
            ("{person}的家乡由谁负责？", "{person}老家有多少居民？", "哪条河流经{person}的故乡？"),
        ),
        (
            "firm",
            "person",
            ("{firm}的创始人在哪所学校读书？", "创办{firm}的人出生于哪一年？"),
            (
                "{firm}的创办者以前是做什么的？",
                "{firm}是谁创立的，此人出生在哪里？",
                "{firm}创始人的母校是哪一所？",
            ),
        ),
        (
            "building",
            "person",
            ("设计{building}的建筑师出生在哪里？", "{building}的建筑师早年学做什么？"),
            (
                "{building}的设计者是哪一年生的？",
                "{building}建筑师就读于什么学校？",
                "是哪里人设计了{building}？",
            ),
        ),
        (
            "product",
            "town",
            (
                "生产{product}的公司总部所在地位于哪条河边？",
                "{product}的制造商所在的城镇有多少居民？",
            ),
            (
                "出产{product}的企业，它所在的城镇人口是多少？",
                "{product}的厂家所在地的负责人是谁？",
                "{product}产地旁边流过的是哪条河？",
            ),
        ),
        (
            "town",
            "mayor",
            ("{town}的负责人是哪里出生的？", "{town}的负责人做过什么职业？"),
            (
                "{town}的负责人哪年出生？",
                "担任{town}负责人的那位上过什么学校？",
                "{town}负责人的籍贯在哪里？",
            ),
        ),
    ),
}


def made_up_world(language: str) -> tuple[dict[str, str], list[BridgedQuestion]]:
    """Return the passages by their ids, and thirty questions that bridge two of them."""
    rng = random.Random(f"{SEED} {language}")
    names = {kind: _some_names(rng, language, kind) for kind in _NAMES[language]}
    products = [f"{code}-{n}" for n, code in enumerate(_codes(rng, N_OF_EACH), 100)]
    people, towns = names["person"], names["town"]
    # Who stands behind what; a person is born in the town of the same number.
    behind = {
        kind: rng.sample(range(N_OF_EACH), N_OF_EACH)
        for kind in ("book", "firm", "building", "mayor", "seat")
    }
    documents: dict[str, str] = {}
    for n in range(N_OF_EACH):
        for kind, shapes in _PASSAGES[language].items():
            told = {
                "person": people[
                    n if kind == "person" else behind.get(kind, [0])[n] if kind in behind else n
                ],
                "town": towns[behind["seat"][n] if kind == "firm" else n],
                "other": people[behind["mayor"][n]],
                "book": _BOOK_MARKS[language].format(names["book"][n]),
                "firm": names["firm"][n],
                "building": names["building"][n],
                "product": products[n],
                "river": names["river"][n],
                "school": rng.choice(_SCHOOLS[language]),
                "job": rng.choice(_JOBS[language]),
                "year": rng.randint(1870, 1960),
                "year2": rng.randint(1961, 2020),
                "n": rng.randint(2000, 90000),
            }
            documents[f"{kind}-{n}"] = rng.choice(shapes).format(**told)
    questions = []
    for place, (kind, bridge, *wordings) in enumerate(_ASKED[language]):
        for half, asked in zip(HALVES, wordings, strict=True):
            for number, wording in enumerate(asked):
                n = (7 * place + 3 * number + 20 * (half == "held-out")) % N_OF_EACH
                first = "firm" if kind == "product" else kind
                second = _second(bridge, first, n, behind)
                text = wording.format(
                    person=people[n],
                    town=towns[n],
                    book=_BOOK_MARKS[language].format(names["book"][n]),
                    firm=names["firm"][n],
                    building=names["building"][n],
                    product=products[n],
                )
                key = f"{language}-{place}-{half}-{number}"
                questions.append(
                    BridgedQuestion(key, language, half, text, (f"{first}-{n}", second))
                )
    return documents, questions


def _second(bridge: str, first: str, n: int, behind: Mapping[str, list[int]]) -> str:
    if bridge == "mayor":
        return f"person-{behind['mayor'][n]}"
    if bridge == "town":
        return f"town-{behind['seat'][n] if first == 'firm' else n}"
    return f"person-{behind[first][n]}"


def _some_names(rng: random.Random, language: str, kind: str) -> list[str]:
    first, second = _NAMES[language][kind]
    joint = " " if language == "en" and kind not in ("town", "river") else ""
    made = [f"{a}{joint}{b}" for a in first for b in second]
    return rng.sample(made, N_OF_EACH)


def _codes(rng: random.Random, n: int) -> list[str]:
    letters = [a + b for a in "BDKMPTVX" for b in "LNRSWZ"]
    return rng.sample(letters, n)

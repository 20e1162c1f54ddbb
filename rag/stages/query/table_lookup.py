"""Table lookup: the cells of a table that a question asks for, by the rows and columns it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag.stages.text.tables import (
    NO_VALUE,
    TableRow,
    TextTable,
    attributes,
    fold,
    is_value,
    label_name,
    names_label,
    stands_in,
)
from rag.stages.text.terms import content_terms, index_terms

MAX_ROWS, MAX_COLUMNS = 3, 12
# So much less surely named than the best is as good.
_AS_GOOD = 0.05
_WORDS: Mapping[bool, Mapping[str, str]] = {
    True: {
        "cell": "{row}的{column}：{value}",
        "more": "{column}：{value}",
        "joint": "；",
        "end": "。",
        "unnamed": "第 {n} 列",
        NO_VALUE: "单元格是公式，没有存储的值",
        "": "单元格为空，没有存储的值",
    },
    False: {
        "cell": "{column} of {row}: {value}",
        "more": "{column}: {value}",
        "joint": "; ",
        "end": ".",
        "unnamed": "column {n}",
        NO_VALUE: "the cell holds a formula without a stored value",
        "": "the cell is empty, without a stored value",
    },
}


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """Cells of one row that a question asks for; ``key`` is the place of the cell that names it.

    ``share`` is how much of the question's words the names explain, 0 to 1.
    """

    table: TextTable
    row: TableRow
    key: int
    places: tuple[int, ...]
    share: float

    def in_words(self, *, is_chinese: bool) -> str:
        """Return what the cells say, each with the name of its column and row."""
        words = _WORDS[is_chinese]
        parts = list[str]()
        for place in self.places:
            column = self.table.column(place) or words["unnamed"].format(n=place + 1)
            row, value = self.row.cells[self.key], self.row.cells[place]
            if self.table.is_transposed and self.key == 0:
                row, column = column, row
            form = "more" if parts and not self.table.is_transposed else "cell"
            value = words.get(value if value in ("", NO_VALUE) else "-", value)
            parts.append(words[form].format(row=row, column=column, value=value))
        return words["joint"].join(parts) + words["end"]


def look_up_cells(question: str, table: TextTable) -> list[TableAnswer]:
    """Return the cells of the rows that a question names, best first; none where it names none."""
    named = _named_rows(question, table)
    if not named:
        return list(_whole_columns(question, table))
    columns = _named_columns(question, table)
    found = []
    for row, key in named[:MAX_ROWS]:
        places = [at for at in columns if at < len(row.cells) and at != key]
        is_whole = not places
        if is_whole:
            # Named by the row alone: all that it says.
            others = (at for at in range(len(row.cells)) if at != key)
            places = [at for at in others if row.cells[at]][:MAX_COLUMNS]
            places = places or [len(row.cells) - 1] * (key < len(row.cells) - 1)
        names = [row.cells[key], *(() if is_whole else map(table.column, places))]
        if places:
            share = _explained(question, names)
            found.append(TableAnswer(table, row, key, tuple(places), share))
    return found


def _whole_columns(question: str, table: TextTable) -> Iterator[TableAnswer]:
    """Yield what a table says of that which its header names, where its rows are attributes."""
    named = [place for place in _named_columns(question, table) if place > 0]
    for place in named[:1] if table.is_transposed else ():
        share = _explained(question, [table.column(place)])
        for row in table.rows[:MAX_COLUMNS]:
            if row.cells[0] and place < len(row.cells):
                yield TableAnswer(table, row, 0, (place,), share)


def _named_rows(question: str, table: TextTable) -> list[tuple[TableRow, int]]:
    """Return the rows that are named most surely, each with the place of the cell that does."""
    named: list[tuple[float, int, TableRow, int]] = []
    for number, row in enumerate(table.rows):
        surest = max(_sure_cells(question, row), default=(0.0, 0))
        if surest[0] > 0:
            named.append((surest[0], number, row, -surest[1]))
    best = max((sure for sure, *_ in named), default=0.0)
    kept = [one for one in named if one[0] >= best - _AS_GOOD]
    names = {fold(row.cells[key]) for *_, row, key in kept}
    inner = {one for one in names for other in names if one != other and one in other}
    return [(row, key) for *_, row, key in kept if fold(row.cells[key]) not in inner]


def _sure_cells(question: str, row: TableRow) -> Iterator[tuple[float, int]]:
    """Yield how surely each cell names its row; cells but the first do by their own words alone."""
    for place, cell in enumerate(row.cells):
        if cell and (place == 0 or not is_value(cell)) and cell != NO_VALUE:
            sure = names_label(question, cell)
            if sure == 1.0 or (sure and place == 0):
                yield sure, -place


def _named_columns(question: str, table: TextTable) -> list[int]:
    sure = {place: names_label(question, name) for place, name in enumerate(table.columns) if name}
    best = max(sure.values(), default=0.0)
    kept = [place for place, one in sure.items() if one and one >= best - _AS_GOOD]
    names = {place: _spoken_name(question, table.columns[place]) for place in kept}
    # What stands within a longer name that is held too is that name's: price in "price paid".
    spoken = set(names.values())
    inner = {one for one in spoken for other in spoken if one != other and stands_in(one, other)}
    return [place for place in kept if names[place] not in inner]


def _spoken_name(question: str, label: str) -> str:
    """Return a label as a question names it: whole if it holds the whole, else without its unit."""
    whole = fold(label)
    return whole if stands_in(whole, fold(question)) else fold(label_name(label))


def _explained(question: str, names: Sequence[str]) -> float:
    """Return which share of a question's words the names of cells explain."""
    asked = content_terms(question)
    terms = index_terms(" ".join(names))
    spoken = frozenset[int]().union(*map(attributes, names))
    whole = sum(asked.values())
    known = sum(
        weight for term, weight in asked.items() if term in terms or attributes(term) & spoken
    )
    return known / whole if whole else 0.0

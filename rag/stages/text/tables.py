"""Table reader: rows and columns of the pipe tables in a text, and which of them a phrase names.

A table lies either way: its columns are named by its first row, its rows by their first cell. A
record, a text of lines with a key and a value each, is a row of such a table.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from Stemmer import Stemmer

from rag.stages.text.terms import STOP_WORDS, is_han
from rag.stages.text.units import UNITS

# What a spreadsheet's cell holds whose formula was never worked out.
NO_VALUE = "[formula without a stored value]"
_LINE = re.compile(r"[^\n\f]+")
_RULE = re.compile(r":?-{2,}:?")
_BAR = re.compile(r"(?<!\\)\|")
_UNIT = re.compile(r"[(（\[]\s*([^()（）\[\]]{1,12})\s*[)）\]]|[/／,，]\s*([^/／,，\s]{1,8})$")
# An amount, a date or a time and nothing else but a sign and a unit.
_VALUE = re.compile(
    r"[^\w\s]{0,3}\s?(?:US|RMB|EUR|USD|CNY)?\s?[-−+(]?\d[\d.,:/ \-年月日]*(?:e[+-]?\d+)?\)?\s?"
    r"(?:[%‰°℃]|[a-zµ°][\wµ²³/%]{0,8}|[\u4e00-\u9fff]{1,3})?",
    re.I,
)
# Codes and signs are units by their shape; a plain word is one if it is known as such.
_LAST_UNIT = re.compile(
    r"(?=.{0,5}[^a-z])[a-zµ°%][\w²³/%]{0,5}|[b-df-hj-np-tv-xz]{1,4}|[A-Z]{1,3}|[A-Z][a-z]"
)
_MAX_HEADER_ROWS = 3
_WORD = re.compile(r"[^\W_]+(?:[-_./'’+][^\W_]+)*")
# A line is a set of words for one attribute, in both languages.
_ATTRIBUTES = Path(__file__).with_name("attributes.txt")
_FIELD = re.compile(r"\s*([^\W\d][^:：\n|]{0,39}?)\s*(?::\s|：)\s*(\S.*)")
_STOPS = frozenset("。.！!？?；;")
# Words of a key: unit_price, unitPrice.
_KEY_BORDER = re.compile(r"_+|(?<=[a-z])(?=[A-Z])")
_ID = re.compile(r"(?:^|\s)(?:id|no\.?|nr\.?|number|code|sku)$|编号|单号|号码|代码|型号", re.I)
_MIN_LABEL, _MIN_SHARED = 2, 0.6


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row and where its line stands in the text, bars included."""

    start: int
    end: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with the names of its columns.

    ``header`` are the rows that name them, none where the table goes on from another chunk. Of
    records ``names`` are what each row is called by; nothing else in it names it.
    """

    columns: tuple[str, ...]
    header: tuple[TableRow, ...]
    rows: tuple[TableRow, ...]
    names: tuple[tuple[str, ...], ...] = ()

    @property
    def is_transposed(self) -> bool:
        """Return whether its first column names what is told, and its header of what."""
        down = [row.cells[0] for row in self.rows if row.cells[0]]
        across = [one for one in self.columns[1:] if one]
        return bool(down) and _n_attributes(down) / len(down) > _n_attributes(across) / max(
            1, len(across)
        )

    def column(self, place: int) -> str:
        """Return the name of a column, empty where it has none."""
        return self.columns[place] if place < len(self.columns) else ""


@lru_cache(maxsize=256)
def read_tables(text: str, carried: str = "") -> tuple[TextTable, ...]:
    """Return the tables of a text; ``carried`` is the header of one that it goes on with."""
    found = []
    for number, rows in enumerate(_runs(text)):
        table = _table(rows, list(_rows(carried)) if number == 0 else [])
        if table.rows and len(table.columns) > 1:
            found.append(table)
    return tuple(found)


def _runs(text: str) -> Iterator[list[TableRow]]:
    """Yield the rows that follow each other; a new page parts none."""
    run, end = list[TableRow](), 0
    for row in _rows(text):
        gap = text[end : row.start]
        is_apart = gap.strip() or (gap.count("\n") > 1 and "\f" not in gap)
        if run and is_apart:
            yield run
            run = []
        run.append(row)
        end = row.end
    if run:
        yield run


def _rows(text: str) -> Iterator[TableRow]:
    for match in _LINE.finditer(text):
        line = match[0].strip()
        if len(line) > 2 and line[0] == line[-1] == "|":
            start = match.start() + match[0].index("|")
            cells = tuple(cell.strip().replace("\\|", "|") for cell in _BAR.split(line[1:-1]))
            yield TableRow(start, start + len(line), cells)


def _table(rows: Sequence[TableRow], carried: Sequence[TableRow]) -> TextTable:
    n_header = 1
    if rule := next((n for n, row in enumerate(rows[:4]) if _is_rule(row)), 0):
        n_header = rule
    else:
        while n_header < min(_MAX_HEADER_ROWS, len(rows) - 1) and _is_below(rows, n_header):
            n_header += 1
    body = [row for row in rows if not _is_rule(row)]
    if carried and [row.cells for row in carried] != [row.cells for row in body[: len(carried)]]:
        return TextTable(_names(carried), (), tuple(body))
    n_header = len(carried) or n_header
    return TextTable(_names(body[:n_header]), tuple(body[:n_header]), tuple(body[n_header:]))


def _is_rule(row: TableRow) -> bool:
    return all(_RULE.fullmatch(cell) for cell in row.cells)


def _is_below(rows: Sequence[TableRow], at: int) -> bool:
    """Return whether a row goes on with the names of the columns."""
    first, here = rows[0].cells, rows[at].cells
    is_left_out = not here[0] or here[0] == first[0]
    is_wide = len(set(filter(None, first))) < len(first)
    return is_left_out and is_wide and not any(is_value(cell) for cell in here)


def _names(header: Sequence[TableRow]) -> tuple[str, ...]:
    """Return the names of columns, of several rows joined; a merged one stands over the next."""
    n_columns = max((len(row.cells) for row in header), default=0)
    parts: list[list[str]] = [[] for _ in range(n_columns)]
    for level, row in enumerate(header):
        left = ""
        for place in range(n_columns):
            cell = row.cells[place] if place < len(row.cells) else ""
            left = cell or (left if level < len(header) - 1 else "")
            if left and left not in parts[place]:
                parts[place].append(left)
    return tuple(" ".join(one) for one in parts)


@lru_cache(maxsize=256)
def read_records(text: str) -> tuple[TextTable, ...]:
    """Return the records of a text that is nothing else, each as a table of one row.

    They are parted by empty lines; a line without a key goes on with the value before it. Where
    most values are sentences it is a list, and no record.
    """
    found, start = [], 0
    for block in re.split(r"(\n\s*\n)", text):
        lines, end = block.splitlines(), start + len(block)
        if lines and block.strip():
            if not _FIELD.fullmatch(lines[0]):
                return ()
            fields = [match.groups() for line in lines if (match := _FIELD.fullmatch(line))]
            n_said = sum(value.rstrip()[-1] in _STOPS for _, value in fields)
            if len(fields) < max(2, len(lines) / 2) or n_said > len(fields) / 2:
                return ()
            found.append(_record(fields, start, end))
        start = end
    return tuple(found)


def _record(fields: Sequence[tuple[str, ...]], start: int, end: int) -> TextTable:
    labels = [_KEY_BORDER.sub(" ", key) for key, _ in fields]
    values = [value.strip() for _, value in fields]
    pairs = list(zip(labels, values, strict=True))
    texts = [(label, value) for label, value in pairs if not is_value(value)]
    titles = [value for label, value in texts if attributes(label) & attributes("name")]
    ids = [value for label, value in pairs if _ID.search(label)]
    names = [*titles[:1], *ids] or [value for _, value in texts[:1]]
    called = tuple(dict.fromkeys(name for name in names if len(name) >= _MIN_LABEL))
    row = TableRow(start, end, ("", *values))
    return TextTable(("", *labels), (), (row,), (called,))


def is_value(cell: str) -> bool:
    """Return whether a cell is an amount, date or time rather than a name."""
    return bool(_VALUE.fullmatch(cell))


def label_unit(label: str) -> str:
    """Return the unit in a label: W of 功率(W), EUR of Price EUR; empty where it has none."""
    if match := _UNIT.search(label):
        return match[1] or match[2]
    *name, last = label.split() or [""]
    return last if name else ""


def label_name(label: str) -> str:
    """Return a label without its unit, in brackets or as a last word: Price of Price EUR."""
    name, _, last = label.rpartition(" ")
    is_unit = _LAST_UNIT.fullmatch(last) or last.casefold() in UNITS
    if is_unit and attributes(name):
        return name
    return _UNIT.sub("", label).strip() or label


def names_label(text: str, label: str) -> float:
    """Return how surely a text names a row or column: 1 in its own words, less by another word."""
    name = fold(label_name(label))
    if len(name) < _MIN_LABEL or not any(map(str.isalpha, name)):
        whole = fold(label)
        return float(bool(whole) and any(map(str.isalnum, whole)) and stands_in(whole, fold(text)))
    if stands_in(name, fold(text)):
        return 1.0
    words = _stems(label_name(label))
    own = _stems(text)
    shared = len(words & own) / len(words) if words else 0.0
    # Numbers and codes tell labels apart: they are all there, or it is another one.
    is_other = any(any(map(str.isdigit, word)) for word in words - own)
    if is_other:
        return 0.0
    if shared >= _MIN_SHARED:
        return 0.9 * shared
    return 0.7 if attributes(label_name(label)) & attributes(text) else 0.0


def stands_in(name: str, text: str) -> bool:
    """Return whether a folded name stands in a folded text, no part of a longer word or number."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (_is_joined(before, name[0]) or _is_joined(name[-1], after)):
            return True
        at = text.find(name, at + 1)
    return False


def _is_joined(left: str, right: str) -> bool:
    # Scripts without spaces between words part no words.
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """Return a text in the form in which cells are compared."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=4096)
def attributes(text: str) -> frozenset[int]:
    """Return the attributes (price, weight, stock …) that a text speaks of, as numbers."""
    folded, stems = fold(text), _stems(text)
    has_han = is_han(text) or not folded.isascii()
    latin, han = _lexicon()
    found = {group for stem in stems for group in latin.get(stem, ())}
    if has_han:
        found.update(group for word, group in han if word in folded)
    return frozenset(found)


@lru_cache(maxsize=1)
def _lexicon() -> tuple[dict[str, tuple[int, ...]], tuple[tuple[str, int], ...]]:
    latin: dict[str, tuple[int, ...]] = {}
    han: list[tuple[str, int]] = []
    for group, line in enumerate(_ATTRIBUTES.read_text(encoding="utf-8").splitlines()):
        for word in line.split():
            if word.isascii():
                for stem in _stems(word):
                    latin[stem] = (*latin.get(stem, ()), group)
            else:
                han.append((word, group))
    return latin, tuple(han)


@lru_cache(maxsize=4096)
def _stems(text: str) -> frozenset[str]:
    # Stemmer objects keep state between calls and are not safe to share between threads.
    stem = Stemmer("english", 0).stemWord
    words = (word for word in _WORD.findall(fold(text)) if word.isascii())
    return frozenset(stem(word) for word in words if word not in STOP_WORDS)


def _n_attributes(labels: Sequence[str]) -> int:
    # A total stands below rows of either kind.
    total = attributes("total")
    return sum(bool(_UNIT.search(one) or attributes(one) - total) for one in labels)

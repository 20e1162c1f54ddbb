"""Table claims: whether a table says a claim's numbers and names of the row and column it names.

A number counts in the cells of what is named alone: the power of the A100 is none of the B200.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from rag.stages.citing.attribute import claim_tokens
from rag.stages.citing.quantities import Quantity, read_figures
from rag.stages.text.tables import (
    NO_VALUE,
    TextTable,
    attributes,
    fold,
    is_value,
    label_name,
    label_unit,
    read_tables,
    stands_in,
)
from rag.stages.text.terms import is_han

_DENIAL = re.compile(r"\b(?:not|never|no|cannot)\b|n['’]t\b|[不没未无非]")
_COMPARES = re.compile(r"\bthan\b|\bdiffer|\b(?:more|less|fewer) by\b|比|相差|差(?:了|额|距)", re.I)
_MIN_NAME = 2
# So much of a name means it, if no other one has more.
_MIN_PART = 0.4
_COUNTER = re.compile(
    r"\d\s?(?:[件个台只支条张本份套辆间座栋家户所层瓶箱袋盒包根块片节门颗粒头匹艘架岁]"
    r"|(?:pieces?|pcs|items?|units?|points?)\b)"
)
_HAN = "\u2e80"
_BY_ORDER = re.compile(r"\brespectively\b|分别|依次", re.I)


@dataclass(frozen=True, slots=True)
class TableFinding:
    """What a table says of a claim: the ``place`` and span of the row that tells, why it fails."""

    place: int
    start: int
    end: int
    reason: Literal["", "number", "name", "denial"] = ""

    @property
    def holds(self) -> bool:
        """Return whether the table says it."""
        return not self.reason


def judge_by_tables(claim: str, text: str, carried: str = "") -> TableFinding | None:
    """Return what the tables of a text say of a claim, None where they say nothing of it.

    ``carried`` is the header of a table that the text goes on with.
    """
    if "|" not in text:
        return None
    found = [one for table in read_tables(text, carried) if (one := _Claim(claim, table).judge())]
    return min(found, key=lambda one: not one.holds, default=None)


def judge_by_records(claim: str, records: Sequence[TextTable]) -> TableFinding | None:
    """Return what records of one kind say of a claim, None where it names none of them.

    Each may lack keys that others have. The finding's ``place`` is that of the record.
    """
    columns = tuple(dict.fromkeys(label for one in records for label in one.columns))
    rows = []
    for one in records:
        (row,), values = one.rows, dict(zip(one.columns, one.rows[0].cells, strict=True))
        rows.append(replace(row, cells=tuple(values.get(label, "") for label in columns)))
    names = tuple(name for one in records for name in one.names)
    return _Claim(claim, TextTable(columns, (), tuple(rows), names)).judge()


class _Claim:
    """A claim held against one table."""

    def __init__(self, claim: str, table: TextTable) -> None:
        self.claim, self.table = fold(claim), table
        lines = enumerate(table.rows)
        self.keys = {n: key for n, row in lines if (key := self._named(n, row.cells))}
        self.heads = {
            n: label_name(name)
            for n, name in enumerate(table.columns)
            if name and n and _is_named(label_name(name), self.claim)
        }
        named = _innermost({n: name for n, (name, _) in self.keys.items()}).values()
        # Who names a row by its key means no other that shares a cell with it.
        first = min((place for _, place in self.keys.values()), default=0)
        self.rows = _innermost(
            {n: name for n, (name, place) in self.keys.items() if first or not place}
        )
        self.columns = _innermost(self.heads)
        self.told = {*named, *self.columns.values(), *self._texts()}

    def _texts(self) -> Iterator[str]:
        """Yield the cells in words that the claim gives as they stand in the one row it names.

        Their numbers and denials are the cell's own: "below 55 percent", "no signal".
        """
        if len(self.rows) == 1:
            for cell in self.table.rows[next(iter(self.rows))].cells[1:]:
                if not is_value(cell) and cell != NO_VALUE and _is_named(cell, self.claim):
                    yield cell

    def _named(self, n: int, cells: Sequence[str]) -> tuple[str, int] | None:
        if not self.table.names:
            return _named_cells(cells, self.claim)
        named = (name for name in self.table.names[n] if _is_named(name, self.claim))
        return next(((name, 0) for name in named), None)

    def judge(self) -> TableFinding | None:
        if not self.told or (self.table.names and not self.rows):
            return None
        numbers = _numbers(self.claim, self.told)
        found = self._by_numbers(numbers) if numbers else self._by_names()
        if found and _DENIAL.search(_without(self.claim, self.told)):
            # Who denies what a table says speaks against it; who denies another thing says nothing.
            return replace(found, reason="denial") if found.holds else None
        return found

    def _by_numbers(self, numbers: Sequence[Quantity]) -> TableFinding | None:
        rows, columns = self._wanted_rows(), self._wanted_columns()
        if not rows and not columns:
            return None
        parts = self._parts()
        places = self._places(numbers, rows, columns)
        is_told = all(places) and (not parts or self._in_parts(numbers, rows, columns, parts))
        if is_told and places:
            return self._finding(places[0][0][0])
        if _COMPARES.search(self.claim) and not all(places):
            return None
        return self._against(numbers, rows, columns)

    def _against(
        self, numbers: Sequence[Quantity], rows: set[int], columns: set[int]
    ) -> TableFinding | None:
        """Return the finding against numbers that stand where nothing of what is named does."""
        can_rival = any(
            one.rivals(cell) for one in numbers for _, _, cell in self._cells(rows, columns)
        )
        if not can_rival:
            return None
        return self._finding(min(rows, default=0), "number")

    def _finding(self, place: int, reason: Literal["", "number", "name"] = "") -> TableFinding:
        row = self.table.rows[place]
        return TableFinding(place, row.start, row.end, reason)

    def _by_names(self) -> TableFinding | None:
        """Judge what is said in names alone: those of one record stand in its row."""
        keyed = {n for n, (_, place) in self.keys.items() if place == 0 and n in self.rows}
        called = {fold(name) for n in keyed for name in (self.table.names or {n: ()})[n]}
        others = [
            (n, place, cell)
            for n, row in enumerate(self.table.rows)
            for place, cell in enumerate(row.cells)
            if place
            and not is_value(cell)
            and _is_named(cell, self.claim)
            and fold(cell) not in {*map(fold, self.columns.values()), *called}
        ]
        if len(keyed) != 1 or not others:
            return None
        (record,) = keyed
        own = {fold(cell) for cell in self.table.rows[record].cells}
        is_right = all(fold(cell) in own for _, _, cell in others)
        return self._finding(record, "" if is_right else "name")

    def _wanted_rows(self) -> set[int]:
        names = [row.cells[0] for row in self.table.rows]
        return set(self.rows) or self._unnamed(names)

    def _wanted_columns(self) -> set[int]:
        names = ["", *self.table.columns[1:]]
        return set(self.columns) or self._unnamed(names)

    def _unnamed(self, names: Sequence[str]) -> set[int]:
        """Return the rows or columns that a claim means without their names.

        It has another word for the same attribute, their unit behind a number, or a part of the
        name. A number of things that none of them counts is of those without a unit.
        """
        rest = _without(self.claim, self.told)
        spoken = attributes(rest)
        found = {
            n for n, name in enumerate(names) if name and attributes(label_name(name)) & spoken
        }
        if found:
            return found
        units = {n: fold(label_unit(name)) for n, name in enumerate(names) if name}
        if found := {n for n, unit in units.items() if unit and _is_behind_number(unit, rest)}:
            return found
        shares = {n: _shared_part(label_name(name), rest) for n, name in enumerate(names) if name}
        most = max(shares.values(), default=0.0)
        if most >= _MIN_PART:
            return {n for n, share in shares.items() if share == most}
        return {n for n, unit in units.items() if not unit} if _COUNTER.search(rest) else set()

    def _cells(self, rows: set[int], columns: set[int]) -> Iterator[tuple[int, int, Quantity]]:
        for n, row in enumerate(self.table.rows):
            if rows and n not in rows:
                continue
            for place, cell in enumerate(row.cells):
                if place and (not columns or place in columns) and cell and cell != NO_VALUE:
                    labels = (self.table.column(place), row.cells[0])
                    for value in cell_quantities(cell, labels):
                        yield n, place, value

    def _places(
        self, numbers: Sequence[Quantity], rows: set[int], columns: set[int]
    ) -> list[list[tuple[int, int]]]:
        cells = list(self._cells(rows, columns))
        units = {value.dimension for *_, value in self._cells(rows, set())} - {""}
        found = []
        for one in numbers:
            places = [(n, place) for n, place, value in cells if one.agrees(value)]
            exact = [
                (n, place)
                for n, place, value in cells
                if one.dimension and one.agrees(value) and value.dimension == one.dimension
            ]
            # A unit that another column has is that column's.
            found.append(exact if one.dimension in units else places)
        return found

    def _parts(self) -> list[tuple[int, int, int]]:
        """Return where several records are named: position, axis (0 rows, 1 columns), place."""
        for axis, named in enumerate((self.rows, self.columns)):
            is_record = (axis == 1) == self.table.is_transposed
            if len(set(named.values())) > 1 and is_record:
                spots = [(self.claim.find(fold(name)), axis, n) for n, name in named.items()]
                return sorted(spots)
        return []

    def _in_parts(
        self,
        numbers: Sequence[Quantity],
        rows: set[int],
        columns: set[int],
        parts: Sequence[tuple[int, int, int]],
    ) -> bool:
        """Return whether each number is of the record that it stands by."""

        def holds(one: Quantity, part: tuple[int, int, int]) -> bool:
            _, axis, n = part
            own = ({n}, columns) if axis == 0 else (rows, {n})
            return any(self._places([one], *own))

        if len(numbers) == 1:
            check = any if _COMPARES.search(self.claim) else all
            return check(holds(numbers[0], part) for part in parts)
        cuts = [at for at, *_ in parts]
        ends = [at + len(fold(self._name(part))) for at, part in zip(cuts, parts, strict=True)]
        behind = list(zip(cuts, [*cuts[1:], len(self.claim)], strict=True))
        ahead = list(zip([0, *ends[:-1]], ends, strict=True))
        for spans in () if _BY_ORDER.search(self.claim) else (behind, ahead):
            own = [_numbers(self.claim[slice(*span)], self.told) for span in spans]
            if sum(map(len, own)) == len(numbers) and all(own):
                pairs = zip(own, parts, strict=True)
                return all(holds(one, part) for ones, part in pairs for one in ones)
        if len(numbers) == len(parts):
            return all(map(holds, numbers, parts))
        return all(any(holds(one, part) for part in parts) for one in numbers)

    def _name(self, part: tuple[int, int, int]) -> str:
        return (self.rows, self.columns)[part[1]][part[2]]


def _named_cells(cells: Sequence[str], claim: str) -> tuple[str, int] | None:
    """Return the first cell of a row that a claim names, and its place."""
    for place, cell in enumerate(cells):
        name = label_name(cell) if place == 0 else cell
        if cell and cell != NO_VALUE and not is_value(cell) and _is_named(name, claim):
            return name, place
    return None


def _is_named(name: str, claim: str) -> bool:
    folded = fold(name)
    return len(folded) >= _MIN_NAME and stands_in(folded, claim)


def _innermost(named: dict[int, str]) -> dict[int, str]:
    """Return the names but those that are part of a longer one that is named, too."""
    folded = {fold(name) for name in named.values()}
    inner = {one for one in folded for other in folded if one != other and one in other}
    return {n: name for n, name in named.items() if fold(name) not in inner}


def _is_behind_number(unit: str, claim: str) -> bool:
    pattern = rf"\d\s?{re.escape(unit)}(?![a-z])"
    return not unit[0].isdigit() and bool(re.search(pattern, claim))


def _shared_part(name: str, claim: str) -> float:
    """Return how much of a name stands in a claim: of its words, or of its characters in a row."""
    words = {stem for *_, stem in claim_tokens(name)}
    if not is_han(name):
        return len(words & {stem for *_, stem in claim_tokens(claim)}) / max(1, len(words))
    pairs = range(len(name) - 1)
    lengths = (
        n for at in pairs for n in range(2, len(name) - at + 1) if name[at : at + n] in claim
    )
    return max(lengths, default=0) / len(name)


def _without(claim: str, names: set[str]) -> str:
    for name in sorted(map(fold, names), key=len, reverse=True):
        claim = claim.replace(name, " ")
    return claim


def _numbers(claim: str, names: set[str]) -> list[Quantity]:
    return list(read_figures(_without(claim, names)).quantities)


@lru_cache(maxsize=8192)
def cell_quantities(cell: str, labels: tuple[str, str]) -> tuple[Quantity, ...]:
    """Return the numbers of a cell, also in the unit that its column or row has in its name."""
    own = read_figures(cell).quantities
    if not is_value(cell) or any(one.dimension for one in own):
        return tuple(own)
    for unit in filter(None, map(label_unit, labels)):
        # 万人 is a unit with a factor: whatever makes a quantity of the number counts.
        found = read_figures(f"{cell}{'' if unit > _HAN else ' '}{unit}").quantities
        if len(found) == len(own) and all(one.dimension for one in found):
            return (*found, *own)
    return tuple(own)

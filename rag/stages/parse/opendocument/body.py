"""OpenDocument body as blocks: headings and lists with their labels, tables, text boxes, notes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree

from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.column_bands import table_texts
from rag.stages.parse.opendocument.package import OdfStyles, attribute, local, plain_text
from rag.stages.parse.table_grid import TableGrid
from rag.stages.parse.word.docx_numbering import format_number

# The forms of numbers, as Word names them.
_FORMS = {
    "1": "decimal",
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
    "一, 二, 三, ...": "chineseCounting",
    "１, ２, ３, ...": "decimalFullWidth",
}
# Deeper nesting is an attack: its text is taken as it comes.
_MAX_DEPTH = 40
_LEFT_OUT = frozenset({"tracked-changes", "table-of-content", "notes", "forms", "annotation"})


class OdfBody:
    """Adds what a body holds to a canonical text, in order."""

    def __init__(self, canonical: CanonicalText, styles: OdfStyles) -> None:
        self._canonical, self._styles = canonical, styles
        self._outline: dict[int, int] = {}
        self._counts: dict[str, dict[int, int]] = {}

    def add_all(self, parent: ElementTree.Element, depth: int = 0) -> None:
        """Add the blocks below an element."""
        if depth > _MAX_DEPTH:
            self._canonical.add("paragraph", " ".join("".join(parent.itertext()).split()))
            return
        for item in parent:
            tag = local(item)
            if tag in _LEFT_OUT:
                continue
            if tag == "h":
                self._add_heading(item)
            elif tag == "p":
                is_title = self._styles.is_title(attribute(item, "style-name"))
                text = plain_text(item, self._styles)
                self._canonical.add("heading" if is_title else "paragraph", text, int(is_title))
            elif tag == "list":
                self._add_list(item)
            elif tag == "table":
                self._add_table(item)
            else:
                self.add_all(item, depth + 1)
                continue
            self._add_apart(item, depth)

    def _add_apart(self, item: ElementTree.Element, depth: int) -> None:
        """Add what hangs on a paragraph: text boxes and notes."""
        for inner in item.iter():
            if local(inner) == "text-box" and local(item) != "table":
                self.add_all(inner, depth + 10)
            elif local(inner) == "note":
                said = [plain_text(one, self._styles) for one in inner if local(one) != "p"]
                self._canonical.add("paragraph", " ".join(filter(None, said)))

    def _add_heading(self, item: ElementTree.Element) -> None:
        level = int(attribute(item, "outline-level") or 1)
        self._outline = {at: n for at, n in self._outline.items() if at <= level}
        self._outline[level] = self._outline.get(level, 0) + 1
        label = _label(self._styles.outline, level, self._outline)
        text = plain_text(item, self._styles)
        self._canonical.add("heading", f"{label} {text}".strip(), level)

    def _add_list(self, item: ElementTree.Element) -> None:
        """Add the items, and headings that have their numbers as items of a list."""
        items = self._items(item, attribute(item, "style-name"), 1)
        for level, group in groupby(items, key=lambda one: one[1]):
            lines = [line for line, _ in group]
            if level:
                for line in lines:
                    self._canonical.add("heading", line.strip(), level)
            else:
                self._canonical.add("list", "\n".join(lines))

    def _items(
        self, item: ElementTree.Element, style: str, level: int
    ) -> Iterator[tuple[str, int]]:
        """Yield lines, each with its level as a heading, 0 for an item."""
        counts = self._counts.setdefault(style, {})
        goes_on = attribute(item, "continue-numbering") == "true" or attribute(
            item, "continue-list"
        )
        if not goes_on and level == 1:
            counts.clear()
        levels = self._styles.lists.get(style, {})
        for entry in item:
            if local(entry) not in ("list-item", "list-header"):
                continue
            is_first = local(entry) == "list-item"
            for part in entry:
                if local(part) == "list" and level < _MAX_DEPTH:
                    yield from self._items(part, attribute(part, "style-name") or style, level + 1)
                    continue
                mark = "  "
                if is_first:
                    _count_on(counts, level, attribute(entry, "start-value"), levels)
                    mark = _label(levels, level, counts) or ("-" if local(part) == "p" else "")
                text = plain_text(part, self._styles)
                outline = int(attribute(part, "outline-level") or 1) if local(part) == "h" else 0
                if text:
                    yield f"{'  ' * (level - 1)}{mark} {text}", outline
                is_first = False

    def _add_table(self, item: ElementTree.Element) -> None:
        grid = TableGrid()
        self._add_rows(grid, item, is_head=False)
        n_head = grid.finish()
        for text in table_texts(grid.rows, max(1, n_head)):
            self._canonical.add("table", text, n_head if n_head > 1 else 0)

    def _add_rows(self, grid: TableGrid, item: ElementTree.Element, *, is_head: bool) -> None:
        for row in item:
            tag = local(row)
            if tag in ("table-rows", "table-row-group", "table-header-rows"):
                self._add_rows(grid, row, is_head=is_head or tag == "table-header-rows")
            if tag != "table-row":
                continue
            grid.begin_row()
            for cell in row:
                # What a merged cell covers is filled by the grid.
                if local(cell) == "table-cell":
                    grid.begin_cell(
                        int(attribute(cell, "number-columns-spanned") or 1),
                        int(attribute(cell, "number-rows-spanned") or 1),
                        is_head=is_head,
                    )
                    grid.add_text("\n".join(_cell_lines(cell, self._styles)))


def _cell_lines(cell: ElementTree.Element, styles: OdfStyles) -> Iterator[str]:
    """Yield the lines of a cell, those of tables within it as well."""
    for item in cell.iter():
        if local(item) in ("p", "h"):
            yield plain_text(item, styles)


def _count_on(
    counts: dict[int, int], level: int, start: str, levels: dict[int, ElementTree.Element]
) -> None:
    for deeper in [at for at in counts if at > level]:
        del counts[deeper]
    first = _first(levels[level]) if level in levels else 1
    counts[level] = int(start) if start else counts.get(level, first - 1) + 1


def _first(style: ElementTree.Element) -> int:
    return int(attribute(style, "start-value") or 1)


def _label(levels: dict[int, ElementTree.Element], level: int, counts: dict[int, int]) -> str:
    """Return the number of an item or heading, empty where it has none."""
    style = levels.get(level)
    if style is None or not attribute(style, "num-format"):
        return ""
    shown = range(max(1, level + 1 - int(attribute(style, "display-levels") or 1)), level + 1)
    numbers = []
    for at in shown:
        form = attribute(levels.get(at, style), "num-format")
        number = counts.get(at) or _first(levels.get(at, style))
        numbers.append(format_number(number, _FORMS.get(form, "decimal")))
    label = ".".join(numbers)
    pattern = attribute(style, "num-list-format")
    if pattern:
        return _by_pattern(pattern, dict(zip(shown, numbers, strict=True)))
    return f"{attribute(style, 'num-prefix')}{label}{attribute(style, 'num-suffix')}".strip()


def _by_pattern(pattern: str, numbers: dict[int, str]) -> str:
    for at, number in numbers.items():
        pattern = pattern.replace(f"%{at}%", number)
    return pattern.strip()

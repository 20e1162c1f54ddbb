"""Form fields of Word ([ECMA-376] 17.16): ticks and choices, which are no text of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

TICKED, UNTICKED = "☒", "☐"


@dataclass(slots=True)
class _Field:
    kind: str = ""
    values: dict[str, str] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)
    is_result: bool = False
    has_text: bool = False

    def shown(self) -> str:
        if self.kind == "checkBox":
            is_ticked = self.values.get("checked", self.values.get("default", "0"))
            return UNTICKED if is_ticked in ("0", "false", "off") else TICKED
        if self.kind == "ddList" and not self.has_text:
            chosen = self.values.get("result", self.values.get("default", "0"))
            at = int(chosen) if chosen.isdecimal() else 0
            return self.choices[at] if at < len(self.choices) else ""
        return ""


class FormFields:
    """Follows the fields of a document, which may be nested."""

    def __init__(self) -> None:
        self._open: list[_Field] = []

    def mark(self, kind: str) -> str:
        """Note a ``w:fldChar`` and return what the field shows that ends with it."""
        if kind == "begin":
            self._open.append(_Field())
        elif kind == "separate" and self._open:
            self._open[-1].is_result = True
        elif kind == "end" and self._open:
            return self._open.pop().shown()
        return ""

    def note(self, tag: str, value: str, parent: str) -> None:
        """Note an element of a field's data; ``value`` is that of its attribute ``val``."""
        if not self._open:
            return
        last = self._open[-1]
        if tag in ("checkBox", "ddList") and parent == "ffData":
            last.kind = tag
        elif parent == last.kind and tag == "listEntry":
            last.choices.append(value)
        elif parent == last.kind and tag in ("checked", "default", "result"):
            last.values[tag] = value or "1"

    def note_text(self) -> None:
        """Note that the result of a field is written out."""
        if self._open and self._open[-1].is_result:
            self._open[-1].has_text = True

"""What every plugin keeps to, of whatever kind. The contracts of the kinds build on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rag.core.errors import InvalidInputError
from rag.core.options import read_options, schema_of
from rag.core.plugins import PluginRegistry


def odd_texts() -> tuple[str, ...]:
    """Return texts that people and programs send and that break careless code."""
    return (
        "",
        " ",
        "\n\t",
        "?",
        "'; DROP TABLE x; --",
        "{user_query} {0} {x.__class__} %s %(a)s",
        "<b>&amp;</b>",
        "\\",
        "zero\x00byte",
        "lone \ud800 surrogate",
        "الضمان سنتان",
        "🧪👩‍👩‍👧🇨🇳",
        "e\u0301 \u202eabc\u202c \u200b\ufeff",
        "保修期有多久？",
        "水" * 4000,
        "word " * 800,
    )


class PluginContract:
    """Name, label and options. ``options`` are values with which the plugin can be made."""

    kind = ""
    plugin: Any
    options: Mapping[str, Any] = {}

    def test_it_can_be_filed(self) -> None:
        registry = PluginRegistry()
        registry.add(self.kind, self.plugin)
        assert registry.get(self.kind, self.plugin.name) is self.plugin
        assert str(self.plugin.label).strip(), "the label is empty"

    def test_each_option_says_what_it_is(self) -> None:
        assert dataclasses.is_dataclass(self.plugin.Options), "Options is no dataclass"
        silent = [
            name for name, shape in self._properties().items() if not shape["description"].strip()
        ]
        assert not silent, f"without help: {', '.join(silent)}"

    def test_defaults_keep_the_limits_of_their_options(self) -> None:
        defaults = {
            name: shape["default"]
            for name, shape in self._properties().items()
            if "default" in shape and name not in self.options
        }
        self._read({**self.options, **defaults})

    def test_an_unknown_option_is_refused(self) -> None:
        self._refused({**self.options, "no_such_option": 1}, "no_such_option")

    def test_a_missing_option_is_refused(self) -> None:
        for name in schema_of(self.plugin.Options)["required"]:
            values = {key: value for key, value in self.options.items() if key != name}
            self._refused(values, name)

    def test_options_of_a_wrong_type_or_out_of_range_are_refused(self) -> None:
        for name, shape in self._properties().items():
            wrong: list[Any] = [object()]
            if "minimum" in shape:
                wrong.append(shape["minimum"] - 1)
            if "maximum" in shape:
                wrong.append(shape["maximum"] + 1)
            if "enum" in shape:
                wrong.append("no such choice")
            for value in wrong:
                self._refused({**self.options, name: value}, name)

    def make(self, options: Mapping[str, Any] | None = None) -> Any:
        """Return the plugin made with ``options``, or with the subclass's."""
        return self.plugin(self._read(self.options if options is None else options))

    def _properties(self) -> dict[str, Any]:
        properties: dict[str, Any] = schema_of(self.plugin.Options)["properties"]
        return properties

    def _read(self, values: Mapping[str, Any]) -> Any:
        return read_options(self.plugin.Options, values, of=self.plugin.name)

    def _refused(self, values: Mapping[str, Any], name: str) -> None:
        try:
            self._read(values)
        except InvalidInputError as refusal:
            assert name in str(refusal), f"the refusal does not name “{name}”: {refusal}"
        else:
            raise AssertionError(f"“{name}” was not refused")

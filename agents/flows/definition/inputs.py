"""Inputs of a flow: what a run may be given besides its message, with type, default and choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from django.utils.translation import gettext_noop
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from rag.core.errors import InvalidInputError

InputType = Literal["any", "text", "integer", "number", "boolean", "list", "object"]
_PYTHON: Mapping[str, tuple[type, ...]] = {
    "any": (object,),
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
}
_JSON = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "list": "array",
    "object": "object",
}
# Whole sentences: what fits into one does not fit into another language's.
_REFUSALS = {
    "text": gettext_noop("The input “{name}” must be a text."),
    "integer": gettext_noop("The input “{name}” must be a whole number."),
    "number": gettext_noop("The input “{name}” must be a number."),
    "boolean": gettext_noop("The input “{name}” must be true or false."),
    "list": gettext_noop("The input “{name}” must be a list."),
    "object": gettext_noop("The input “{name}” must be an object."),
}


class FlowInput(BaseModel):
    """One input; a mere text in the file is the description of one that may be anything."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: InputType = "any"
    description: str = ""
    default: Any = None
    required: bool = False
    choices: list[Any] | None = Field(default=None, min_length=1, max_length=200)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema of both ways to write an input."""
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(core))]}

    @model_validator(mode="before")
    @classmethod
    def _described(cls, value: Any) -> Any:
        return {"description": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.required and self.default is not None:
            raise ValueError("an input with a default is not required: leave one of them out")
        for one in (*(self.choices or ()), *([] if self.default is None else [self.default])):
            if not self.fits(one):
                raise ValueError(f"{one!r} is no value of type {self.type}")
        if self.choices and self.default is not None and self.default not in self.choices:
            raise ValueError(f"the default {self.default!r} is none of the choices")
        return self

    def fits(self, value: Any) -> bool:
        """Return whether a value has the type; true and false are no numbers."""
        if isinstance(value, bool) and self.type not in ("any", "boolean"):
            return False
        return isinstance(value, _PYTHON[self.type])


def given_inputs(inputs: Mapping[str, FlowInput], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each input: as given, else its default, else None.

    Raises InvalidInputError that names the first one that is missing or wrong.
    """
    values = {}
    for name, one in inputs.items():
        value = given.get(name)
        if value is None:
            if one.required:
                raise InvalidInputError(
                    "The flow needs the input “{name}”.",
                    hint=one.description or "Give it a value.",
                    name=name,
                )
            values[name] = one.default
            continue
        if not one.fits(value):
            raise InvalidInputError(_REFUSALS[one.type], name=name)
        if one.choices and value not in one.choices:
            known = ", ".join(map(str, one.choices))
            raise InvalidInputError(
                "The input “{name}” must be one of {known}.", name=name, known=known
            )
        values[name] = value
    return values


def input_schema(inputs: Mapping[str, FlowInput]) -> dict[str, Any]:
    """Return the JSON schema of what a run is given."""
    return {
        "type": "object",
        "properties": {name: _schema(one) for name, one in inputs.items()},
        "required": [name for name, one in inputs.items() if one.required],
        "additionalProperties": False,
    }


def _schema(one: FlowInput) -> dict[str, Any]:
    told = {
        "type": _JSON.get(one.type),
        "description": one.description,
        "enum": one.choices,
        "default": one.default,
    }
    return {name: value for name, value in told.items() if value not in (None, "")}

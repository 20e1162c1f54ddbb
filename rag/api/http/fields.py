"""Serializer fields: strict serializers that refuse unknown names, JSON objects, groups."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Model, Q, QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rag.api.http.bodies import read_json
from rag.api.http.errors import MAX_FIELDS
from rag.core.errors import InvalidInputError
from rag.services.access import Caller

_JSON_TYPES: dict[type, tuple[type, Any]] = {
    serializers.CharField: (str, _("This must be a text.")),
    serializers.BooleanField: (bool, _("This must be true or false.")),
    serializers.IntegerField: (int, _("This must be a whole number.")),
}


class StrictSerializer(serializers.Serializer):  # type: ignore[misc]  # DRF has no types
    """A serializer that refuses fields which it does not know or may not set, and wrong types.

    What a form or an address sends is text; what JSON sends is of the field's type.
    """

    @classmethod
    def of_query(cls, request: Any) -> Any:
        """Return the checked parameters of a request's address; raise ValidationError."""
        given = cls(data=request.query_params.dict(), context={"is_text": True})
        given.is_valid(raise_exception=True)
        return given

    def to_internal_value(self, data: Any) -> Any:
        """Return the values; each field that would be ignored is an error."""
        if isinstance(data, Mapping):
            fields = self.fields
            wrong = (name for name in data if name not in fields or fields[name].read_only)
            errors = {
                name: [_("This cannot be set.") if name in fields else _("There is no such field.")]
                for name in islice(wrong, MAX_FIELDS)
            }
            if not (isinstance(data, QueryDict) or self.context.get("is_text")):
                errors |= {name: [sentence] for name, sentence in self._of_wrong_type(data)}
            if errors:
                raise serializers.ValidationError(errors)
        return super().to_internal_value(data)

    def _of_wrong_type(self, data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in islice(data.items(), MAX_FIELDS):
            # Fields with a reading of their own are classes of their own.
            kind, sentence = _JSON_TYPES.get(type(self.fields.get(name)), (object, ""))
            is_other = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
            if value is not None and is_other:
                yield name, sentence


@extend_schema_field({"type": "object", "additionalProperties": {}})
class JSONObjectField(serializers.JSONField):  # type: ignore[misc]  # DRF has no types
    """A JSON object, also as text in forms and addresses."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the object."""
        if isinstance(data, str):
            try:
                data = read_json(data.encode("utf-8", "surrogatepass"))
            except InvalidInputError as error:
                raise serializers.ValidationError(_("Write a JSON object.")) from error
        if not isinstance(data, dict):
            raise serializers.ValidationError(_("Write a JSON object."))
        if len(json.dumps(data)) > 100_000:
            raise serializers.ValidationError(_("This is larger than 100,000 characters."))
        return data


class GroupsField(serializers.SlugRelatedField):  # type: ignore[misc]  # DRF has no types
    """Groups by name: one's own and those that are set already; who may see groups chooses all."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(slug_field="name", **kwargs)

    def get_queryset(self) -> QuerySet[Group]:
        """Return the groups to choose from."""
        caller: Caller = self.context["caller"]
        if caller.scope.is_operator or caller.user.has_perm("auth.view_group"):
            return Group.objects.all()
        # With many=True this field is the child of the one that knows its name.
        named = self.parent if isinstance(self.parent, serializers.ManyRelatedField) else self
        row: Model | None = named.parent.instance
        present = getattr(row, named.source).values("pk") if row is not None else []
        return Group.objects.filter(Q(pk__in=caller.scope.group_ids) | Q(pk__in=present))

    def to_internal_value(self, data: Any) -> Any:
        """Return the group of a name."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)

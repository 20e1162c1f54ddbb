"""Base of the management commands: help from the docstring, errors as sentences, unused options."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from rag import models
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.services.stores import find_stores


class RagCommand(BaseCommand):
    """A command whose docstring is its help, and which a RAGError ends with its sentence."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.help = inspect.cleandoc(cls.__doc__ or "")

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command; raise CommandError in place of a RAGError."""
        try:
            return super().execute(*args, **options)
        except RAGError as error:
            raise CommandError(str(error)) from error


def named_store(name: str) -> models.Store:
    """Return the store of a slug or name; raise NotFoundError."""
    return find_stores(names=[name], scope=Scope.operator())[0]


def named_user(name: str) -> Any:
    """Return the user of a name; raise CommandError."""
    user = get_user_model()._default_manager.filter(**{_name_field(): name}).first()
    if user is None:
        raise CommandError(f"There is no user “{name}”.")
    return user


def _name_field() -> str:
    return str(get_user_model().USERNAME_FIELD)


def reject_unused_options(
    options: Mapping[str, Any], names: Iterable[str], *, with_what: str
) -> None:
    """Raise CommandError for the first of ``names`` that was given; ``with_what`` it would do."""
    for name in names:
        value = options[name]
        if value is not None and value is not False and value not in ("", []):
            raise CommandError(f"--{name.replace('_', '-')} goes with {with_what} only.")

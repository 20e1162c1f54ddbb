"""System checks of the project that we are installed in: what it lacks, each with its mend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import PermissionsMixin
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.files.storage import FileSystemStorage, default_storage
from django.db import connections, models
from django.urls import NoReverseMatch, reverse

from rag.conf import INSTALL_HINT, TELEMETRY
from rag.core.errors import ConfigurationError
from rag.providers.postgres.db.requirements import check_server

URLS_HINT = 'Add to urlpatterns: path("", include("rag.urls"))'


@register
def check_host(**_: Any) -> list[CheckMessage]:
    """Return what the settings, the addresses and the user model lack."""
    return [*_user_faults(), *_setting_faults(), *_storage_faults(), *_address_faults()]


@register(Tags.database)
def check_database(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Return an error for a server that is too old, or has no pgvector."""
    if "default" not in (databases or ()) or connections["default"].vendor != "postgresql":
        return []
    try:
        with connections["default"].cursor() as cursor:
            check_server(cursor)
    except ConfigurationError as error:
        return [Error(str(error), id="rag.E014")]
    return []


def _user_faults() -> Iterator[CheckMessage]:
    user = get_user_model()
    if not issubclass(user, PermissionsMixin):
        yield Error(
            "The user model has no groups and permissions.",
            hint="Let it inherit django.contrib.auth.models.PermissionsMixin, or AbstractUser.",
            obj=user,
            id="rag.E010",
        )
    if not isinstance(user._meta.pk, models.IntegerField):
        yield Error(
            "The primary key of the user model is no integer.",
            hint="Give it an AutoField or BigAutoField; owners are kept by it.",
            obj=user,
            id="rag.E011",
        )


def _setting_faults() -> Iterator[CheckMessage]:
    if connections["default"].vendor != "postgresql":
        yield Error(
            f"The database “default” is {connections['default'].vendor}, not PostgreSQL.",
            hint="Set DATABASES: ENGINE django.db.backends.postgresql, a server with pgvector.",
            id="rag.E012",
        )
    if TELEMETRY not in settings.MIDDLEWARE:
        yield Warning(
            "The audit cannot tell who asked: a middleware is not installed.",
            hint=f"{INSTALL_HINT} (or add {TELEMETRY} as the first of MIDDLEWARE)",
            id="rag.W010",
        )


def _storage_faults() -> Iterator[CheckMessage]:
    if not isinstance(default_storage, FileSystemStorage):
        yield Error(
            "The default storage is no folder of this machine, which originals need.",
            hint="Set STORAGES: default django.core.files.storage.FileSystemStorage.",
            id="rag.E013",
        )
    if settings.MEDIA_URL.strip("/"):
        yield Warning(
            f"MEDIA_URL is {settings.MEDIA_URL}: who knows an address there may read originals.",
            hint="Let the web server serve nothing of the folder “stores” in MEDIA_ROOT,"
            " then silence rag.W011.",
            id="rag.W011",
        )


def _address_faults() -> Iterator[CheckMessage]:
    try:
        reverse("api-openapi")
    except NoReverseMatch:
        yield Warning(
            "The addresses of the knowledge base are not included.", hint=URLS_HINT, id="rag.W012"
        )

"""Stores, with the access rule as a queryset."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Self

from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope, StoreFacts
from rag.core.documents import ChunkRule
from rag.core.errors import ForbiddenError, InvalidInputError
from rag.core.types import RetrievalSettings
from rag.models.space import EmbeddingSpace
from rag.models.user_link import user_link


def editable_by(scope: Scope, prefix: str = "") -> Q:
    """Return the SQL form of ``rag.core.access.may_edit``; ``prefix`` leads to the store."""
    within = _within(scope, prefix)
    if scope.is_operator:
        return within
    allowed = Q(**{f"{prefix}owner_id": scope.user_id}) if scope.user_id else Q(pk__in=[])
    if scope.group_ids:
        groups = Store.editor_groups.through.objects.filter(
            store_id=OuterRef(f"{prefix}pk"), group_id__in=scope.group_ids
        )
        allowed |= Q(Exists(groups))
    return within & allowed


def readable_by(scope: Scope, prefix: str = "") -> Q:
    """Return the SQL form of reading a store (not a restricted file in it)."""
    within = _within(scope, prefix)
    if scope.is_operator:
        return within
    allowed = editable_by(scope, prefix) | Q(**{f"{prefix}is_public": True})
    if scope.group_ids:
        groups = Store.reader_groups.through.objects.filter(
            store_id=OuterRef(f"{prefix}pk"), group_id__in=scope.group_ids
        )
        allowed |= Q(Exists(groups))
    return within & allowed


def _within(scope: Scope, prefix: str) -> Q:
    if scope.only_store_ids is None:
        return Q()
    return Q(**{f"{prefix}pk__in": scope.only_store_ids})


class StoreQuerySet(models.QuerySet["Store"]):
    """Stores as a caller may see them."""

    def readable(self, scope: Scope) -> Self:
        """Return the stores whose unrestricted files ``scope`` may read."""
        return self.filter(readable_by(scope))

    def editable(self, scope: Scope) -> Self:
        """Return the stores that ``scope`` may change."""
        return self.filter(editable_by(scope))

    def named(self, names: Sequence[str]) -> Self:
        """Return the stores with one of these slugs, names or resource names."""
        return self.filter(Q(slug__in=names) | Q(name__in=names) | Q(resource_name__in=names))


def new_resource_name() -> str:
    """Return a fresh ``fileSearchStores/…`` name in the form that Gemini uses."""
    return f"fileSearchStores/{secrets.token_hex(8)}"


class Store(models.Model):
    """A named collection of files with its own settings, access and live embedding space."""

    class Backend(models.TextChoices):
        """Who keeps the files and answers searches."""

        LOCAL = "local", _("local (Postgres)")
        GEMINI = "gemini", _("Gemini File Search")

    name = models.CharField(_("name"), max_length=200, unique=True)
    slug = models.SlugField(_("slug"), max_length=100, unique=True, allow_unicode=True)
    resource_name = models.CharField(
        _("resource name"), max_length=120, unique=True, default=new_resource_name, editable=False
    )
    display_name = models.CharField(_("display name"), max_length=512, blank=True)
    backend = models.CharField(_("backend"), max_length=10, choices=Backend, default=Backend.LOCAL)
    owner = user_link(_("owner"), blank=True, related_name="stores")
    reader_groups = models.ManyToManyField(
        Group, blank=True, related_name="readable_stores", verbose_name=_("reader groups")
    )
    editor_groups = models.ManyToManyField(
        Group, blank=True, related_name="editable_stores", verbose_name=_("editor groups")
    )
    is_public = models.BooleanField(
        _("public"), default=False, help_text=_("Everybody may read, without signing in.")
    )
    max_tokens_per_chunk = models.PositiveIntegerField(
        _("chunk size"),
        default=200,
        validators=[MinValueValidator(50), MaxValueValidator(500)],
        help_text=_("50 to 500 tokens. Small chunks are found more exactly, large ones say more."),
    )
    max_overlap_tokens = models.PositiveIntegerField(
        _("overlap"),
        default=20,
        validators=[MinValueValidator(0), MaxValueValidator(100)],
        help_text=_("0 to 100 tokens that a chunk repeats from the one before."),
    )
    splitter = models.CharField(
        _("chunking template"),
        max_length=40,
        blank=True,
        default="",
        db_default="",
        help_text=_("What ends a chunk. Empty: the template of the installation."),
    )
    ocr = models.BooleanField(
        _("text recognition (OCR)"),
        default=False,
        help_text=_(
            "Reads the words on scans and images, a few seconds a page. Its package must be on the "
            "workers: rapidocr, in requirements-extras.txt."
        ),
    )
    reads_hidden_cells = models.BooleanField(
        _("hidden cells"),
        default=False,
        help_text=_(
            "Read hidden sheets, rows, columns and comments of spreadsheets too, marked as such."
        ),
    )
    retrieval = models.JSONField(
        _("retrieval settings"),
        default=dict,
        blank=True,
        help_text=_("Only what differs from the defaults."),
    )
    vocabulary = models.JSONField(
        _("vocabulary"),
        default=dict,
        blank=True,
        help_text=_('Types of things and their names, such as {"product": ["HX-400"]}.'),
    )
    cache_ttl_s = models.PositiveIntegerField(
        _("cache time"),
        default=3600,
        help_text=_("Seconds that a search result may be kept; 0 keeps none."),
    )
    space = models.ForeignKey(
        EmbeddingSpace,
        models.PROTECT,
        related_name="stores",
        verbose_name=_("current embedding space"),
        null=True,
        blank=True,
        editable=False,
    )
    remote = models.JSONField(
        _("at Gemini"),
        default=dict,
        blank=True,
        editable=False,
        help_text=_("What was last told: documents by state, size, and what went wrong."),
    )
    synced_at = models.DateTimeField(_("compared with Gemini"), null=True, editable=False)
    n_chunks = models.BigIntegerField(_("chunks"), default=0, editable=False)
    sum_len = models.BigIntegerField(default=0, editable=False)
    avg_len_frozen = models.FloatField(default=100.0, editable=False)
    terms_version = models.CharField(max_length=40, blank=True, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    objects = StoreQuerySet.as_manager()

    class Meta:
        verbose_name = _("store")
        verbose_name_plural = _("stores")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(max_tokens_per_chunk__gte=50, max_tokens_per_chunk__lte=500),
                name="rag_store_chunk_range",
            ),
            models.CheckConstraint(
                condition=Q(max_overlap_tokens__lte=100), name="rag_store_overlap_range"
            ),
            models.CheckConstraint(
                condition=~Q(backend="local") | Q(space__isnull=False), name="rag_store_local_space"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_remote(self) -> bool:
        """Return whether the files are kept at Gemini, so that nothing of them is in our index."""
        return self.backend == self.Backend.GEMINI

    @property
    def live_space_id(self) -> int:
        """Return the space of our index; raise InvalidInputError for a store kept elsewhere."""
        self.require_local()
        assert self.space_id is not None, "the table's constraint"
        return self.space_id

    def require_local(self) -> None:
        """Raise InvalidInputError for a store that is kept elsewhere and cannot be searched."""
        if self.is_remote:
            raise InvalidInputError(
                "The store “{name}” is kept at Gemini, which tells no ranked hits.",
                hint="Ask it a question instead of searching it.",
                name=self.name,
            )

    def require_editable(self, scope: Scope) -> None:
        """Raise ForbiddenError to who may not change the store."""
        if not Store.objects.editable(scope).filter(pk=self.pk).exists():
            raise ForbiddenError("You may read “{name}”, not change it.", name=self.name)

    @property
    def chunk_rule(self) -> ChunkRule:
        """Return how files of this store are cut."""
        return ChunkRule(self.max_tokens_per_chunk, self.max_overlap_tokens, self.splitter)

    @property
    def retrieval_settings(self) -> RetrievalSettings:
        """Return the defaults with this store's own values on top."""
        return RetrievalSettings.from_dict(self.retrieval)

    @property
    def facts(self) -> StoreFacts:
        """Return what decides on access, for one row at hand."""
        return StoreFacts(
            owner_id=self.owner_id,
            reader_group_ids=frozenset(self.reader_groups.values_list("pk", flat=True)),
            editor_group_ids=frozenset(self.editor_groups.values_list("pk", flat=True)),
            is_public=self.is_public,
            store_id=self.pk,
        )

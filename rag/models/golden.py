"""Golden questions: questions with the chunks or files that an evaluation must find."""

from __future__ import annotations

from typing import Self

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import MD5
from django.utils.translation import gettext_lazy as _

from rag.core.access import Scope
from rag.models.chunk import Chunk
from rag.models.file import File
from rag.models.store import Store, editable_by
from rag.models.user_link import user_link


class GoldenQuestionQuerySet(models.QuerySet["GoldenQuestion"]):
    """Golden questions as a caller may see them: they tell of restricted files, so editors only."""

    def readable(self, scope: Scope) -> Self:
        """Return the questions of stores that ``scope`` may change."""
        return self.filter(editable_by(scope, "store__"))

    def editable(self, scope: Scope) -> Self:
        """Return the same."""
        return self.readable(scope)

    def askable(self) -> Self:
        """Return those that are on and expect something."""
        expected = GoldenTarget.objects.filter(question=OuterRef("pk"))
        return self.filter(Exists(expected), enabled=True)


class GoldenQuestion(models.Model):
    """A question to a store with what must be found; without any target it is not measured."""

    class Origin(models.TextChoices):
        """Where the question came from."""

        HAND = "hand", _("written by hand")
        PLAYGROUND = "playground", _("hit test")
        CORRECTED = "corrected", _("corrected answer")
        DISLIKED = "disliked", _("disliked answer")
        CSV = "csv", _("CSV file")
        API = "api", _("API")

    store = models.ForeignKey(
        Store, models.CASCADE, related_name="golden_questions", verbose_name=_("store")
    )
    query = models.TextField(_("question"), max_length=4000)
    origin = models.CharField(
        _("origin"), max_length=10, choices=Origin, default=Origin.HAND, editable=False
    )
    enabled = models.BooleanField(
        _("enabled"), default=True, help_text=_("Only enabled questions are measured.")
    )
    note = models.TextField(
        _("note"), blank=True, help_text=_("Such as the answer that was corrected.")
    )
    created_by = user_link(_("created by"), blank=True, editable=False, db_index=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    objects = GoldenQuestionQuerySet.as_manager()

    class Meta:
        verbose_name = _("golden question")
        verbose_name_plural = _("golden questions")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                "store",
                MD5("query"),
                name="rag_golden_once_a_store",
                violation_error_message=_("The store has this question already."),
            )
        ]

    def __str__(self) -> str:
        return self.query[:80]


class GoldenTarget(models.Model):
    """A chunk that must be found, or any chunk of a file.

    No text is copied: the chunk's row holds it, live or retired, so that a target follows edits and
    new readings of its file, and goes with its chunk or file (the database cascades).
    """

    question = models.ForeignKey(
        GoldenQuestion, models.CASCADE, related_name="targets", verbose_name=_("question")
    )
    file = models.ForeignKey(
        File,
        models.DO_NOTHING,
        related_name="golden_targets",
        verbose_name=_("file"),
        db_constraint=False,
    )
    chunk = models.ForeignKey(
        Chunk,
        models.DO_NOTHING,
        related_name="golden_targets",
        verbose_name=_("chunk"),
        null=True,
        blank=True,
        db_constraint=False,
        help_text=_("Empty: any chunk of the file counts."),
    )
    grade = models.PositiveSmallIntegerField(
        _("grade"),
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(3)],
        help_text=_("1 to 3: how much it matters that this one is found, and early."),
    )

    class Meta:
        verbose_name = _("expected passage")
        verbose_name_plural = _("expected passages")
        ordering = ["question_id", "-grade", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["question", "chunk"],
                condition=Q(chunk__isnull=False),
                name="rag_golden_chunk_once",
            ),
            models.UniqueConstraint(
                fields=["question", "file"],
                condition=Q(chunk__isnull=True),
                name="rag_golden_file_once",
            ),
            models.CheckConstraint(
                condition=Q(grade__gte=1, grade__lte=3), name="rag_golden_grade_range"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.question_id}: {self.chunk_id or self.file_id}"

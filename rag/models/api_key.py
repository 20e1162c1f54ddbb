"""API keys of applications, stored as digests, and the request windows of rate limits."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

MAX_PER_MINUTE = 100_000


class ApiKey(models.Model):
    """A key of one user, narrowed to what it may do, to some stores, and to a time.

    ``is_limited`` keeps a key narrow when the last of its stores is deleted.
    """

    class Right(models.TextChoices):
        """What a key may be used for; each is checked on top of its user's rights."""

        READ = "read", _("search and read")
        WRITE = "write", _("change stores and files")

    name = models.CharField(_("name"), max_length=100)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_keys", verbose_name=_("user")
    )
    prefix = models.CharField(_("begins with"), max_length=12, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    rights = ArrayField(
        models.CharField(max_length=10, choices=Right), default=list, verbose_name=_("rights")
    )
    stores = models.ManyToManyField(
        "rag.Store",
        blank=True,
        related_name="+",
        verbose_name=_("stores"),
        help_text=_("Only these; empty means all that the user may see."),
    )
    is_limited = models.BooleanField(_("only some stores"), default=False, editable=False)
    footnotes = models.BooleanField(
        _("footnotes"),
        null=True,
        blank=True,
        help_text=_("Citations as lines below the text, for OpenAI's clients that show no more."),
    )
    requests_per_minute = models.PositiveIntegerField(
        _("requests a minute"),
        default=600,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_PER_MINUTE)],
    )
    window_started_at = models.DateTimeField(null=True, editable=False)
    window_requests = models.PositiveIntegerField(default=0, editable=False)
    expires_at = models.DateTimeField(_("valid until"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class RequestWindow(models.Model):
    """Requests that a subject without a key, such as a user or an address, made in a minute.

    The table is not logged: a crash of the server forgets at most a minute.
    """

    subject = models.CharField(max_length=80, primary_key=True)
    started_at = models.DateTimeField()
    n_requests = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ()

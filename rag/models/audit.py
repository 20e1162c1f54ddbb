"""Audit log: one row per changed row, written by database triggers whatever made the change."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

# Kinds that are called otherwise where people read them.
_CALLED = {"key": "API key", "space": "embedding space"}


class AuditEntry(models.Model):
    """One change of one row; only fields that differ, and never a document's text or a secret.

    Numbers and names are copies: entries outlive what they tell of. The table lets nobody change
    or remove a row; ``forget_audit`` alone may forget old ones.
    """

    class Action(models.TextChoices):
        """What was done to the row."""

        INSERT = "insert", _("made")
        UPDATE = "update", _("changed")
        DELETE = "delete", _("deleted")
        FORGET = "forget", _("audit shortened")

    class Edge(models.TextChoices):
        """Through what the change came."""

        ADMIN = "admin", _("admin")
        API = "api", _("API")
        COMMAND = "command", _("command")
        JOB = "job", _("job")

    at = models.DateTimeField(_("at"))
    action = models.CharField(_("action"), max_length=10, choices=Action)
    kind = models.CharField(_("kind"), max_length=40)
    object_id = models.BigIntegerField(_("number"), null=True)
    label = models.CharField(_("name"), max_length=300, blank=True)
    store_id = models.BigIntegerField(_("store"), null=True)
    before = models.JSONField(_("before"), default=dict)
    after = models.JSONField(_("after"), default=dict)
    edge = models.CharField(_("through"), max_length=10, choices=Edge, blank=True)
    user_id = models.BigIntegerField(_("user's number"), null=True)
    username = models.CharField(_("user"), max_length=150, blank=True)
    key_id = models.BigIntegerField(_("key's number"), null=True)
    address = models.CharField(_("address"), max_length=45, blank=True)
    request = models.CharField(_("request"), max_length=64, blank=True)
    command = models.CharField(_("command"), max_length=100, blank=True)

    class Meta:
        # Neither flush nor a migration of Django's shall empty or rebuild it.
        managed = False
        db_table = "audit_entry"
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit")
        ordering = ["-id"]

    @property
    def what(self) -> str:
        """Return the kind in the reader's language."""
        return gettext(_CALLED.get(self.kind, self.kind))

    def __str__(self) -> str:
        return f"{self.get_action_display()} {self.what} {self.label}"

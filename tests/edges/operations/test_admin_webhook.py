"""Webhooks in the admin: for superusers alone, with their secret and the log of deliveries."""

from __future__ import annotations

import pytest

from rag import models
from rag.services.webhooks import announce_event, webhook_secret
from tests.edges.admin_client import at, client_of, page, post_action
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def test_a_webhook_is_made_tried_and_its_log_read() -> None:
    form = {"name": "Desk", "url": "https://desk.example/hook", "events": ["file.ready"]}
    editor = UserFactory(permissions=["add_webhook", "view_webhook", "view_webhookdelivery"])
    assert client_of(editor).post(at("rag_webhook_add"), form).status_code == 403
    assert client_of(editor).get(at("rag_webhookdelivery_changelist")).status_code == 403
    client = client_of(UserFactory(is_superuser=True))
    for wrong in ({"events": ["test"]}, {"url": "ftp://desk.example"}, {"events": []}):
        assert client.post(at("rag_webhook_add"), form | wrong).status_code == 200
    assert client.post(at("rag_webhook_add"), form | {"is_enabled": "on"}).status_code == 302
    hook = models.Webhook.objects.get()
    entry = models.AuditEntry.objects.filter(kind="webhook").latest("id")
    assert entry.action == "insert" and "key" not in entry.after
    announce_event(event="file.ready", data={"file": 1})
    hook.deliveries.update(
        next_at=None,
        error={"message": "{host} does not answer.", "params": {"host": "desk.example"}},
    )
    shown = page(client, "rag_webhook_change", hook.pk)
    assert webhook_secret(webhook=hook) in shown and "desk.example does not answer." in shown
    assert "Queued" in post_action(client, "webhook", "send_test", [hook.pk]).content.decode()
    log = page(client, "rag_webhookdelivery_changelist", webhook__id__exact=hook.pk)
    assert "given up" in log and "waiting" in log
    ids = list(hook.deliveries.values_list("pk", flat=True))
    again = post_action(client, "webhookdelivery", "send_again", ids).content.decode()
    assert "2 deliveries are sent again." in again

"""Translated labels of rows whose stored names are English."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import translation
from procrastinate.contrib.django.models import ProcrastinateEvent, ProcrastinateJob

from agents import models as agent_models
from project.accounts.people import permission_label
from rag import models
from rag.admin.operations.audit import AUDIT_KINDS, column_label
from rag.admin.operations.job import EVENT_LABELS
from rag.services.files.requeue import requeue_files
from tests.edges.admin_client import at, client_of, page, words
from tests.edges.flow_desk import FLOW, PROMPTS
from tests.factories import FileFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return client_of(UserFactory(is_superuser=True, username="chef"))


@pytest.fixture
def chinese() -> Client:
    return client_of(UserFactory(is_superuser=True, username="zhang"), "zh-CN")


def test_the_audit_calls_kinds_and_columns_as_the_forms_do(chinese: Client) -> None:
    store = StoreFactory(name="手册")
    models.Store.objects.filter(pk=store.pk).update(max_tokens_per_chunk=300)
    said = words(page(chinese, "rag_auditentry_changelist", kind="store"))
    assert "知识库 手册 分块大小 " in said and "max_tokens" not in said
    entry = models.AuditEntry.objects.filter(kind="store").first()
    assert entry is not None
    assert "知识库 手册" in words(page(chinese, "rag_auditentry_change", entry.pk))
    with translation.override("en"):
        assert models.AuditEntry(kind="key", label="k").what == "API key"


def test_the_audit_is_filtered_by_kind_without_reading_all_of_it(client: Client) -> None:
    StoreFactory(name="Manuals")
    listed = page(client, "rag_auditentry_changelist", kind="user")
    assert re.search(r"field-what[^>]*>\s*user", listed) and "Manuals" not in words(listed)
    assert f"?kind={AUDIT_KINDS[1].replace(' ', '+')}" in listed


def test_columns_of_no_form_are_called_as_they_are() -> None:
    assert column_label("store", "max_overlap_tokens") == "overlap"
    assert column_label("store readers", "group_id") == "group"
    assert column_label("flow", "owner_id") == "owner"
    assert column_label("key", "rights") == "rights"
    assert column_label("store", "no_such_column") == "no_such_column"
    assert column_label("no kind", "entries") == "entries"


def test_all_kinds_that_are_written_have_words() -> None:
    store = StoreFactory()
    store.reader_groups.create(name="Readers")
    publish(FileFactory(store=store), "text")
    assert set(models.AuditEntry.objects.values_list("kind", flat=True)) <= set(AUDIT_KINDS)


def test_a_job_s_events_are_told_in_words(client: Client) -> None:
    file = FileFactory(revision=1)
    requeue_files(store=file.store, file_ids=[file.pk])
    job = ProcrastinateJob.objects.latest("pk")
    shown = page(client, "procrastinate_procrastinatejob_change", job.pk)
    assert re.search(r"\d\d:\d\d:\d\d put into the queue", shown)
    kinds = set(ProcrastinateEvent._meta.get_field("type").flatchoices)  # type: ignore[union-attr]
    assert {kind for kind, _ in kinds} <= EVENT_LABELS.keys()


def test_permissions_are_offered_in_the_reader_s_words(chinese: Client) -> None:
    shown = words(page(chinese, "auth_group_add"))
    assert "知识库系统 | 分块 | " in shown and "Can add" not in shown
    permission = Permission.objects.get(codename="view_chunk")
    with translation.override("en"):
        assert permission_label(permission).endswith("| chunk | can see")
        permission.codename, permission.name = "retire_chunk", "Can retire chunk"
        assert permission_label(permission).endswith("| Can retire chunk")


def test_a_file_is_called_as_it_is_called_and_kinds_begin_with_a_capital(client: Client) -> None:
    file = FileFactory(name="pump.txt")
    title = page(client, "rag_file_change", file.pk).partition("<main")[0]
    assert ">pump.txt<" in title and "Pump.txt" not in title
    assert ">Files<" in title


def test_the_number_of_a_page_stands_there_once(client: Client) -> None:
    file = FileFactory(
        canonical_text="one two",
        pages=[
            {
                "number": n,
                "label": label,
                "start": 4 * n - 4,
                "end": 4 * n - 1,
                "has_text_layer": True,
            }
            for n, label in ((1, "1"), (2, "ii"))
        ],
    )
    shown = words(page(client, "rag_file_text", file.pk))
    assert "Page 1 one" in shown and "Page 2 ii two" in shown


def test_choices_of_groups_load_one_copy_of_their_library(client: Client) -> None:
    for shown in (page(client, "rag_store_add"), page(client, "agents_agent_add")):
        scripts = re.findall(r'src="[^"]*/(select2[^"/]*\.js)"', shown)
        assert len([name for name in scripts if name.startswith("select2.full")]) == 1
        assert "select2.init.js" in scripts


def test_a_new_flow_is_drawn_before_and_after_its_check(client: Client) -> None:
    assert "<svg" in page(client, "agents_flow_add")
    values: dict[str, Any] = {"yaml": FLOW, "path": [*PROMPTS], "text": [*PROMPTS.values()]}
    shown = client.post(at("agents_flow_add"), {**values, "action": "check"}).content.decode()
    assert "<svg" in shown and "review" in shown
    shown = client.post(at("agents_flow_add"), {**values, "yaml": "name: x"}).content.decode()
    assert "The picture is drawn when the text is a flow" in shown
    assert not agent_models.Flow.objects.exists()

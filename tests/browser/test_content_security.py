"""Content security policy in the browser: pages keep to it, and work without eval and inline code."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse
from playwright.sync_api import Browser, expect

from tests.browser.visitor import Visitor, visitor
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.server_processes import server_process

pytestmark = pytest.mark.skipif(
    os.environ.get("CITABLE_CRAWL") != "all",
    reason="a walk over all pages: CITABLE_CRAWL=all; those of the other modules are watched always",
)


def addresses(store: Any, chunk: Any) -> list[str]:
    kinds = [model._meta for model in admin.site._registry]
    lists = [reverse(f"admin:{kind.app_label}_{kind.model_name}_changelist") for kind in kinds]
    user = UserFactory()
    return [
        *lists,
        "/api/docs",
        "/admin/",
        "/admin/rag/store/add/",
        f"/admin/rag/store/{store.pk}/change/",
        f"/admin/rag/store/{store.pk}/upload/",
        f"/admin/rag/store/{store.pk}/search/?q=pump&compare=1",
        f"/admin/rag/chunk/{chunk.pk}/change/",
        f"/admin/rag/chunk/store/{store.pk}/preview/",
        "/admin/rag/goldenquestion/add/",
        "/admin/agents/agent/add/",
        "/admin/agents/flow/add/",
        "/admin/auth/user/add/",
        f"/admin/auth/user/{user.pk}/change/",
        f"/admin/auth/user/{user.pk}/password/",
        "/admin/auth/group/add/",
        "/admin/password_change/",
        "/accounts/second-factor/",
        "/chat",
    ]


@pytest.mark.slow
def test_pages_keep_to_the_policy_and_work(browser: Browser, transactional_db: None) -> None:
    user = UserFactory(is_superuser=True, is_staff=True, username="anna")
    store = StoreFactory(owner=user, name="Manuals", slug="manuals")
    chunk, *_ = publish(FileFactory(store=store, name="pump.txt"), "The pump is serviced yearly.")
    with server_process() as url, visitor(browser, url, user) as somebody:
        for address in addresses(store, chunk):
            somebody.go(address)
            somebody.page.wait_for_timeout(300)
            policy = somebody.page.request.get(f"{url}{address}").headers["content-security-policy"]
            assert "unsafe" not in policy and "script-src 'self'" in policy, address
        somebody.go("/api/docs")
        expect(somebody.page.locator("#swagger-ui .info .title")).to_be_visible()
        the_theme_works(somebody)
        assert somebody.odd == []


def the_theme_works(somebody: Visitor) -> None:
    page = somebody.page
    somebody.go("/admin/rag/store/")
    page.check("tbody input.action-select")
    page.select_option("select[name=action]", index=1)
    expect(page.locator("#changelist-actions button[name=index]")).to_be_visible()
    page.click("[x-on\\:click='openUserLinks = !openUserLinks']")
    page.click("[x-on\\:click=\"switchTheme('dark')\"]")
    expect(page.locator("html")).to_have_class("dark")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 255)")

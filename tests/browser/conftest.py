"""Chromium for a module's tests; without it they are skipped with a reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.visitor import chromium, one_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a module."""
    if chromium() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with one_browser() as found:
        yield found

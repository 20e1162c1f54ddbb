"""Our connectors keep to the contract of all connectors."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rag.plugins.connectors.feed import FeedConnector
from rag.plugins.connectors.folder import FolderConnector
from rag.plugins.connectors.git import GitConnector
from rag.plugins.connectors.web import WebConnector
from rag.plugins.contract_connector import ConnectorContract
from tests.fakes.loopback import Reply
from tests.fakes.website import Website, page


class TestFolderConnector(ConnectorContract):
    plugin = FolderConnector

    @pytest.fixture(autouse=True)
    def origin(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "a.txt").write_text("one")
        (tmp_path / "sub" / "b.txt").write_text("two")
        self.options = {"folder": str(tmp_path), "uses_permissions": True}

    def missing_options(self) -> Mapping[str, Any]:
        return {"folder": "/no/such/folder"}


class TestGitConnector(ConnectorContract):
    plugin = GitConnector

    @pytest.fixture(autouse=True)
    def origin(self, tmp_path: Path) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        env |= {
            f"GIT_{who}_{what}": "a"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        (tmp_path / "a.md").write_text("one")
        (tmp_path / "b.md").write_text("two")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
            subprocess.run(["git", *words], cwd=tmp_path, env=env, check=True)
        self.options = {"repository": str(tmp_path)}

    def missing_options(self) -> Mapping[str, Any]:
        return {"repository": tempfile.gettempdir()}


class OnWebsite(ConnectorContract):
    @pytest.fixture(autouse=True)
    def origin(self) -> Iterator[None]:
        item = (
            "<item><title>{0}</title><guid>{0}</guid><description>About {0}.</description></item>"
        )
        items = "".join(item.format(one) for one in "ab")
        with Website() as site:
            site.pages = {
                "/": page("Start", "This is where it begins.", "/a"),
                "/a": page("A", "This is what comes behind it."),
                "/feed": Reply(f"<rss><channel>{items}</channel></rss>".encode()),
                "/robots.txt": Reply(b""),
                "/sitemap.xml": Reply(b""),
            }
            self.set_options(site.origin)
            yield

    def set_options(self, origin: str) -> None:
        raise NotImplementedError


class TestFeedConnector(OnWebsite):
    plugin = FeedConnector

    def set_options(self, origin: str) -> None:
        self.options = {"address": f"{origin}/feed"}

    def missing_options(self) -> Mapping[str, Any]:
        return {"address": self.options["address"].replace("feed", "robots.txt")}


class TestWebConnector(OnWebsite):
    plugin = WebConnector

    def set_options(self, origin: str) -> None:
        self.options = {"start": f"{origin}/"}

    def missing_options(self) -> Mapping[str, Any]:
        return {"start": "ftp://example.org/"}

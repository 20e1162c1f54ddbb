"""The transcript of the file search guide: each command is sent and answered as it says there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rag.services.access.api_keys import create_key
from tests.edges.admin_client import use_words_embedder
from tests.edges.api_client import KeyClient
from tests.edges.node_client import RIGHTS, events
from tests.factories import UserFactory, upload
from tests.queue_worker import indexing

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "gemini-routes.md"
HANDBOOK = (
    b"# Handbook\n\nThe warranty lasts two years. It covers parts and labour.\n\n"
    b"Tea is served at four o'clock.\n"
)


def steps() -> list[tuple[list[str], Any]]:
    """Return the words of every curl with the JSON that is shown after it, or None."""
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"(?s)```(sh|json)\n(.*?)```", text)
    found: list[tuple[list[str], Any]] = []
    for kind, block in blocks:
        if kind == "json":
            found[-1] = (found[-1][0], json.loads(block))
        elif block.startswith("curl "):
            found.append((shlex.split(block.replace("\\\n", " ")), None))
    return found


def send(client: KeyClient, words: list[str], store: str) -> Any:
    """Send what curl would."""
    form: dict[str, Any] = {}
    body, address = None, ""
    rest = iter(words[1:])
    for word in rest:
        if word == "--json":
            body = json.loads(next(rest).replace("$STORE", store))
        elif word == "-F":
            name, _, value = next(rest).partition("=")
            is_file = value.startswith("@")
            form[name] = upload(value[1:], HANDBOOK) if is_file else value.replace("$STORE", store)
        elif word == "-H":
            assert next(rest) == "Authorization: Bearer $KEY"
        elif word not in ("-s", "-sN"):
            address = word
    path = address.removeprefix("$KB")
    assert path.startswith("/api/rag/"), words
    return client.post(path, form) if form else client.send("post", path, body)


def fits(shown: Any, found: Any) -> bool:
    """Return whether ``found`` is as shown; … in a text stands for anything."""
    if isinstance(shown, dict):
        return (
            isinstance(found, dict)
            and set(shown) == set(found)
            and all(fits(value, found[name]) for name, value in shown.items())
        )
    if isinstance(shown, list):
        return len(shown) == len(found) and all(map(fits, shown, found))
    if isinstance(shown, str) and "…" in shown:
        pattern = ".*".join(map(re.escape, shown.split("…")))
        return isinstance(found, str) and bool(re.fullmatch(pattern, found, re.S))
    return bool(shown == found)


@pytest.mark.django_db(transaction=True)
def test_the_transcript_is_what_happens(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> None:
    use_words_embedder(monkeypatch, settings)
    _, key = create_key(
        user=UserFactory(permissions=RIGHTS), name="guide", rights=["read", "write"]
    )
    client, store, n_streams = KeyClient(key), "", 0
    with indexing():
        for words, shown in steps():
            response = send(client, words, store)
            if shown is None:
                n_streams += 1
                told = events(response)
                assert [name for name, _ in told][-2:] == ["citations", "done"], told
                continue
            found = response.json()
            assert response.status_code == (400 if "error" in shown else 200), found
            assert fits(shown, found), json.dumps(found, ensure_ascii=False, indent=1)
            if "createTime" in found:
                store = found["name"]
    assert n_streams == 1 and len(steps()) == 8


def test_every_fixed_sentence_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for sentence in (
        "Unauthorized",
        "Gemini API Key 未配置",
        "查询内容不能为空",
        "未指定 FileSearchStore",
        "未提供文件",
        "无效的搜索模式",
        "文件大小超过 100MB",
    ):
        assert f"`{sentence}`" in text

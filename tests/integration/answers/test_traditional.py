"""A question in traditional characters over simplified documents, and the other way round."""

from __future__ import annotations

from typing import Any

import opencc
import pytest

from rag import models
from rag.core.access import Scope
from rag.core.types import Answer
from rag.services.answers.question_answering import ask
from rag.services.ingest.indexing import index_file
from rag.services.stores import create_store
from tests.edges.admin_client import use_words_embedder
from tests.fakes.openai_server import OpenAIServer, Script
from tests.integration.index_desk import put

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()
TO_TRADITIONAL = opencc.OpenCC("s2t").convert
SAID = "停车场每天早上六点开放，晚上十点关闭。"
TEXT = f"# 停车场说明\n\n{SAID}\n\n摩托车不得停在残疾人车位。\n\n# 会员卡\n\n会员卡的有效期是三年，不能转让。\n"
QUESTION = "停车场几点开放？"
FORMS = ((str, TO_TRADITIONAL), (TO_TRADITIONAL, str), (TO_TRADITIONAL, TO_TRADITIONAL))


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


def filled(form: Any) -> models.Store:
    store = create_store(name="parking", is_public=True)
    index_file(file_id=put(store, form(TEXT), form("停车场说明.md")).pk)
    return store


def asked(store: models.Store, question: str, **more: Any) -> Answer:
    return ask(question=question, scope=OPERATOR, stores=[store], **more)


@pytest.mark.parametrize(("written", "question"), FORMS)
def test_the_sentence_is_chosen_and_quoted_as_it_is_written(written: Any, question: Any) -> None:
    answer = asked(filled(written), question(QUESTION))
    first = answer.citations[0]
    assert (first.found, first.verdict) == (written(SAID), "verified")
    text = models.File.objects.get(pk=first.file_id).canonical_text
    assert text[first.char_start : first.char_end] == first.found
    assert answer.outcome == "answered", answer


@pytest.mark.parametrize(("written", "question"), FORMS)
def test_a_document_is_found_by_its_name(written: Any, question: Any) -> None:
    answer = asked(filled(written), question("总结《停车场说明》"))
    assert {citation.found for citation in answer.citations} >= {written(SAID)}


@pytest.mark.parametrize(("written", "said"), FORMS)
def test_what_a_model_says_in_the_other_form_is_judged(
    written: Any, said: Any, settings: Any
) -> None:
    with OpenAIServer() as server:
        settings.RAG = {**settings.RAG, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        store = filled(written)
        for sentence, verdict in (
            ("会员卡的有效期是三年，不能转让。", "attributed"),
            ("会员卡的有效期是三年，可以转让。", "contradicted"),
            ("会员卡的有效期是两年。", "contradicted"),
        ):
            server.chat = Script(pieces=(said(sentence),))
            answer = asked(store, said("会员卡的有效期多长？"), model="openai_compatible:qwen3")
            verdicts = [one.verdict for one in answer.groundedness.statements]
            assert verdicts == [verdict], (sentence, answer)
        server.chat = Script(pieces=(said("资料中没有提到这一点。"),))
        answer = asked(store, said("会员卡的有效期多长？"), model="openai_compatible:qwen3")
        assert answer.outcome == "not_found"

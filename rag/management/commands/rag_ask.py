"""Ask stores a question: ``rag_ask QUESTION --store S``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from asgiref.sync import async_to_sync

from rag.core.access import Scope
from rag.core.types import VERIFIED, Answer, ChatReply
from rag.management.rag_command import RagCommand
from rag.services.answers import ask, stream_ask
from rag.services.stores import find_stores


class Command(RagCommand):
    """Answer a question from stores, with verified citations."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("question")
        parser.add_argument(
            "--store", action="append", required=True, help="slug or name; repeatable"
        )
        parser.add_argument("--top-k", type=int, help="how many hits the model sees")
        parser.add_argument("--mode", help="auto, semantic, keyword or hybrid")
        parser.add_argument("--model", default="", help="provider:model instead of RAG_CHAT_MODEL")
        parser.add_argument("--stream", action="store_true", help="print pieces as they come")
        parser.add_argument("--json", action="store_true", help="print the answer as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        answer = self._answer(options)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(answer), ensure_ascii=False, indent=2))
        else:
            print_answer(self, answer, with_text=not options["stream"])

    def _answer(self, options: dict[str, Any]) -> Answer:
        stores = find_stores(names=options["store"], scope=Scope.operator())
        changes = {"top_k": options["top_k"], "mode": options["mode"]}
        settings = stores[0].retrieval_settings.but(
            **{name: value for name, value in changes.items() if value is not None}
        )
        request = {
            "question": options["question"],
            "scope": Scope.operator(),
            "stores": stores,
            "settings": settings,
            "model": options["model"],
        }
        if options["stream"] and not options["json"]:
            return async_to_sync(self._stream)(request)
        return ask(**request)

    async def _stream(self, request: dict[str, Any]) -> Answer:
        answer: Answer | None = None
        async for piece in stream_ask(**request):
            if isinstance(piece, ChatReply):
                self.stdout.write(piece.text, ending="")
                self.stdout.flush()
            elif isinstance(piece, Answer):
                answer = piece
        self.stdout.write("")
        assert answer is not None
        return answer


def print_answer(command: RagCommand, answer: Answer, *, with_text: bool = True) -> None:
    """Print an answer, how much of it its sources say, and its citations with their verdicts."""
    told = answer.groundedness
    if told.statements:
        style = command.style.SUCCESS if told.verdict == "grounded" else command.style.WARNING
        n_all = len(told.statements)
        statements = "statement" if n_all == 1 else "statements"
        share = f"{told.n_found} of {n_all} {statements} found in the sources"
        command.stdout.write(style(share))
    if with_text:
        command.stdout.write(answer.text)
    for one in told.statements:
        if not one.holds:
            what = {"contradicted": "The source says otherwise"}.get(one.verdict, "Not found")
            statement = answer.text[one.start : one.end]
            command.stdout.write(command.style.WARNING(f"  {what}: “{statement}”"))
    for citation in answer.citations:
        place = citation.file_name + (f", p. {citation.page}" if citation.page else "")
        verdict = command.style.SUCCESS if citation.verdict in VERIFIED else command.style.WARNING
        command.stdout.write(
            f"  [{citation.number}] {place or citation.doc_id}: “{citation.quote}” — "
            + verdict(citation.verdict)
        )
    if answer.notice:
        command.stdout.write(command.style.NOTICE(f"  {answer.notice}"))

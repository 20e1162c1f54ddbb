"""Answer generation: cited answers from stores, Gemini, attached files and RAG nodes."""

from __future__ import annotations

from rag.services.answers.attached_files import answer_files, stream_files
from rag.services.answers.citations import CitationManager, pin_hits
from rag.services.answers.context_builder import ContextBuilder, PromptEnhancer
from rag.services.answers.fetch import fetch_files, fetch_page, own_file_path
from rag.services.answers.file_search import (
    ask_stores,
    check_stores,
    serialize_answer,
    stream_stores,
)
from rag.services.answers.page_view import PageText, page_image, page_text
from rag.services.answers.pipeline import (
    AnswerWriter,
    VerifiedAnswer,
    answer_request,
    run_job,
    store_context,
)
from rag.services.answers.question_answering import StoreAnswer, ask, stream_ask
from rag.services.answers.rag_node import (
    RagNodeRequest,
    execute_rag_node,
    find_rag_node,
    save_rag_node,
    save_rag_node_results,
    serialize_rag_node,
)
from rag.services.answers.store_questions import answer_store_question, is_store_question

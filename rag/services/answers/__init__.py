"""Answer generation: cited answers from stores, Gemini, attached files and RAG nodes."""

from __future__ import annotations

from rag.services.answers.citations import CitationManager, pin_hits
from rag.services.answers.context_builder import ContextBuilder, PromptEnhancer
from rag.services.answers.fetch import fetch_page, own_file_path
from rag.services.answers.file_search import (
    answer_grounded,
    check_stores,
    open_question,
    serialize_answer,
    stream_grounded,
)
from rag.services.answers.page_view import PageText, page_image, page_text
from rag.services.answers.question_answering import (
    answer_hits,
    ask,
    check_model,
    stream_ask,
)
from rag.services.answers.rag_node import (
    RagNodeRequest,
    find_rag_node,
    run_rag_node,
    save_rag_node,
    serialize_rag_node,
)
from rag.services.answers.store_questions import answer_store_question

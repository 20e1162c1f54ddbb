"""Search: one question in stores that the caller may read, by analysis, hybrid index and reranker.

It never sees more than the caller's Scope and never writes but to the query log.
"""

from __future__ import annotations

from rag.services.search.confidence import (
    calibrated_similarity,
    filter_by_threshold,
    lexical_overlap,
)
from rag.services.search.document_lookup import document_notice
from rag.services.search.engine import (
    files_matching_metadata,
    override_space,
    resolve_targets,
    shorten_query,
    validated_query,
)
from rag.services.search.postprocessing import (
    apply_ranking_answer,
    ranking_request,
    ranks_without_chat,
    rerank_hits,
)
from rag.services.search.query_log import log_citations, log_query, purge_queries
from rag.services.search.result_cache import cache_region, state_digest
from rag.services.search.retrieval import retrieve
from rag.services.search.smart_retriever import SmartRetriever

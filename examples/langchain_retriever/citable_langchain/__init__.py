"""A LangChain retriever for Citable."""

from __future__ import annotations

from citable_langchain.retriever import CitableError, CitableRetriever

__all__ = ["CitableError", "CitableRetriever"]

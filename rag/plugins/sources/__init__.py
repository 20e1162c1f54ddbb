"""Our own data sources; importing this registers them."""

from __future__ import annotations

from rag.plugins.sources import api as api
from rag.plugins.sources import chroma as chroma
from rag.plugins.sources import database as database
from rag.plugins.sources import faiss as faiss
from rag.plugins.sources import gemini_file_search as gemini_file_search
from rag.plugins.sources import vector_store as vector_store

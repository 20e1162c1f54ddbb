"""Stores: create, find, update, delete, and export to and import from a file."""

from __future__ import annotations

from rag.services.stores.dump import dump_store
from rag.services.stores.hidden_stores import stores_hidden_from
from rag.services.stores.lifecycle import (
    CHANGEABLE,
    create_named_store,
    create_store,
    delete_store,
    find_stores,
    readable_stores,
    stores_with_vocabulary,
    update_store,
)
from rag.services.stores.load import load_store
from rag.services.stores.suggestions import suggest_questions

"""Reindex: rebuild a store's files, terms or vectors, or migrate it to another embedding model."""

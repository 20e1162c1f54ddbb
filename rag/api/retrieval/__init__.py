"""Retrieval API: hits, context and cited answers."""

"""Search: one question in stores that the caller may read, by analysis, hybrid index and reranker.

It never sees more than the caller's Scope and never writes but to the query log.
"""

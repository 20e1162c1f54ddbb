"""Lexical index: BM25 weights by term key, document frequencies, backfill and reweighing."""

"""Ranking: pure steps on hits (BM25, coverage, deduplication, merging, rerank prompts, filters)."""

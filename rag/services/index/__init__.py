"""Indexes that follow the chunks: vectors, HNSW indexes, BM25 weights, the outbox to Milvus."""

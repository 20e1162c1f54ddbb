"""Vector partitions, HNSW indexes, backfill, and the switch of a store to another space."""

"""Text normalization, sentence boundaries and BM25 terms, for Chinese and English."""

"""Resources by DRF: stores, files, chunks, golden questions, evaluation runs."""

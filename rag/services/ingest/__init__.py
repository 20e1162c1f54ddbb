"""Ingest: parse, chunk, embed and activate a file's next revision, keeping manual edits."""

"""Chunks that people work on: find, add, edit, delete, revisions, conflicts after a re-ingest."""

"""Chunking: documents cut into chunks, and manual edits carried to a new revision."""

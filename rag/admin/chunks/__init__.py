"""Admin of chunks: list, editing, revisions, and conflicts left by a new reading of a file."""

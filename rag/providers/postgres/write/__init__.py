"""Writes: staging and activation of revisions, index rows of one chunk, bulk load, purges."""

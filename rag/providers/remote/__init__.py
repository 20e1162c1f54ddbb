"""What all providers behind a network share: retries, batches, vectors, sentences for failures."""

from __future__ import annotations

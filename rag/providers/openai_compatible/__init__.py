"""Any server that speaks OpenAI's /embeddings and /chat/completions: clouds, Ollama, vLLM."""

from __future__ import annotations

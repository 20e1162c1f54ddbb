"""Google's Gemini through google-genai: embeddings and chat."""

from __future__ import annotations

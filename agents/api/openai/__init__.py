"""OpenAI-compatible API: models, chat completions, embeddings."""

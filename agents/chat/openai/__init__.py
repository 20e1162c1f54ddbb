"""OpenAI's protocol without HTTP: models, conversations, answers."""

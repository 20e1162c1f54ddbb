"""OpenAI's protocol without HTTP: agents as models, a client's turns as a session, answer texts.

Routes, request schemas and error bodies are ``agents.api.openai``.
"""

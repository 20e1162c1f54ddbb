"""OpenAI-compatible API, the HTTP of it: routes below ``/v1/``, request schemas, error bodies.

What a request means to agents and what an answer is in OpenAI's form is ``agents.chat.openai``.
"""

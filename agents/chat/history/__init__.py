"""Conversation history: branches, evidence that may still be read, quotes, retention."""

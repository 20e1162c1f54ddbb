"""Chat API: agents, sessions, messages, memories, streamed answers."""

"""Agent memory: session summary, episodic memories (exchanges) and semantic memories (facts)."""

"""File search API: the Gemini-shaped routes: stores, uploads, answers, workflow builders' nodes."""

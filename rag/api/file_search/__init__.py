"""File search API: the Gemini-shaped routes of stores, uploads, answers and builder nodes."""

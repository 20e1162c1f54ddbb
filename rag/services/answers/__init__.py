"""Answer generation: cited answers from stores, Gemini, attached files and RAG nodes."""

"""Agent pipelines: the steps of rag, react and supervisor agents and their order."""

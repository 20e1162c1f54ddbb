"""Flow engine: a flow compiled to a LangGraph graph. The only flow code that imports LangGraph."""

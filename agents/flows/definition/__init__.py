"""Flow definitions: YAML, static checks, CEL conditions, flow state; no database, no LangGraph."""

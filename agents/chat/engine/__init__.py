"""Pipeline engines: LangGraph, and a plain loop without it."""

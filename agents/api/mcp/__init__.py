"""MCP over HTTP: the protocol server; the tools that it serves are ``agents.chat.mcp``."""

"""MCP over HTTP: the protocol server."""

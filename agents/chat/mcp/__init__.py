"""MCP without HTTP: the tools and their catalogue; ``agents.api.mcp`` is the server."""

"""MCP without HTTP: the tools and their catalogue."""

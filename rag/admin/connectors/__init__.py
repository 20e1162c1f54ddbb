"""Admin pages of connections: their forms, syncs and reports."""

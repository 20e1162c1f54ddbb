"""Office documents through xberg, and what their packages hold beside it."""

"""Flow runs: creating, executing, replaying, controlling and reading them."""

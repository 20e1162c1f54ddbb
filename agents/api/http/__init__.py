"""HTTP plumbing of the agents' API: caller, server-sent events, base views."""

"""HTTP plumbing of both frameworks: authentication, errors, bodies, paging, base views."""

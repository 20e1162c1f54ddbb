"""Answers of agents: creating, generating, streaming, stopping and reading them."""

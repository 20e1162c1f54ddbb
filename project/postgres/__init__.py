"""Embedded PostgreSQL: creates, starts and stops the server that ships with the product."""

"""Transactional outbox: changed chunks for a search engine beside Postgres."""

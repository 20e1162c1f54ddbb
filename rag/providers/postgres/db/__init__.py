"""Connections, locks, COPY and vector literals, rate windows."""

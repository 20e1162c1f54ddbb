"""Clients of other people against our server; ``make clients``, not part of the suite."""

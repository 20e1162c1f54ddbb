"""Wiring: ports to the providers that the settings name; callers import its ``registry``."""

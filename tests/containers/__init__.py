"""The image and compose.yaml, built and run on this machine with podman; ``make containers``."""

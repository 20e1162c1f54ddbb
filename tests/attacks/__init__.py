"""Attacks from outside that were tried on the product, each as a test of its kind."""

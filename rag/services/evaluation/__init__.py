"""Evaluation: golden questions, runs with retrieval metrics, comparison, the hit test."""

"""Prompting: hits laid out as context within a token budget, prompts, templates."""

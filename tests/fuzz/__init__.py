"""Fuzzing of the published OpenAPI document; ``make fuzz``, not part of the suite."""

"""What a query wants, as rules or a model saw it. Frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INTENTS = ("find_specific", "lookup", "understand", "explore", "compare", "general")
COMPLEXITIES = ("simple", "medium", "complex")


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that the query names; ``type`` is one of the vocabulary's or a general one."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class QueryAnalysis:
    """Intent, complexity, entities and keywords of a query; ``analyzer`` is rules or a model."""

    intent: str = "general"
    complexity: str = "medium"
    entities: tuple[Entity, ...] = ()
    keywords: tuple[str, ...] = ()
    analyzer: str = "rules"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-safe form."""
        return {
            "intent": self.intent,
            "complexity": self.complexity,
            "entities": [{"type": one.type, "value": one.value} for one in self.entities],
            "keywords": list(self.keywords),
            "analyzer": self.analyzer,
        }

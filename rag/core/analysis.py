"""Query analysis: intent, complexity, entities and keywords of a query, by rules or a model.

Answerability: whether what was found can answer it, and what of it nobody mentions.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

INTENTS = ("find_specific", "lookup", "understand", "explore", "compare", "general")
COMPLEXITIES = ("simple", "medium", "complex")
# What is looked for letter by letter; a vector says nothing about it.
EXACT_TYPES = frozenset(("identifier", "quote", "title"))
# In a vocabulary, what such a key and an entity type name is no thing but the content types where
# things of the type are written about: {"content_types:product": ["manual"]}.
CONTENT_TYPES = "content_types:"
TOP_K_OF_COMPLEXITY = {"simple": 3, "medium": 5, "complex": 10}


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that the query names; ``type`` is one of the vocabulary's or a general one."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class QueryAnalysis:
    """Intent, complexity, entities and keywords of a query; ``analyzer`` is rules or a model.

    Its fields may be read as those of a dict, and it may be awaited: it is there already.
    """

    intent: str = "general"
    complexity: str = "medium"
    entities: tuple[Entity, ...] = ()
    keywords: tuple[str, ...] = ()
    analyzer: str = "rules"

    @property
    def mode(self) -> str:
        """Return keyword for a query of codes, quotes and titles alone, else hybrid."""
        exact = {entity.value for entity in self.entities if entity.type in EXACT_TYPES}
        return "keyword" if self.keywords and exact.issuperset(self.keywords) else "hybrid"

    @property
    def top_k(self) -> int:
        """Return how many hits the complexity asks for."""
        return TOP_K_OF_COMPLEXITY.get(self.complexity, TOP_K_OF_COMPLEXITY["medium"])

    def __getitem__(self, name: str) -> Any:
        """Return a field of the JSON-safe form; raise KeyError for none."""
        return self.as_dict()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field of the JSON-safe form, or ``default``."""
        return self.as_dict().get(name, default)

    def __await__(self) -> Generator[None, None, QueryAnalysis]:
        """Return itself to callers that take every analysis for a coroutine."""
        yield from ()
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-safe form."""
        return {
            "intent": self.intent,
            "complexity": self.complexity,
            "entities": [{"type": one.type, "value": one.value} for one in self.entities],
            "keywords": list(self.keywords),
            "analyzer": self.analyzer,
        }


# What is done where the passages may not hold the answer.
UNANSWERABLE_WAYS = ("answer", "warn", "refuse")
AnswerabilityVerdict = Literal["answerable", "doubtful", "off_topic"]


@dataclass(frozen=True, slots=True)
class MissingTerm:
    """A code, number, date or name of a question that no readable document holds.

    ``nearest`` is the most similar one that a passage holds, empty where there is none.
    """

    text: str
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class Answerability:
    """How likely passages answer a question, 0 to 1, and what follows from it.

    ``off_topic`` passages are not about the question, ``doubtful`` ones may not hold its answer.
    """

    probability: float
    verdict: AnswerabilityVerdict
    missing: tuple[MissingTerm, ...] = ()

    @property
    def most_confidence(self) -> float:
        """Return the confidence that no answer from these passages exceeds."""
        return {"answerable": 1.0, "doubtful": 0.5, "off_topic": 0.2}[self.verdict]

    def is_refused(self, way: str) -> bool:
        """Return whether nothing is answered; ``way`` is one of ``UNANSWERABLE_WAYS``."""
        refused = {"answer": (), "warn": ("off_topic",), "refuse": ("off_topic", "doubtful")}
        return self.verdict in refused[way]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-safe form."""
        missing = [{"text": one.text, "nearest": one.nearest} for one in self.missing]
        return {"probability": self.probability, "verdict": self.verdict, "missing": missing}

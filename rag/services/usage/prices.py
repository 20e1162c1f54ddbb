"""Prices of model calls, from RAG_PRICES; None where no price is known."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from rag.conf import conf
from rag.core.errors import ConfigurationError

log = logging.getLogger(__name__)
MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens."""

    input: Decimal
    output: Decimal
    currency: str

    def cost(self, input_tokens: int | None, output_tokens: int | None) -> Decimal | None:
        """Return what so many tokens cost; None where one of the counts is missing."""
        if input_tokens is None or output_tokens is None:
            return None
        whole = (self.input * input_tokens + self.output * output_tokens) / MILLION
        return whole.quantize(Decimal("1e-9"))


def price_of(*, model: str) -> Price | None:
    """Return the price of ``provider:model``, None where RAG_PRICES names none.

    A name that ends in ``*`` stands for all that begin so; the longest one counts. A price that
    cannot be read is none, which the log and ``rag_doctor`` say.
    """
    prices = conf().prices
    name = model if model in prices else _pattern(model)
    if not name:
        return None
    try:
        return read_price(name=name)
    except ConfigurationError as error:
        log.error("%s", error)
        return None


def read_price(*, name: str) -> Price:
    """Return a price of the setting; raise ConfigurationError for one that is none."""
    entry = conf().prices[name]
    try:
        price = Price(
            Decimal(str(entry["input"])),
            Decimal(str(entry.get("output", 0))),
            str(entry.get("currency", "USD")).upper(),
        )
    except (KeyError, TypeError, AttributeError, InvalidOperation):
        price = None
    if price is None or not _is_sound(price):
        raise ConfigurationError(
            "RAG_PRICES names no price for {model}.",
            hint="Write {example}.",
            model=name,
            example='{"input": 0.3, "output": 2.5, "currency": "USD"}',
        )
    return price


def _is_sound(price: Price) -> bool:
    amounts = (price.input, price.output)
    are_amounts = all(one.is_finite() and 0 <= one < 10**6 for one in amounts)
    return are_amounts and len(price.currency) == 3 and price.currency.isalpha()


def _pattern(model: str) -> str:
    fitting = [name for name in conf().prices if name.endswith("*") and model.startswith(name[:-1])]
    return max(fitting, key=len, default="")

"""Plugins for Citable; importing this files them."""

from __future__ import annotations

from citable_glossary import enhancer as enhancer
from citable_glossary import source as source

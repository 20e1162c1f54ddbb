"""Plugins for Citable; importing this registers them."""

from __future__ import annotations

from citable_glossary import chat as chat
from citable_glossary import connector as connector
from citable_glossary import embedding as embedding
from citable_glossary import enhancer as enhancer
from citable_glossary import parser as parser
from citable_glossary import reranker as reranker
from citable_glossary import source as source
from citable_glossary import splitter as splitter
from citable_glossary import tool as tool
from citable_glossary import web_search as web_search

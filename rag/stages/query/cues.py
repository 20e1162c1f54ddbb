"""Cue patterns of both languages, compiled and in their order of precedence.

Patterns meet folded text in which every named thing stands as ``◊`` and every quantity as ``#``.
Nothing in them may go back and forth over a long text, so what lies between two words is bounded.
"""

from __future__ import annotations

import re

from rag.stages.query import cues_chinese as zh
from rag.stages.query import cues_english as en

# The kind of cue and the intent that it means; the first that is found decides.
_ORDER = (
    ("work", "general"),
    ("reason", "understand"),
    ("fetch", "find_specific"),
    ("compare", "compare"),
    ("ideas", "explore"),
    ("find", "find_specific"),
    ("understand", "understand"),
    ("explore", "explore"),
    ("lookup", "lookup"),
    ("define", "understand"),
    ("ask", "lookup"),
)
INTENT_CUES = tuple(
    (intent, re.compile(f"{zh.CUES[kind]}|{en.CUES[kind]}")) for kind, intent in _ORDER
)
# Polite openings: without them the intent is found, and what is asked about the files of a store.
# ``conversation_request`` drops more (ok, so, 能不能), ``condense`` all but a subject. Words that
# bring no hit are STOP_WORDS of ``text.terms``.
POLITE = re.compile(
    r"^(?:(?:你好|您好|嗨|hi|hello|hey|excuse me|sorry)(?:\s+(?:there|all))?[\s,，!！.。~～]+(?=\S)"
    rf"|{zh.POLITE}|{en.POLITE})[\s,，:：]*",
    re.I,
)
CHAT = re.compile(rf"(?:{zh.CHAT}|{en.CHAT})[\s.!?。！？~～…]*")
# Asked what a code is, one wants the place where it stands.
WHAT_IS_IT = re.compile(
    rf".{{0,8}}◊ ?是(?:什么|啥){zh.END}|what(?:'s| is| are) (?:an? |the )?◊{en.END}"
)
YES_OR_NO = re.compile(zh.YES_OR_NO)
# A document is named by the end of what is no sentence.
PAPER_END = re.compile(rf"(?:{zh.PAPERS})[\s◊.。]*$|\b(?:{en.PAPERS})[\s◊.]*$")
# Somebody speaks of himself: no title of a document begins so.
STATEMENT = re.compile(f"{zh.STATEMENT}|{en.STATEMENT}")
QUESTION = re.compile(f"{zh.QUESTION}|{en.QUESTION}")
CONDITION = re.compile(f"{zh.CONDITION}|{en.CONDITION}")
JOINT = re.compile(f"{zh.JOINT}|{en.JOINT}")
CLAUSE = re.compile(
    r"[，,；;、。！!？?]+|\band (?=why|how|what|when|who|which|where|should|is|are|can)"
)

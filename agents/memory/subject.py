"""What a memory is about, so that there is one of each. In: a text. Out: a short folded key."""

from __future__ import annotations

import hashlib
import re
import unicodedata

HAN = re.compile(r"[\u3400-\u9fff]")
MAX_CHARACTERS = 200
_UNSTORABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def plain(text: str) -> str:
    """Return a text that a database and XML can hold."""
    return _UNSTORABLE.sub("", text)


def subject_of(text: str) -> str:
    """Return the words of a text, folded; of a long one a digest; empty when it has no words."""
    folded = unicodedata.normalize("NFKC", plain(text)).casefold()
    words = " ".join(re.findall(r"\w+", folded))
    if len(words) <= MAX_CHARACTERS:
        return words
    return hashlib.sha256(words.encode()).hexdigest()

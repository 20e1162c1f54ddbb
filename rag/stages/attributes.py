"""What stands in a tag as a model writes it. In: a text. Out: attributes, name by name."""

from __future__ import annotations

import html
import re

# A quote's own marks are often left as they are: the last one before the next name is the end.
_ATTRIBUTE = re.compile(
    r"(\w+)\s*[=＝]\s*(?:\"(.*?)\"|'(.*?)'|[“”](.*?)[“”]|[‘’](.*?)[‘’]|[「『](.*?)[」』]|＂(.*?)＂"
    r"|([\w-]+))"
    r"(?=\s+\w+\s*[=＝]\s*[\"'“”‘’「『＂\w]|\s*/?\s*$)",
    re.S,
)
# Marks that a model escaped as it would inside HTML or JSON.
_ESCAPED_MARK = re.compile(r"(?<==)\s*(?:&quot;|&#34;|&#x22;|&#39;|&apos;|\\[\"'])", re.I)
# Where one stands plain, escaped ones belong to what is quoted.
_PLAIN_MARK = re.compile(r"=\s*[\"'“”‘’「]")


def read_attributes(text: str) -> dict[str, str]:
    """Return each attribute by its name in lower case, in any order and any quotation marks.

    Escapes are resolved. Never raises; what is no attribute is passed over.
    """
    if _ESCAPED_MARK.search(text) and not _PLAIN_MARK.search(text):
        text = html.unescape(text).replace('\\"', '"').replace("\\'", "'")
    return {
        name.lower(): html.unescape(next(filter(None, values), ""))
        for name, *values in _ATTRIBUTE.findall(text)
    }

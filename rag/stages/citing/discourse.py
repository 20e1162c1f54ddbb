"""Discourse markers: what a sentence says to its reader, or of its source, and not of its subject.

Greetings and offers of help claim nothing; a transition before a claim is no part of it.
"""

from __future__ import annotations

import re

from rag.stages.text.terms import is_han

# Words for the sources themselves, wherever they stand.
OF_SOURCES = re.compile(
    r"\b(?:according|documents?|documentation|manuals?|guides?|texts?|passages?|sources?|context"
    r"|provided|sections?|pages?|stat(?:es?|ed)|mention(?:s|ed)?|says?|said|describe[sd]?|noted?"
    r"|example|namely)\b"
    r"|根据|按照|依据|文档|资料|文件|手册|指南|来源|上下文|所述|显示|指出|提到|说明|规定|例如",
    re.I,
)
_SOURCE = (
    r"(?:documents?|documentation|manuals?|texts?|passages?|sources?|context|information|excerpts?)"
)
_SOURCE_HAN = r"(?:资料|文档|文件|内容|信息|来源|上下文|手册|规定)"
# Followed by a comma or by nothing.
_TRANSITION = (
    r"sure|certainly|absolutely|of course|okay|ok|yes|no|great|correct|hello|hi|hey|well|thanks?"
    r"|thank you|overall|indeed|in (?:summary|short|brief|conclusion|general|addition|particular"
    r"|other words|contrast|fact|essence)|to (?:summari[sz]e|sum up|conclude|clarify|be clear)"
    r"|on the (?:one|other) hand|at the same time|as a (?:result|rule|consequence|reminder)"
    r"|for (?:example|instance|this reason|reference)|first(?:ly)?(?: of all)?|second(?:ly)?"
    r"|third(?:ly)?|finally|lastly|next|then|additionally|furthermore|moreover|also|similarly"
    r"|likewise|however|therefore|thus|hence|consequently|specifically|note|please note|important"
    r"|好的|当然可?以?|是的?|对的?|不是|不|没有|可以的?|没问题|你好|您好|谢谢|总之|总[的体]来[说看]"
    r"|综上(?:所述)?|换句话说|换言之|也就是说|(?:具体|简单|一般|通常)(?:来说|而言|来讲)|简而言之"
    r"|另外|此外|同时|与此同时|另?一方面|首先|其次|然后|接着|最后|因此|所以|不过|但是|然而|例如|比如"
    r"|请?注意|(?:需要|值得|应当|必须)?(?:特别)?(?:注意|说明|指出|强调|一提)的是|需要注意"
)
# Followed by the claim.
_REMARK = (
    r"(?:please )?(?:note|remember|keep in mind|be aware|bear in mind) that"
    r"|it (?:is|'s) (?:important|worth|essential|useful) (?:to note|to remember|noting|mentioning)"
    r" that"
    r"|it (?:is (?:written|stated|said)|reads|says)(?: there)?\s*:"
    rf"|(?:the|this) (?:provided |given )?{_SOURCE} (?:says?|states?|mentions?|notes?|indicates?"
    r"|specif(?:y|ies)|shows?)(?: that)?"
    rf"|(?:according to|based on) (?:the |this |these )?(?:provided |given |above )?{_SOURCE},?"
    rf"|(?:根据|按照|依据)(?:上述|以上|提供|所给|相关|现有|给定)?的?{_SOURCE_HAN}(?:中的{_SOURCE_HAN})?"
    r"[，,：:]?"
    rf"|{_SOURCE_HAN}[中里]?(?:提到|指出|显示|说明|写道|表示|明确)了?[，,：:]?"
)
_LEAD = re.compile(
    rf"\s*(?:(?:{_TRANSITION})(?:\s*[,，:：!！]\s*|\s*[.。]?\s*$)|(?:{_REMARK})(?![a-z])\s*)", re.I
)
_COURTESY = re.compile(
    r"(?:i hope|hope this|let me know|feel free|please (?:let me|feel)|happy to help|glad to"
    r"|if you (?:have|need|want) (?:any|more|further|other|additional)\b|i(?:'d| would) be (?:happy"
    r"|glad)|i (?:can|will) (?:help|assist)|how (?:can|may) i|you(?:'re| are) welcome|welcome"
    r"|is there anything|(?:that(?:'s| is) an? )?(?:good|great|excellent) (?:question|morning"
    r"|afternoon|evening|day)|i am an? (?:ai|assistant)|as an ai|thank(?:s| you)(?! to)|hello|hi"
    r"|hey|你好|您好|谢谢|感谢|不客气|希望(?:以上|这|对|能|我|本)"
    r"|如(?:果您?|您)?(?:还|仍)?(?:有|需要?)(?:任何|其[他它]|更多|进一步)?.{0,6}"
    r"(?:问题|疑问|帮助|协助|了解|信息)"
    r"|请随时|欢迎|很高兴|收到|明白)(?![a-z-])",
    re.I,
)
_COURTEOUS_WORDS = 18


def strip_transitions(sentence: str) -> str:
    """Return a sentence from where its claim begins."""
    at = 0
    while (match := _LEAD.match(sentence, at)) and match.end() > at:
        at = match.end()
    return sentence[at:]


def is_courtesy(sentence: str) -> bool:
    """Return whether a sentence of some words greets, thanks or offers help."""
    n_words = len(sentence) / 2 if is_han(sentence) else len(sentence.split())
    return n_words <= _COURTEOUS_WORDS and bool(_COURTESY.match(sentence))

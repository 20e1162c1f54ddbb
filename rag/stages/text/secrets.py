"""Secret detection: passwords, keys and numbers of cards, accounts and identity papers in a text.

Words that name a secret count, and values that look like one. Check digits are those of ISO/IEC
7812 (cards) and ISO 13616 (IBAN); identity cards of China are known by their shape (GB 11643).
"""

from __future__ import annotations

import re
import unicodedata

# Who speaks of one of these may give it in the next words.
_NAMED = re.compile(
    r"密码|密碼|口令|密钥|密鑰|私钥|私鑰|验证码|驗證碼|动态码|身份证|身份證|护照号|護照號|社保号|"
    r"银行卡|銀行卡|信用卡|储蓄卡|银行账[号户]|銀行帳[號戶]|卡号|卡號|安全码|"
    r"\bpass(?:word|wd|phrase|code)s?\b|\bpwds?\b|\bsecrets?\b|\btokens?\b|"
    r"\b(?:api|private|secret|access|ssh)[ _-]?keys?\b|\bcredentials?\b|\bcredit ?cards?\b|"
    r"\b(?:bank|debit) ?cards?\b|\bcard numbers?\b|\bbank accounts?\b|\bpassport n\w+|"
    r"\bsocial security\b|\bssn\b|\biban\b|\bcvv2?\b|\bcvc2?\b|\botp\b|\bone[- ]time codes?\b|"
    r"\b2fa\b|\bpin ?(?:code|number)s?\b|\bpin(?= (?:is|was)\b|\s*[:=])",
    re.I,
)
# Keys by the beginnings that their services give them, private keys, passwords in addresses.
_KEY = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{8,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}|"
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bxox[abposr]-[\w-]{8,}|\bck_[0-9a-f]{8}_|"
    r"\beyJ[\w-]{8,}\.[\w-]{8,}|\bLTAI\w{12,}|-----BEGIN [A-Z ]*PRIVATE KEY|"
    r"\b[a-z][a-z+.-]+://[^\s/:@]+:[^\s/@]+@|(?i:\bbearer\s+)[\w.~+/=-]{12,}"
)
_NUMBER = re.compile(r"(?<![\w.])\d(?:[ -]?\d){12,18}(?![\w.]?\d)")
_CARD_GROUPS = re.compile(r"(?<![\w.])\d{4}(?:[ -]\d{4}){2,3}[ -]\d{1,4}(?!\d)")
_IDENTITY = re.compile(r"(?<!\d)[1-9]\d{5}(?:19|20)\d{2}(?:0\d|1[0-2])(?:[0-2]\d|3[01])\d{3}[\dXx]")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_SOCIAL_SECURITY = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_ACCOUNT = re.compile(
    r"(?:账号|帐号|帳號|账户|户头|\baccount(?: n\w+\.?)?|\bacct\.?)[^\n]{0,12}?\d(?:[ -]?\d){5,}",
    re.I,
)
# An account number or a card without spaces, whatever its check digit is.
_LONG = re.compile(r"(?<!\d)\d{15,19}(?!\d)")


def mentions_secret(text: str) -> bool:
    """Return whether a text names a password, key, card or identity paper, or holds one."""
    folded = unicodedata.normalize("NFKC", text)
    if any(one.search(folded) for one in (_NAMED, _KEY, _ACCOUNT, _SOCIAL_SECURITY, _IDENTITY)):
        return True
    if _LONG.search(folded) or _CARD_GROUPS.search(folded):
        return True
    return any(_is_card(match.group()) for match in _NUMBER.finditer(folded)) or any(
        _is_iban(match.group()) for match in _IBAN.finditer(folded)
    )


def _is_card(written: str) -> bool:
    digits = [int(one) for one in written if one.isdigit()]
    doubled = [sum(divmod(2 * one, 10)) for one in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(written: str) -> bool:
    bare = written.replace(" ", "")
    return (
        15 <= len(bare) <= 34
        and int("".join(str(int(c, 36)) for c in bare[4:] + bare[:4])) % 97 == 1
    )

"""Judge whether a value is a credential, or a sample, a reference or code.

To mask a sample costs a reader a moment, to show a credential costs more; but a history in which
every second word is masked is of no use either. These rules are measured: docs/secrets.md.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.text.lazy_pattern import lazy_pattern

_REFERENCE: Final = lazy_pattern(
    r"\A[$%<{\[(@]|\$\{|\{\{|\$\(|\Afound-[0-9a-f]{12}-\d{1,9}(?:\.[A-Za-z0-9-]{1,16})?(?:>|\Z)"
)
"""$TOKEN, ${TOKEN}, %TOKEN%, <token>, {{ token }}; and the name in a handle of a found secret."""
_SAMPLE_PART: Final = lazy_pattern(
    r"(?i)<[\w\s-]+>|\*{3}|\.{3}|…|xxxx|----"
    r"|your|example|placeholder|redacted|masked|change_?me|replace|dummy|insert"
)
_SAMPLE: Final = lazy_pattern(
    r"""(?ix)
    [x*.•_0\#-]+
    | (?:my|the|some|any|a|test|new|old|user|db|root|admin)?[_-]?
      (?:user(?:name)?|pass(?:word|wd|phrase)?|pwd|secret|token|key|api[_-]?key|credentials?)
    | (?:none|null|nil|undefined|true|false|string|str|number|int|bytes|text|bool(?:ean)?|object|any
      |optional|required|missing|empty|unset|invalid|expired|hidden|unknown|default|disabled|enabled)
      [?\]|]*
    """
)
_CODE: Final = lazy_pattern(
    r"""(?x)
    [A-Za-z_][\w.]*[(\[].*                    # a call, an item
    | [A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+[?!]?  # an attribute
    | [./~](?=.*/).* | (?=.*:/).*             # a path, an address
    | [!&*|=>+-].{0,3}
    """
)
_NAME_LIKE: Final = lazy_pattern(
    r"_*(?:[a-z]+(?:[_-][a-z]+)+|[A-Z]+(?:_[A-Z]+)+|[a-z]+(?:[A-Z][a-z]*)+|(?:[A-Z][a-z]+){2,})"
)
"""The shape of names: words joined, without a digit."""
_RUN: Final = lazy_pattern(r"[A-Za-z0-9]{16,}")
_CAPITALS: Final = lazy_pattern("(?=[A-Z][A-Z])")
_RISES: Final = lazy_pattern("(?=[a-z][A-Z])")
_DIGIT: Final = lazy_pattern(r"\d")
_SPACE: Final = lazy_pattern(r"\s")
_SIGN: Final = lazy_pattern(r"[\d!@#$%^&*+=~?]")

_PASSWORD_CHARS: Final = 4
_TOKEN_CHARS: Final = 8
_PHRASE_CHARS: Final = 12
"""Letters alone are taken for a credential from here on."""
_PHRASE_HYPHENS: Final = 3
"""And words with so many hyphens between them for a passphrase."""


def is_sample(value: str) -> bool:
    """Return whether a value only shows where one goes, or refers to one."""
    if _REFERENCE.search(value):
        return True
    if _is_random(value):
        return False
    return bool(_SAMPLE_PART.search(value) or _SAMPLE.fullmatch(value))


def _is_random(value: str) -> bool:
    """Return whether it has a part that no one writes to show something: chance may spell a word
    in it."""
    return any(
        (_DIGIT.search(run) and len(set(run)) >= 8) or _is_scrambled(run)
        for run in _RUN.findall(value)
    )


def _is_scrambled(run: str) -> bool:
    """Capitals beside capitals and after small letters, over and over: no name is written so."""
    often = len(run) / 8
    return len(_CAPITALS.findall(run)) >= often and len(_RISES.findall(run)) >= often


def has_digit(value: str) -> bool:
    """Return whether it has a digit, as nearly every credential has, or is letters thrown
    together."""
    return (_DIGIT.search(value) is not None or _is_random(value)) and not is_sample(value)


def is_mixed(value: str) -> bool:
    """Capitals, small letters and digits: neither a word nor a hash."""
    return bool(has_digit(value) and re.search("[a-z]", value) and re.search("[A-Z]", value))


def is_dense(value: str) -> bool:
    """Return whether it has a long part that is not made of words and is not a sample."""
    if is_sample(value):
        return False
    run = max(_RUN.findall(value), key=len, default="")
    if run:
        return len(set(run)) > 1 or run[0] not in "xX0"
    return len(_DIGIT.findall(value)) >= 4


def is_named_secret(value: str, *, is_password: bool, is_quoted: bool) -> bool:
    """Return whether a value that stands after the name of a credential is one.

    In quotes it is a value for certain; bare it may be the next word of a sentence or of a program.
    """
    least = _PASSWORD_CHARS if is_password else _TOKEN_CHARS
    if len(value) < least or _SPACE.search(value):
        return False
    if _CODE.fullmatch(value) or is_sample(value):  # the cheaper one first
        return False
    if _is_random(value):
        return True
    if _NAME_LIKE.fullmatch(value):
        return is_password and value.count("-") >= _PHRASE_HYPHENS
    if is_password and is_quoted:
        return True
    if is_password:
        return bool(_SIGN.search(value)) or len(value) >= _PHRASE_CHARS or "-" in value[1:-1]
    if _DIGIT.search(value):
        return is_quoted or re.search("[A-Za-z]", value) is not None
    return is_quoted and len(value) >= _PHRASE_CHARS

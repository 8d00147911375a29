"""What looks like a credential, by its shape, for texts that Holdfast makes itself.

Stored text is never rewritten by this: a shape is a guess, and a wrong guess in a log or a command
breaks it. In a summary or a note it costs a word.
"""

from __future__ import annotations

import re
from typing import Final

LEFT_OUT: Final = "[secret left out]"

_SHAPES: Final = re.compile(
    r"""
    -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    | \b(?:sk|pk|rk)-(?:[a-z]+-)*[A-Za-z0-9_-]{16,}          # OpenAI, Anthropic
    | \b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}             # Stripe
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
    | \bAIza[\w-]{30,}
    | \bxox[abprs]-[\w-]{10,}
    | \bhf_[A-Za-z0-9]{20,} | \bnpm_[A-Za-z0-9]{20,} | \bpypi-[\w-]{20,}
    | \b\d{8,10}:AA[\w-]{30,}                                # Telegram
    | \beyJ[\w-]{10,999}\.[\w-]{10,}\.[\w-]{5,}                 # a JSON web token
    | (?<=://)[^\s:/@]+:[^\s@/]{3,}(?=@)                     # user:password@host
    | (?i:\b(?:bearer|basic)[ ])[A-Za-z0-9+/._=-]{16,}
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMED: Final = re.compile(
    r"""(?ix)
    (\b(?:[\w-]{0,40}(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token
        |access[_-]?token|private[_-]?key|credentials?)|pwd|passwort|kennwort|contraseña
        |mot\ de\ passe|senha|пароль|密码|密碼|パスワード)
        ["']?\s*(?:[:=]|\bis\b|\bist\b|\bes\b|\best\b|は|是|：)\s*["'`]?)
    (?!\[secret\ left\ out\])
    (?=[^\s"'`]*[\d!@\#$%^&*_-]|[^\s"'`]{12,})([^\s"'`,;]{5,})
    """,
)


def without_secrets(text: str) -> str:
    """The text, with a note in place of what looks like a credential."""
    text = _SHAPES.sub(LEFT_OUT, text)
    return _NAMED.sub(lambda match: f"{match[1]}{LEFT_OUT}", text)


def has_secret(text: str) -> bool:
    return without_secrets(text) != text

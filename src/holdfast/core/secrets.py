"""What looks like a credential, by its shape: the one table of shapes, and where they stand.

A shape is a guess, so stored text is never rewritten by it; what leaves the log is
(`core.redaction`). Every pattern takes time linear in the text: it begins with something fixed,
what it repeats cannot be read in two ways, and it cannot begin again inside what it has read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.secret_values import has_digit, is_dense, is_mixed, is_named_secret, is_sample
from holdfast.core.spans import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRIVATE_KEY: Final = "private key"
PRIVATE_KEY_CHARS: Final = 16 * 1024
"""The longest private key block that is taken for one: RSA with 16,384 bits has 12,700."""
SHORTEST_CHARS: Final = 8
"""No shape is shorter than this, whatever stands before it included."""


class _Shape(NamedTuple):
    """A pattern whose first group (or whole match) is a secret if the test says so.

    One of the `signs` is in every text that it matches: to look for them is much quicker.
    """

    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    test: Callable[[str], bool]


_START: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)|(?<=\x1b\[\d;\d\dm))"
)
"""Not inside a word. An escape before it ends in a letter and belongs to no word."""
_END: Final = r"(?![A-Za-z0-9])"


def _shape(signs: str, pattern: str, test: Callable[[str], bool] = is_dense) -> _Shape:
    return _Shape(tuple(signs.split()), re.compile(pattern, re.ASCII), test)


def _always(_secret: str) -> bool:
    return True


def _token(signs: str, rest: str, test: Callable[[str], bool] = is_dense) -> _Shape:
    """A token that begins with one of the signs."""
    either = "|".join(re.escape(sign) for sign in signs.split())
    return _shape(signs, rf"{_START}(?:{either}){rest}", test)


def _family(sign: str, pattern: str, test: Callable[[str], bool] = is_dense) -> _Shape:
    """Tokens that have a sign in common, at their beginning or in it."""
    return _shape(sign, _START + pattern, test)


_SHAPES: Final = (
    # models
    *(  # Anthropic, OpenAI, OpenRouter, Langfuse; the sign first, because `task-` has it too
        _shape(
            sign,
            rf"{sign}(?:(?<![A-Za-z0-9]...)|(?<=\\[nrtbf]...)|(?<=%\w\w...)|(?<=\[\d\dm...))"
            r"[A-Za-z0-9_-]{16,}",
        )
        for sign in ("sk-", "pk-", "rk-")
    ),
    _token("gsk_ fw_ r8_ hf_", r"[A-Za-z0-9]{20,}"),
    _token("pplx- xai- nvapi- tvly- jina_ lsv2_", r"[A-Za-z0-9_-]{20,}"),
    _token("AIza ya29. GOCSPX-", r"[A-Za-z0-9_-]{20,}"),  # Google
    _token("1//0", r"[A-Za-z0-9_-]{20,}"),
    # code and packages
    _token("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}"),
    _family("_pat_", r"(?:github|dckr)_pat_[A-Za-z0-9_-]{20,}"),
    _family("glpat-", r"glpat-[A-Za-z0-9_-]{16,}"),
    _shape("t-", r"gl(?<![A-Za-z0-9]..)(?:d|r|cb|pt|f|im|agen|soa|ffc)t-[A-Za-z0-9_-]{16,}"),
    _token("npm_ pypi- rubygems_ figd_", r"[A-Za-z0-9_-]{20,}"),
    _token("ATATT3 ATCTT3 ATBB", r"[A-Za-z0-9_=-]{20,}"),  # Atlassian
    _token("lin_ ntn_ secret_", r"(?:api_|oauth_)?[A-Za-z0-9]{32,}"),  # Linear, Notion
    _token("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),  # Postman
    # clouds
    _token("AKIA ASIA ABIA ACCA", rf"[0-9A-Z]{{16}}{_END}", _always),
    _shape(
        "AKIA ASIA",
        r"(?:AKIA|ASIA)[0-9A-Z]{16}[^A-Za-z0-9][\s\S]{0,120}?"
        r"(?<![A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        is_mixed,
    ),
    _token("AKID", r"[A-Za-z0-9]{13,48}" + _END),  # Tencent
    _token("LTAI", r"[A-Za-z0-9]{12,26}" + _END),  # Alibaba
    _family("_v1_", r"do[opr]_v1_[a-f0-9]{32,}"),  # DigitalOcean
    _shape("Key=", r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}=*)"),  # Azure
    _shape("8Q~", rf"{_START}[\w~.-]{{3}}8Q~[\w~.-]{{31,40}}", _always),
    _token("hvs. hvb. hvr.", r"[A-Za-z0-9_-]{20,}"),  # Vault
    _token("dapi", rf"[0-9a-f]{{32}}(?:-\d)?{_END}"),  # Databricks
    _token("dp.", r"(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{30,}"),  # Doppler
    _shape(".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}"),  # Terraform
    _token("HRKU- tskey- sbp_ sb_secret_ pscale_ pul-", r"[\w.-]{20,}"),
    _token("NRAK- AGE-SECRET-KEY-1", r"[A-Za-z0-9]{20,}"),
    _token("sntrys_ sntryu_ glsa_ glc_", r"[A-Za-z0-9_=+/.-]{30,}"),
    # money and messages
    _token("sk_live_ sk_test_ rk_live_ rk_test_ whsec_", r"[A-Za-z0-9+/=]{16,}"),  # Stripe
    _token("shp", r"(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),  # Shopify
    _token("sq0", r"(?:atp|csp)-[A-Za-z0-9_-]{22,}"),  # Square
    _token("xox xapp-", r"(?:[a-z]-)?[\w.%-]{10,}"),  # Slack
    _shape("hooks.slack.com/", r"hooks\.slack\.com/\w{1,20}/(T\w{6,20}/\w{6,20}/\w{16,40})"),
    _shape("/api/webhooks/", r"/api/webhooks/\d{10,25}/([\w-]{20,100})"),  # Discord
    _shape(
        ".",
        r"[MNO](?<![\w-].)[A-Za-z0-9]{22,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}" + _END,
        is_mixed,
    ),
    _shape(":AA", rf"{_START}(?:bot)?(\d{{8,10}}:AA[A-Za-z0-9_-]{{30,}}){_END}"),  # Telegram
    _token("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),  # SendGrid
    _token("SK", rf"[0-9a-f]{{32}}{_END}"),  # Twilio
    _token("key-", rf"[0-9a-f]{{32}}{_END}"),  # Mailgun
    _token("nfp_ aio_ tfp_ xkeysib- sgp_ sk.eyJ", r"[\w.-]{20,}"),  # Netlify … Mapbox
    _shape("pat-", r"pat(?<![A-Za-z0-9]...)-[a-z]{2}\d-[0-9a-f-]{36}"),  # HubSpot
    # anywhere
    _shape(  # a JSON web token: looked for once in every word, from its first `eyJ` on
        "eyJ",
        r"(?<![\w-])(?>(?:(?!eyJ)[\w-])*)"
        r"(eyJ[\w-]{10,}\.(?:[\w-]{10,}\.[\w-]{5,}|eyJ[\w-]{10,}))",
        _always,
    ),
    _shape("://", r"://[^\s:/@\"'`<>]*:([^\s/\"'`<>]{3,})(?=@)", lambda one: not is_sample(one)),
    _shape(
        "earer asic EARER ASIC",
        rf"(?i:{_START}(?:bearer|basic))[ \t]{{1,8}}([A-Za-z0-9+/._~=-]{{12,}})",
        has_digit,
    ),
    _shape(
        "uthorization UTHORIZATION",
        r"(?i:authorization)\\*[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"']?"
        r"(?:(?i:basic|bearer|token|apikey|digest|negotiate|aws4-hmac-sha256)[ \t]{1,8})?"
        r"([A-Za-z0-9+/._~=:-]{8,})",
        has_digit,
    ),
    _shape(
        "ookie OOKIE",
        r"(?i:cookie)\\*[\"']?[ \t]{0,8}:[ \t]{0,8}\\*[\"']?([\w.-]{1,64}=[^\r\n\"'\\]{4,4096})",
        has_digit,
    ),
    _shape(
        "=",
        r"(?i:[?&;](?:key|sig|signature|auth|jwt|code|x-(?:amz|goog)-(?:signature|credential)))"
        r"=([^\s&\"'`#<>\\]{16,2048})",
        has_digit,
    ),
    _shape(
        "curl",
        r"[ \t](?:-u|--user)[ \t=]{1,8}[\"']?[^\s:\"'$]{1,64}:([^\s\"'$]{3,})",
        lambda one: not is_sample(one),
    ),
    _shape("sshpass", r"sshpass[ \t]{1,8}-p[ \t]{0,8}[\"']?([^\s\"'$]{3,})", _always),
    _shape("_KEY", r"_KEY\\*[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"'`]?([A-Za-z0-9+/=_-]{16,})"),
)

_PASSWORDS: Final = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "passwort", "kennwort", "contraseña"),
    *("mot de passe", "senha", "пароль", "密码", "密碼", "パスワード"),
)
_STEMS: Final = (
    *(*_PASSWORDS, "secret", "token", "credential", "credentials", "cvv", "cvc", "key"),
    *("card_number", "cardnumber", "card-number", "connectionstring", "connection_string"),
)
"""How names of credentials end, in small letters."""
_KEY_OF: Final = re.compile(
    r"(?:api|access|auth|private|signing|encryption|account|subscription|master|secret|service"
    r"|license)[_-]?\Z"
)
"""What stands before `key` where it names a credential."""
_KEY_OF_CHARS: Final = 16
_SUFFIX: Final = re.compile(r"[_-]?(?:\d{1,2}|prod(?:uction)?|dev|test|staging|live|value)\Z")
_VALUE: Final = r"""
    (?:
        (?P<quote>\\{0,3}["'`])(?P<quoted>(?:(?!(?P=quote))[^\r\n]|(?<=\\)(?P=quote)){1,400})
        (?P=quote)
      | \\{0,3}["'`]?(?P<bare>[^\s"'`,;&\\]{4,400})
    )
"""
_ASSIGNED: Final = re.compile(
    rf"""(?ix)
    (?:[_-]?(?:\d{{1,2}}|prod(?:uction)?|dev|test|staging|live|value))?\\{{0,3}}["'`]?\]?
    (?:[ \t]{{0,20}}(?:=>|:=|[:=：])|[ ](?:is|ist|es|est)(?=[ ])|は|是)[ \t]{{0,20}} {_VALUE}
    """
)
"""What follows a name: a sign or a word, and the value."""
_SPACED: Final = re.compile(rf"(?x)[ \t]{{1,8}}(?!-) {_VALUE}")
_FLAG: Final = re.compile(r"(?<![\w-])--?[a-z-]{0,24}\Z")
_FLAG_CHARS: Final = 28

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_CLOSE: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BREAK: Final = r"(?:\r?\n|\\+r\\+n|\\+[nr])"
_ATTRIBUTE: Final = r"[A-Za-z-]{1,20}:[ ][^\r\n\\]{0,120}"
_BODY: Final = re.compile(
    rf"(?:{_BREAK}|(?:[A-Za-z0-9+/=]+|{_ATTRIBUTE}){_BREAK})*"
    r"(?:[A-Za-z0-9+/=]{16,}|(?=[A-Za-z]*[0-9+/=])[A-Za-z0-9+/=]+)?"
)
"""Lines of a key, and what is left of one that was cut."""


def spans(text: str) -> Iterator[Span]:
    """Where something in a text looks like a credential; in no order, and they may overlap."""
    if len(text) < SHORTEST_CHARS:
        return
    for shape in _SHAPES:
        for sign in shape.signs:
            if sign in text:
                yield from _matches(shape, text)
                break
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)
    lowered = _lowered(text)
    for stem in _STEMS:
        if stem in lowered:
            yield from _named(stem, text, lowered)


def is_credential(name: str, value: str) -> bool:
    """Whether a field of that name holds a credential, as it stands there alone."""
    stem = _stem_of(name)
    return bool(stem) and is_named_secret(value, is_password=stem in _PASSWORDS, is_quoted=True)


@lru_cache(maxsize=4_096)
def _stem_of(name: str) -> str:
    """What makes the name of a field that of a credential; empty if nothing does."""
    lowered = _SUFFIX.sub("", name.lower()) or name.lower()
    for stem in _STEMS:
        if lowered.endswith(stem) and _is_name(stem, lowered, len(lowered) - len(stem)):
            return stem
    return ""


def _is_name(stem: str, lowered: str, place: int) -> bool:
    if stem != "key":
        return True
    return _KEY_OF.search(lowered, max(0, place - _KEY_OF_CHARS), place) is not None


def _lowered(text: str) -> str:
    """In small letters, each at its place: some capitals become two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := one.lower()) == 1 else one for one in text)


def _matches(shape: _Shape, text: str) -> Iterator[Span]:
    group = min(1, shape.pattern.groups)
    for match in shape.pattern.finditer(text):
        if shape.test(match[group]):
            yield Span(*match.span(group))


def _named(stem: str, text: str, lowered: str) -> Iterator[Span]:
    """The values that are given to names which end so."""
    place = lowered.find(stem)
    while place >= 0:
        end = place + len(stem)
        match = _ASSIGNED.match(text, end)
        if match is None and _FLAG.search(lowered, max(0, place - _FLAG_CHARS), place):
            match = _SPACED.match(text, end)
        if match is not None and _is_name(stem, lowered, place):
            span = _value(match, is_password=stem in _PASSWORDS)
            if span is not None:
                yield span
                end = span.end
        place = lowered.find(stem, end)


def _value(match: re.Match[str], *, is_password: bool) -> Span | None:
    is_quoted = match["bare"] is None
    start, end = match.span("quoted" if is_quoted else "bare")
    if not is_quoted:
        end = start + len(match["bare"].rstrip(".:)]}>|"))
    value = match.string[start:end]
    is_one = is_named_secret(value, is_password=is_password, is_quoted=is_quoted)
    return Span(start, end) if is_one else None


def _private_keys(text: str) -> Iterator[Span]:
    """Blocks from BEGIN to END, and what is left of one that was cut before or after."""
    place = 0
    for begin in _BEGIN.finditer(text):
        if begin.start() < place:
            continue
        close = _CLOSE.search(text, begin.end(), begin.end() + PRIVATE_KEY_CHARS)
        body = _BODY.match(text, begin.end(), begin.end() + PRIVATE_KEY_CHARS)
        assert body is not None
        place = close.end() if close else body.end()
        yield Span(begin.start(), place, PRIVATE_KEY)
    place = 0
    for close in _CLOSE.finditer(text):
        before = text[max(place, close.start() - PRIVATE_KEY_CHARS) : close.start()]
        place = close.end()
        if lines := _body_before(before):
            yield Span(close.start() - lines, close.end(), PRIVATE_KEY)


def _body_before(text: str) -> int:
    """How many characters at the end of a text are lines of a key."""
    count = 0
    for line in reversed(re.split(rf"({_BREAK})", text)):
        if not re.fullmatch(rf"[A-Za-z0-9+/=]*|{_BREAK}", line):
            tail = re.search(r"[A-Za-z0-9+/=]{16,}\Z", line)
            return count + (len(tail[0]) if tail else 0)
        count += len(line)
    return count

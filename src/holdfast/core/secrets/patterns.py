"""Find credentials by their shape: the one table of shapes.

A shape is a guess, so stored text is rewritten by it only on request (`core.secrets.found`); what
leaves the log always is (`core.secrets.redaction`). Every pattern takes time linear in the text:
it begins with something fixed, what it repeats cannot be read in two ways, and it cannot begin
again inside what it has read.
"""

from __future__ import annotations

import re
import string
from collections import deque
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.strings import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
_OPAQUE_CHARS: Final = 8
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
    least = _PASSWORD_CHARS if is_password else _OPAQUE_CHARS
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


PRIVATE_KEY: Final = "private key"
PRIVATE_KEY_CHARS: Final = 16 * 1024
"""The longest private key block that is taken for one: RSA with 16,384 bits has 12,700."""
SHORTEST_CHARS: Final = 8
"""No shape is shorter than this, whatever stands before it included."""
_TOKEN_CHARS: Final = 15
"""No token is; what is shorter is known by its name."""
_GIVES: Final = lazy_pattern(r"[:=： は是]")
"""The separator between a name and a value."""


class _Shape(NamedTuple):
    """A pattern whose first group (or whole match) is a secret if the test says so.

    The `sign` is in every text that it matches: to look for that is much quicker. The `kind` says
    to a reader which shape it is.
    """

    sign: str
    pattern: str
    test: Callable[[str], bool]
    kind: str


_END: Final = r"(?![A-Za-z0-9])"


def _starts(chars: int) -> str:
    """That what has so many characters, and was just read, does not stand inside a word.

    An escape before it ends in a letter and belongs to no word. To look for the sign itself first
    and only then at what stands before it is many times as quick.
    """
    sign = "." * chars
    return (
        rf"(?:(?<![A-Za-z0-9]{sign})|(?<=\\[nrtbf]{sign})|(?<=%[0-9A-Fa-f]{{2}}{sign})"
        rf"|(?<=\x1b\[\dm{sign})|(?<=\x1b\[\d\dm{sign})|(?<=\x1b\[\d;\d\dm{sign}))"
    )


def _always(_secret: str) -> bool:
    return True


def _shape(
    sign: str, pattern: str, test: Callable[[str], bool] = is_dense, *, kind: str = ""
) -> _Shape:
    return _Shape(sign, pattern, test, kind or sign)


def _tokens(signs: str, rest: str, test: Callable[[str], bool] = is_dense) -> Iterator[_Shape]:
    """Tokens that begin with one of the signs."""
    for sign in signs.split():
        yield _shape(sign, f"{re.escape(sign)}{_starts(len(sign))}{rest}", test)


_SHAPES: Final = (
    # models
    *_tokens("sk- pk- rk-", r"[A-Za-z0-9_-]{16,}"),  # Anthropic, OpenAI, OpenRouter, Langfuse
    *_tokens("gsk_ fw_ r8_ hf_", r"[A-Za-z0-9]{20,}"),
    *_tokens("pplx- xai- nvapi- tvly- jina_ lsv2_", r"[A-Za-z0-9_-]{20,}"),
    *_tokens("sess- csk- llx- nk- fc- pa- tgp_v1_ wandb_v1_ pcsk_ e2b_", r"[A-Za-z0-9_-]{24,}"),
    *_tokens("ABSK bedrock-api-key-", r"[A-Za-z0-9+/=]{40,}"),  # Amazon Bedrock
    *_tokens("vcp_ vci_ vca_ vcr_ vck_", r"[A-Za-z0-9]{24,}"),  # Vercel
    *_tokens("fm1a_ fm1r_ fm2_ fo1_", r"[A-Za-z0-9+/=_,-]{32,}"),  # Fly
    *_tokens("cfut_ cfat_ cfk_ cfoat_ v1.0-", r"[A-Za-z0-9_-]{32,}"),  # Cloudflare
    *_tokens("rnd_ napi_ phx_ bb_live_ fio-u- zpka_", r"[A-Za-z0-9_-]{24,}"),
    *_tokens("re_", r"(?:[A-Za-z0-9]{6,12}_)?[A-Za-z0-9]{20,}"),  # Resend
    *_tokens("sk_ sqp_ squ_ sqa_", r"[A-Za-z0-9]{32,}"),  # ElevenLabs, SonarQube
    *_tokens("ops_", r"[A-Za-z0-9+/=_-]{24,}"),  # 1Password
    *_tokens("4b1d", rf"[A-Za-z0-9]{{38}}{_END}", is_mixed),  # ClickHouse
    _shape("pat", r"pat(?<![A-Za-z0-9]...)[A-Za-z0-9]{14}\.[0-9a-f]{64}", kind="Airtable token"),
    *_tokens("CCIPAT_ CFPAT- bkua_ pnu_ dt0c01. EZAK EZTK FLWSECK", r"[\w.-]{24,}"),
    *_tokens("AIza ya29. GOCSPX-", r"[A-Za-z0-9_-]{20,}"),  # Google
    *_tokens("1//0", r"[A-Za-z0-9_-]{20,}"),
    # code and packages
    *_tokens("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}"),
    *_tokens("github_pat_ dckr_pat_", r"[A-Za-z0-9_-]{20,}"),
    *_tokens("glpat-", r"[A-Za-z0-9_-]{16,}"),
    _shape(
        "t-",
        r"gl(?<![A-Za-z0-9]..)(?:d|r|cb|pt|f|im|agen|soa|ffc)t-[A-Za-z0-9_-]{16,}",
        kind="GitLab token",
    ),
    *_tokens("npm_ pypi- rubygems_ figd_", r"[A-Za-z0-9_-]{20,}"),
    *_tokens("ATATT3 ATCTT3 ATBB", r"[A-Za-z0-9_=-]{20,}"),  # Atlassian
    *_tokens("lin_ ntn_ secret_", r"(?:api_|oauth_)?[A-Za-z0-9]{32,}"),  # Linear, Notion
    *_tokens("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),  # Postman
    # clouds
    *_tokens("AKIA ASIA ABIA ACCA", rf"[0-9A-Z]{{16}}{_END}", _always),
    *(
        _shape(
            sign,
            rf"{sign}[0-9A-Z]{{16}}[^A-Za-z0-9][\s\S]{{0,120}}?"
            r"(?<![A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
            is_mixed,
            kind="AWS secret key",
        )
        for sign in ("AKIA", "ASIA")
    ),
    *_tokens("AKID", r"[A-Za-z0-9]{13,48}" + _END),  # Tencent
    *_tokens("LTAI", r"[A-Za-z0-9]{12,26}" + _END),  # Alibaba
    *_tokens("dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{32,}"),  # DigitalOcean
    _shape("Key=", r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}=*)"),  # Azure
    _shape("8Q~", r"(?<![\w~.-])[\w~.-]{3}8Q~[\w~.-]{31,40}", _always, kind="Azure secret"),
    *_tokens("hvs. hvb. hvr.", r"[A-Za-z0-9_-]{20,}"),  # Vault
    *_tokens("dapi", rf"[0-9a-f]{{32}}(?:-\d)?{_END}"),  # Databricks
    *_tokens("dp.", r"(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{30,}"),  # Doppler
    _shape(".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}"),  # Terraform
    *_tokens("HRKU- tskey- sbp_ sb_secret_ pscale_ pul-", r"[\w.-]{20,}"),
    *_tokens("NRAK- AGE-SECRET-KEY-1", r"[A-Za-z0-9]{20,}"),
    *_tokens("sntrys_ sntryu_ glsa_ glc_", r"[A-Za-z0-9_=+/.-]{30,}"),
    # money and messages
    *_tokens("sk_live_ sk_test_ rk_live_ rk_test_ whsec_", r"[A-Za-z0-9+/=]{16,}"),  # Stripe
    *_tokens("shp", r"(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),  # Shopify
    *_tokens("sq0", r"(?:atp|csp)-[A-Za-z0-9_-]{22,}"),  # Square
    *_tokens("xox xapp-", r"(?:[a-z]-)?[\w.%-]{10,}"),  # Slack
    _shape("hooks.slack.com/", r"hooks\.slack\.com/\w{1,20}/(T\w{6,20}/\w{6,20}/\w{16,40})"),
    _shape("/api/webhooks/", r"/api/webhooks/\d{10,25}/([\w-]{20,100})"),  # Discord
    _shape(
        ".",
        r"[MNO](?<![\w-].)[A-Za-z0-9]{22,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}" + _END,
        is_mixed,
        kind="Discord token",
    ),
    _shape(  # Telegram
        ":AA",
        rf"(?:(?<!\d)|(?<=%[0-9A-Fa-f]{{2}}))(\d{{8,10}}:AA[A-Za-z0-9_-]{{30,}}){_END}",
        kind="Telegram token",
    ),
    *_tokens("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),  # SendGrid
    *_tokens("SK", rf"[0-9a-f]{{32}}{_END}"),  # Twilio
    *_tokens("key-", rf"[0-9a-f]{{32}}{_END}"),  # Mailgun
    *_tokens("nfp_ aio_ tfp_ xkeysib- sgp_ sk.eyJ", r"[\w.-]{20,}"),  # Netlify … Mapbox
    _shape("pat-", r"pat(?<![A-Za-z0-9]...)-[a-z]{2}\d-[0-9a-f-]{36}"),  # HubSpot
    # anywhere
    _shape(  # a JSON web token: looked for once in every word, from its first `eyJ` on
        "eyJ",
        r"(?<![\w-])(?>(?:(?!eyJ)[\w-])*)"
        r"(eyJ[\w-]{10,}\.(?:[\w-]{10,}\.[\w-]{5,}|eyJ[\w-]{10,}))",
        _always,
        kind="JSON web token",
    ),
    _shape(
        "://",
        r"://[^\s:/@\"'`<>]*:([^\s/\"'`<>]{3,})(?=@)",
        lambda value: not is_sample(value),
        kind="password in an address",
    ),
    *(
        _shape(word, rf"{word}(?<=[bB]{word})[ \t]{{1,8}}([\w+/.~=-]{{12,}})", has_digit, kind=kind)
        for word, kind in (
            *(("earer", "bearer token"), ("EARER", "bearer token")),
            *(("asic", "basic authentication"), ("ASIC", "basic authentication")),
        )
    ),
    *(
        _shape(
            word,
            rf"{word}\\*[\"']?[ \t]{{0,8}}[:=][ \t]{{0,8}}\\*[\"']?"
            r"(?:(?i:basic|bearer|token|apikey|digest|negotiate|aws4-hmac-sha256)[ \t]{1,8})?"
            r"([\w+/.~=:-]{8,})",
            has_digit,
            kind="authorization header",
        )
        for word in ("uthorization", "UTHORIZATION")
    ),
    *(
        _shape(
            word,
            rf"{word}\\*[\"']?[ \t]{{0,8}}:[ \t]{{0,8}}\\*[\"']?"
            r"([\w.-]{1,64}=[^\r\n\"'\\]{4,})",
            has_digit,
            kind="cookie",
        )
        for word in ("ookie", "OOKIE")
    ),
    _shape(
        "=",
        r"(?i:[?&;](?:key|sig|signature|auth|jwt|code|x-(?:amz|goog)-(?:signature|credential)))"
        r"=([^\s&\"'`#<>\\]{16,})",
        has_digit,
        kind="credential in a query string",
    ),
    _shape(
        "curl",
        r"[ \t](?:-u|--user)[ \t=]{1,8}[\"']?[^\s:\"'$]{1,64}:([^\s\"'$]{3,})",
        lambda value: not is_sample(value),
        kind="curl -u",
    ),
    _shape(  # .netrc
        "login",
        r"login[ \t\r\n]{1,8}\S{1,128}[ \t\r\n]{1,8}password[ \t\r\n]{1,8}([^\s\"'`]{4,})",
        has_digit,
        kind=".netrc",
    ),
    _shape(  # Docker
        "auth", r"\bauth\\{0,3}\"[ \t]{0,8}:[ \t]{0,8}\\{0,3}\"([A-Za-z0-9+/]{12,}=*)", has_digit
    ),
    _shape("sshpass", r"sshpass[ \t]{1,8}-p[ \t]{0,8}[\"']?([^\s\"'$]{3,})", _always),
    _shape("_KEY", r"_KEY\\*[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"'`]?([A-Za-z0-9+/=_-]{16,})"),
)

_PASSWORDS: Final = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "passwort", "kennwort", "contraseña"),
    *("mot de passe", "senha", "пароль", "密码", "密碼", "パスワード", "pass", "pw"),
)
_STEMS: Final = (
    *(*_PASSWORDS, "secret", "token", "credential", "credentials", "cvv", "cvc", "key"),
    *("card_number", "cardnumber", "card-number", "connectionstring", "connection_string"),
)
"""Endings of names of credentials, in lower case."""
_BEFORE: Final = {
    "key": lazy_pattern(
        r"(?:api|access|auth|private|signing|encryption|account|subscription|master|secret|service"
        r"|license)[_-]?\Z"
    ),
    "pass": lazy_pattern(r"(?:[_-]|db|user|root|admin|smtp|ftp)\Z"),
    "pw": lazy_pattern(r"(?:[_-]|db|user|root|admin)\Z"),
}
"""Prefixes with which a word names a credential."""
_BEFORE_CHARS: Final = 16
_SUFFIX: Final = lazy_pattern(r"[_-]?(?:\d{1,2}|prod(?:uction)?|dev|test|staging|live|value)\Z")
_VALUE: Final = r"""
    (?:
        (?P<quote>\\{0,3}["'`])(?P<quoted>(?:(?!(?P=quote))[^\r\n]|(?<=\\)(?P=quote)){1,400})
        (?P=quote)
      | \\{0,3}["'`]?(?P<bare>[^\s"'`,;&<\\]{4,400})
    )
"""
_ASSIGNED: Final = lazy_pattern(
    rf"""(?ix)
    (?:[_-]?(?:\d{{1,2}}|prod(?:uction)?|dev|test|staging|live|value))?\\{{0,3}}["'`]?\]?
    (?:[ \t]{{0,20}}(?:=>|:=|[:=：])|>(?=[^\s=<>])|[ ](?:is|ist|es|est)(?=[ ])|は|是)
    [ \t]{{0,20}} {_VALUE}
    """
)
"""The assignment after a name: a sign or a word, and the value."""
_PAIR_NAME: Final = lazy_pattern(
    r"""(?ix) (?:name|key|variable)\\{0,3}["']? [ \t]{0,8} [:=] [ \t]{0,8}
    \\{0,3}["']? (?P<name>[\w./-]{2,80}) \\{0,3}["']?"""
)
"""The first half of a pair, as Kubernetes, ECS, Helm and CloudFormation print settings."""
_PAIR_VALUE: Final = lazy_pattern(
    rf"""(?ix) (?:value|content)\\{{0,3}}["']? [ \t]{{0,8}} [:=] [ \t]{{0,8}} {_VALUE}"""
)
_BETWEEN: Final = lazy_pattern(
    r"""(?x) (?:[\s,;]|\\{1,3}[nrt]){0,80}+
    (?:
        [\s\\"']{0,80}+
        (?: [\w-]{0,24}[Tt]ype[\\"']{0,4}[ \t]{0,8}[:=][ \t]{0,8}[\\"']{0,4}[\w-]{1,24}
          | \#[^\r\n\\"':=]{0,80}+ )
        ["']?(?:\\{1,3}["'])? (?:[\s,;]|\\{1,3}[nrt]){1,80}+
    ){0,2}
    [-\s\\"']{0,80}+ [A-Za-z]{0,24}"""
)
"""The text between the halves, which holds no other value: at most its type, or a comment."""
_REST: Final = lazy_pattern(r"[^\s\"'`,;&<\\]*")
"""The rest of a value that is longer than needed to judge it."""
_SPACED: Final = lazy_pattern(rf"(?x)[ \t]{{1,8}}(?!-) {_VALUE}")
_FLAG: Final = lazy_pattern(r"(?<![\w-])--?[a-z-]{0,24}\Z")
_PAIR_CHARS: Final = 600
"""A value begins so near its name, and is not longer than can be judged."""
_FLAG_CHARS: Final = 28
"""The longest flag that is looked for before a value, with its dashes."""

_BEGIN: Final = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_CLOSE: Final = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BREAK: Final = r"(?:\r?\n|(?<!\\)\\++(?:r\\++n|[nr]))"
_KEY_CHARS: Final = f"{string.ascii_letters}{string.digits}+/="
_KEY_TAIL_CHARS: Final = 16
_ATTRIBUTE: Final = r"[A-Za-z-]{1,20}:[ ][^\r\n\\]{0,120}"
_BODY: Final = lazy_pattern(
    rf"(?:{_BREAK}|(?:[A-Za-z0-9+/=]+|{_ATTRIBUTE}){_BREAK})*"
    r"(?:[A-Za-z0-9+/=]{16,}|(?=[A-Za-z]*[0-9+/=])[A-Za-z0-9+/=]+)?"
)
"""Lines of a key, and what is left of one that was cut."""


def _by_mark() -> dict[str, list[_Shape]]:
    """Return the shapes by a character of their sign that most texts lack."""
    found: dict[str, list[_Shape]] = {}
    for shape in _SHAPES:
        mark = next((mark for mark in "_-" if mark in shape.sign), "")
        mark = mark or next((mark for mark in shape.sign if not "a" <= mark <= "z"), shape.sign)
        found.setdefault(mark, []).append(shape)
    return found


_BY_MARK: Final = _by_mark()


def spans(text: str) -> Iterator[Span]:
    """Yield the spans that look like credentials, in no order; they may overlap."""
    if len(text) < SHORTEST_CHARS or (len(text) < _TOKEN_CHARS and not _GIVES.search(text)):
        return
    for mark, shapes in _BY_MARK.items():
        if mark in text:
            for shape in shapes:
                if shape.sign in text:
                    yield from _matches(shape, text)
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)
    lowered = _lower_in_place(text)
    for stem in _STEMS:
        if stem in lowered:
            yield from _values_of(stem, text, lowered)
    if "value" in lowered or "content" in lowered:
        yield from _values_of_pairs(text)


def _values_of_pairs(text: str) -> Iterator[Span]:
    """Yield the values of pairs whose name is that of a credential, in either order."""
    for named in _PAIR_NAME.finditer(text):
        if not _stem_of(named["name"]):
            continue
        between = _BETWEEN.match(text, named.end())
        start = between.start() if between else named.end()
        given = _PAIR_VALUE.search(text, start, start + _PAIR_CHARS)
        if given is None or not _BETWEEN.fullmatch(text, start, given.start()):
            given = _pair_before(text, named.start())
        if given is not None and (span := _pair_span(named["name"], given, text)) is not None:
            yield span


def _pair_before(text: str, end: int) -> re.Match[str] | None:
    """Return the value that stands before its name."""
    for given in _PAIR_VALUE.finditer(text, max(0, end - _PAIR_CHARS), end):
        if _BETWEEN.fullmatch(text, given.end(), end):
            return given
    return None


def _pair_span(name: str, given: re.Match[str], text: str) -> Span | None:
    is_quoted = given["bare"] is None
    start, end = given.span("quoted" if is_quoted else "bare")
    stem = _stem_of(name)
    is_password = stem in _PASSWORDS
    if not is_named_secret(text[start:end], is_password=is_password, is_quoted=True):
        return None
    return Span(start, end, kind=stem)


def field_kind(name: str, value: str) -> str:
    """Return the kind of credential that a field of that name holds; empty where it holds none."""
    stem = _stem_of(name)
    is_password = stem in _PASSWORDS
    return stem if stem and is_named_secret(value, is_password=is_password, is_quoted=True) else ""


@lru_cache(maxsize=4_096)
def _stem_of(name: str) -> str:
    """Return the stem that makes a field's name that of a credential; empty if none does."""
    lowered = _SUFFIX.sub("", name.lower()) or name.lower()
    for stem in _STEMS:
        if lowered.endswith(stem) and _is_name(stem, lowered, len(lowered) - len(stem)):
            return stem
    return ""


def _is_name(stem: str, lowered: str, place: int) -> bool:
    before = _BEFORE.get(stem)
    return (
        before is None or before.search(lowered, max(0, place - _BEFORE_CHARS), place) is not None
    )


def _lower_in_place(text: str) -> str:
    """In small letters, each at its place: some capitals become two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := item.lower()) == 1 else item for item in text)


@cache
def _compile_shape(pattern: str) -> re.Pattern[str]:
    """When it is first needed: most of them never are, and together they take a while."""
    return re.compile(pattern, re.ASCII)


def _matches(shape: _Shape, text: str) -> Iterator[Span]:
    pattern = _compile_shape(shape.pattern)
    group = min(1, pattern.groups)
    for match in pattern.finditer(text):
        if shape.test(match[group]):
            yield Span(*match.span(group), kind=shape.kind)


def _values_of(stem: str, text: str, lowered: str) -> Iterator[Span]:
    """The values that are given to names which end so."""
    place = lowered.find(stem)
    while place >= 0:
        end = place + len(stem)
        span = _value(stem, text, lowered, place) if _is_name(stem, lowered, place) else None
        if span is not None:
            yield span
            end = span.end
        place = lowered.find(stem, end)


def _value(stem: str, text: str, lowered: str, place: int) -> Span | None:
    """The credential after a name, if there is one."""
    match = _ASSIGNED.match(text, place + len(stem))
    if match is None and _FLAG.search(lowered, max(0, place - _FLAG_CHARS), place):
        match = _SPACED.match(text, place + len(stem))
    if match is None:
        return None
    is_quoted = match["bare"] is None
    start, end = match.span("quoted" if is_quoted else "bare")
    if not is_quoted:
        end = start + len(match["bare"].rstrip(".:)]}>|"))
    is_password = stem in _PASSWORDS
    if not is_named_secret(text[start:end], is_password=is_password, is_quoted=is_quoted):
        return None
    rest = None if is_quoted or end < match.end() else _REST.match(text, end)
    return Span(start, rest.end() if rest else end, kind=stem)


def _private_keys(text: str) -> Iterator[Span]:
    """Blocks from BEGIN to END, and what is left of one that was cut before or after."""
    place = 0
    closes = deque(_CLOSE.finditer(text))
    for begin in _BEGIN.finditer(text):
        if begin.start() < place:
            continue
        while closes and closes[0].start() < begin.end():
            closes.popleft()
        is_near = bool(closes) and closes[0].end() <= begin.end() + PRIVATE_KEY_CHARS
        close = closes[0] if is_near else None
        body = _BODY.match(text, begin.end(), begin.end() + PRIVATE_KEY_CHARS)
        assert body is not None
        place = close.end() if close else body.end()
        yield Span(begin.start(), place, PRIVATE_KEY, PRIVATE_KEY)
    place = 0
    for close in _CLOSE.finditer(text):
        before = text[max(place, close.start() - PRIVATE_KEY_CHARS) : close.start()]
        place = close.end()
        if lines := _body_before(before):
            yield Span(close.start() - lines, close.end(), PRIVATE_KEY, PRIVATE_KEY)


def _body_before(text: str) -> int:
    """Return the number of characters at the end of a text that are lines of a key."""
    count = 0
    for line in reversed(re.split(rf"({_BREAK})", text)):
        if not re.fullmatch(rf"[A-Za-z0-9+/=]*|{_BREAK}", line):
            tail = len(line) - len(line.rstrip(_KEY_CHARS))
            return count + (tail if tail >= _KEY_TAIL_CHARS else 0)
        count += len(line)
    return count

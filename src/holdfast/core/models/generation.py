"""The shape of a model's API, by the generation that its name states.

No list of models decides here. A rule holds from a version on, so a model that appears tomorrow
follows the newest rule of its line, and says that it does (`basis`). Windows and prices are not
derived: they come from the catalog, or are unknown. The figures are the providers' public ones as
of November 2026; docs/models.md has the table.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

import msgspec

from holdfast.core.models.prices import (
    AUTOMATIC,
    FIVE_MINUTES,
    HALF_DAY,
    HALF_HOUR,
    IN_MEMORY,
    ONE_DAY,
    ONE_HOUR,
    CacheLifetime,
)
from holdfast.core.text.lazy_pattern import lazy_pattern

NEWEST: Final = (99, 0)
"""The version that rules are read for where a name has none, such as `claude-opus-latest`."""

_MAKERS: Final = (
    ("anthropic", lazy_pattern(r"claude")),
    ("openai-oss", lazy_pattern(r"gpt-?oss")),
    ("openai", lazy_pattern(r"(?:chat)?gpt(?=[-_ ]?\d)|(?<![a-z0-9])(?:o(?=[1-9](?:-|$))|codex)")),
    ("google", lazy_pattern(r"gemini")),
    ("deepseek", lazy_pattern(r"deepseek")),
    ("moonshot", lazy_pattern(r"kimi|moonshot")),
    ("mistral", lazy_pattern(r"mistral|codestral|devstral|magistral")),
    ("xai", lazy_pattern(r"grok")),
    ("qwen", lazy_pattern(r"qwen|qwq")),
    ("zhipu", lazy_pattern(r"glm")),
    ("meta", lazy_pattern(r"llama")),
)
"""The makers, and what their names begin with, wherever in a name that stands."""

_BOX: Final = lazy_pattern(r"\[\w{1,8}\]")
_NUMBER: Final = lazy_pattern(r"[a-z]?(\d{1,2})([a-z]?)")
_SPLIT: Final = lazy_pattern(r"[-_@:./ ]+")
_NO_LINE: Final = frozenset({"latest", "preview", "exp", "experimental"})


class ModelName(msgspec.Struct, frozen=True):
    """A model's name, taken apart. Two names of one release are equal: their dates are left out."""

    maker: str = ""
    """The company that trained it; empty where the name does not tell."""
    line: str = ""
    """The word for its size or kind: `opus`, `sol`, `mini`; `4o`; `o` for the o-series. The whole
    name where the maker is not known."""
    version: tuple[int, int] | None = None
    """Major and minor number; None where the name has no version."""
    rest: str = ""
    """Further words of the name: `pro` in `gpt-6-sol-pro`."""

    @property
    def is_known(self) -> bool:
        return bool(self.maker)

    @property
    def numbers(self) -> tuple[int, int]:
        """Return the version for comparisons; a name without one means the newest."""
        return NEWEST if self.version is None else self.version


@lru_cache(maxsize=4_096)
def read_model_name(model: str) -> ModelName:
    """Take a name apart that a request, a log or a person has for a model."""
    text = _BOX.sub("", model.lower().strip())
    for maker, pattern in _MAKERS:
        found = pattern.search(text)
        if found is not None:
            return _read(maker, found[0], text[found.end() :])
    return ModelName(line=text)


def _read(maker: str, start: str, tail: str) -> ModelName:
    words: list[str] = []
    version: tuple[int, int] | None = None
    pieces = [piece for piece in _SPLIT.split(tail) if piece]
    for place, piece in enumerate(pieces):
        number = _NUMBER.fullmatch(piece)
        if number is None or version is not None:
            if re.fullmatch("[a-z]+", piece) and piece not in _NO_LINE:
                words.append(piece)
            continue
        version = (int(number[1]), _minor(pieces, place, has_letter=bool(number[2])))
        words += [piece] if number[2] else []  # `4o` is a line of its own
    if start in ("o", "codex"):
        words.insert(0, start)
    return ModelName(maker, words[0] if words else "", version, "-".join(words[1:]))


def _minor(pieces: list[str], place: int, *, has_letter: bool) -> int:
    """The point release behind a major number; a longer number is a date."""
    following = pieces[place + 1] if place + 1 < len(pieces) else ""
    is_number = following.isdecimal() and following.isascii() and len(following) <= 2
    return int(following) if is_number and not has_letter else 0


Endpoint = Literal["messages", "responses", "chat_completions", "generate_content"]
"""The API that a model's maker serves it with."""

Reasoning = Literal["bound", "must_return", "unbound", "none"]
"""`bound`: valid only behind the prefix that produced it. `must_return`: the API refuses a request
that lacks it where `returns` says. `unbound`: may go back or not. `none`: there is none."""

Returns = Literal["with_results", "in_turn", "after_calls", ""]
"""The place where reasoning must come back: beside the calls whose results are sent; on every step
of the current turn; on every message of a stretch with calls, for ever; nowhere."""

Stale = Literal["refused", "refused_or_passed", "dropped", ""]
"""The provider's answer to bound reasoning behind a changed prefix: it refuses the request; it does
so for accounts created since 2026-08-31 and lets others pass; it drops the reasoning silently."""

ThinkingMode = Literal["adaptive", "enabled", "between_tools", "disabled"]
"""A value of Anthropic's `thinking.type`."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

ChatTools = Literal["yes", "without_effort", "effort_none", "no"]
"""Chat Completions takes function tools: always; if no effort is sent; only with the effort `none`;
never."""

Basis = Literal["documented", "extrapolated", "unknown"]
"""`documented`: the maker describes this version. `extrapolated`: the newest rule of its line is
taken to hold. `unknown`: the name tells nothing."""


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of one model's API at one provider. The defaults are those of an unknown model."""

    name: ModelName
    platform: str = ""
    """The host that is asked, where it is not the maker's own: `bedrock`, `vertex`, or another."""
    basis: Basis = "unknown"

    endpoint: Endpoint = "chat_completions"
    output_parameter: str = "max_tokens"
    """The request field that limits the reply."""
    chat_tools: ChatTools = "yes"
    takes_forced_choice: bool = True
    """False if a `tool_choice` that forces a call is refused."""
    takes_sampling: bool = True
    """False if temperature and its kin are refused."""
    mid_system_messages: bool = False
    """True if a message of the operator may stand amid the conversation."""

    adds_tools: bool = False
    """True if a message amid the conversation may define tools."""

    reasoning: Reasoning = "unbound"
    returns: Returns = ""
    stale: Stale = ""
    account_bound: bool = False
    """True if reasoning is readable only in the account that produced it."""
    end_user_bound: bool = False
    """True if reasoning is dropped for another end user."""
    effort_in_prefix: bool = False
    """True if a change of effort, tools or output schema changes the prefix."""
    keeps_reasoning: Literal["all", "turn"] = "turn"
    """The reasoning that is shown to the model: that of all turns, or of the current one."""

    thinks_unasked: bool = False
    thinking_modes: tuple[ThinkingMode, ...] = ()
    """Values of `thinking.type` that are accepted, the one to ask with first."""
    display_default: Literal["omitted", "summarized", "full", ""] = ""
    """The text of reasoning in a reply that did not ask for another display."""
    efforts: tuple[Effort, ...] = ()
    """Levels of effort that are known to be accepted; empty where none is."""

    cache_lifetimes: tuple[CacheLifetime, ...] = ()
    """The lifetimes that the host sells, the shortest first; empty where it has no known cache."""
    cache_min_tokens: int = 0
    """The shortest prefix that is cached; 0 where not known."""
    takes_cache_key: bool = False
    """True if `prompt_cache_key` routes requests to the cache that has their prefix."""
    cache_key_header: str = ""
    """The header that does the same, where Chat Completions does not read the field."""
    charges_writes: bool = False
    """True if writing to the cache costs more than plain input, so marks should be chosen."""

    @property
    def reasons(self) -> bool:
        return self.reasoning != "none"

    @property
    def is_bound(self) -> bool:
        """Return whether reasoning is valid only behind the prefix that produced it."""
        return self.reasoning == "bound"

    @property
    def lifetimes_to_send(self) -> tuple[CacheLifetime, ...]:
        """Return the lifetimes whose request values are documented."""
        return tuple(each for each in self.cache_lifetimes if each.is_documented)

    def reads(self, other: ModelTraits) -> bool:
        """Return whether this model may read the reasoning of another, by what is documented.

        A provider drops without an error what its model may not read. Accounts are not compared
        here: see `account_bound`.
        """
        if self.name == other.name:
            return self.name != ModelName()
        if self.name.maker != other.name.maker:
            return False
        match self.name.maker:
            case "anthropic":
                return _claude_reads(self, other.name)
            case "openai":
                return self.is_bound and _is_no_downgrade(other.name, self.name)
            case "deepseek":
                return True  # plain text, which must come back whichever of its models wrote it
            case _:
                return False


@lru_cache(maxsize=4_096)
def traits_of(provider: str, model: str) -> ModelTraits:
    """Return the shape of a model's API at a provider, by the model's name.

    `provider` is the name or host in a log or target; empty means the maker's own API.
    """
    name = read_model_name(model)
    platform = _platform(provider, name.maker)
    match name.maker:
        case "anthropic":
            return _claude(name, platform)
        case "openai":
            return _gpt(name, platform)
        case "google":
            return _gemini(name, platform)
        case "deepseek":
            return _deepseek(name, platform)
        case "":
            return ModelTraits(name=name, platform=platform)
        case _:
            return _other(name, platform)


_OWN: Final = {
    "anthropic": ("anthropic",),
    "openai": ("openai",),
    "google": ("google", "gemini", "generativelanguage"),
    "deepseek": ("deepseek",),
    "moonshot": ("moonshot", "kimi"),
    "mistral": ("mistral",),
    "xai": ("xai", "x-ai", "x.ai"),
}
"""Words by which a provider's name or host shows that it is the maker itself."""

_BEDROCK: Final = ("bedrock", "aws", "amazon")
_VERTEX: Final = ("vertex", "googleapis", "google")


def _platform(provider: str, maker: str) -> str:
    """The host, in one word where it is known; empty for the maker's own API."""
    text = provider.lower()
    if not text:
        return ""
    if any(word in text for word in _BEDROCK):
        return "bedrock"
    if "azure" in text:
        return "azure"
    own = _OWN.get(maker, ())
    if "vertex" not in text and any(word in text for word in own):
        return ""
    return "vertex" if any(word in text for word in _VERTEX) else text


def _basis(name: ModelName, newest: tuple[int, int]) -> Basis:
    is_described = name.version is not None and name.version <= newest
    return "documented" if is_described else "extrapolated"


# Anthropic

_TOP: Final = frozenset({"fable", "mythos"})
_OLD_LINES: Final = frozenset({"opus", "sonnet", "haiku", "instant"})
_CHECKED_ACCOUNTS: Final = frozenset(
    {("fable", (5, 1)), ("opus", (5, 5)), ("sonnet", (5, 5)), ("haiku", (5, 5))}
)
"""The releases that check the prefix for newer accounts only; later ones do so for all."""

_CLAUDE_EFFORTS: Final[tuple[Effort, ...]] = ("low", "medium", "high", "xhigh", "max")


def _claude(name: ModelName, platform: str) -> ModelTraits:
    version, line = name.numbers, name.line
    is_top = line not in _OLD_LINES and version >= (5, 0)  # an unknown line is a newer one
    is_bound = version >= ((5, 1) if is_top else (5, 5))
    reasons = version >= (3, 7)
    lifetimes = (FIVE_MINUTES, ONE_HOUR) if platform in ("", "bedrock", "vertex", "azure") else ()
    return ModelTraits(
        name=name,
        platform=platform,
        basis=_basis(name, (5, 2) if is_top else (5, 5)),
        endpoint="messages",
        takes_forced_choice=line == "haiku" or not is_bound,
        takes_sampling=version < (4, 7),
        mid_system_messages=_takes_system_messages(line, version, is_top=is_top),
        adds_tools=not platform and _takes_system_messages(line, version, is_top=is_top),
        reasoning=("bound" if is_bound else "must_return") if reasons else "none",
        returns="with_results" if reasons else "",
        stale=_stale(name) if is_bound else "",
        account_bound=(line in ("sonnet", "haiku") and is_bound) or version >= (6, 0),
        keeps_reasoning=_claude_keeps(line, version),
        thinks_unasked=version >= (5, 0),
        thinking_modes=_claude_modes(line, version, is_top=is_top),
        display_default=_claude_display(version),
        efforts=_claude_efforts(line, version),
        cache_lifetimes=lifetimes,
        cache_min_tokens=_claude_cache_minimum(line, version, is_top=is_top),
        charges_writes=bool(lifetimes),
    )


def _stale(name: ModelName) -> Stale:
    return "refused_or_passed" if (name.line, name.version) in _CHECKED_ACCOUNTS else "refused"


def _takes_system_messages(line: str, version: tuple[int, int], *, is_top: bool) -> bool:
    first = {"opus": (4, 8), "sonnet": (5, 5)}.get(line)
    return is_top or (first is not None and version >= first)


def _claude_keeps(line: str, version: tuple[int, int]) -> Literal["all", "turn"]:
    first = {"opus": (4, 5), "sonnet": (4, 6), "haiku": (4, 6)}.get(line, (5, 0))
    return "all" if version >= first else "turn"


def _claude_modes(line: str, version: tuple[int, int], *, is_top: bool) -> tuple[ThinkingMode, ...]:
    if version < (3, 7):
        return ()
    if version < (4, 6):
        return ("enabled", "disabled")
    if version < (4, 7):
        return ("adaptive", "enabled", "disabled")
    if is_top or (line == "opus" and version >= (5, 5)):
        return ("adaptive",)
    if line == "sonnet" and version >= (5, 5):
        return ("adaptive", "between_tools")
    return ("adaptive", "disabled")


def _claude_display(version: tuple[int, int]) -> Literal["omitted", "summarized", "full", ""]:
    if version >= (4, 7):
        return "omitted"
    if version >= (4, 0):
        return "summarized"
    return "full" if version >= (3, 7) else ""


def _claude_efforts(line: str, version: tuple[int, int]) -> tuple[Effort, ...]:
    if version >= (4, 7):
        return _CLAUDE_EFFORTS
    if version >= (4, 6):
        return ("low", "medium", "high", "max")
    return ("low", "medium", "high") if (line, version) == ("opus", (4, 5)) else ()


def _claude_cache_minimum(line: str, version: tuple[int, int], *, is_top: bool) -> int:
    if is_top or (line == "opus" and version >= (5, 0)) or (line == "sonnet" and version >= (5, 5)):
        return 512
    if line == "haiku":
        return 4_096 if version >= (4, 5) else 2_048
    if line == "opus" and (4, 5) <= version < (4, 8):
        return 2_048 if version >= (4, 7) else 4_096
    return 1_024


def _claude_reads(reader: ModelTraits, other: ModelName) -> bool:
    """The documented readers of another model's thinking; an older model reads its own only."""
    line, version = reader.name.line, reader.name.numbers
    written = other.numbers
    match line:
        case "haiku":
            return False
        case "sonnet" if version >= (5, 5):
            ends = {"sonnet": version, "opus": (4, 8), "haiku": (4, 5)}
            return other.line in ends and written <= ends[other.line]
        case "opus" if version >= (5, 5):
            if (other.line, other.version) == ("sonnet", (5, 5)):
                return reader.platform in ("", "vertex")
            ends = {"opus": version, "sonnet": (5, 0), "haiku": (5, 0)}
            return other.line in ends and written <= ends[other.line]
        case "fable" | "mythos" if version >= (5, 2):
            return other.line in _TOP and (5, 2) <= written <= version
        case "fable" | "mythos" if version >= (5, 1):
            if (other.line, other.version) == ("opus", (5, 5)):
                return reader.platform == ""
            return written <= (version if other.line in _TOP else (5, 0))
        case _:
            return False


# OpenAI

_NO_EFFORT_NONE: Final = frozenset({("astra", (6, 0)), ("sol", (6, 1))})
_TIERS: Final = {"luna": 0, "nano": 0, "terra": 1, "mini": 1, "sol": 2, "": 2, "astra": 3}
"""The lines of GPT by size; a line that is not here is comparable with itself only."""


def _gpt(name: ModelName, platform: str) -> ModelTraits:
    version, line = name.numbers, name.line
    is_o = line == "o"
    is_gpt_5 = not is_o and version >= (5, 0)
    reasons = (is_o or is_gpt_5) and line != "chat"
    is_bound = reasons and not is_o and version >= (6, 2)
    takes_responses = is_o or is_gpt_5
    is_own = platform in ("", "azure")
    lifetimes = _gpt_lifetimes(version, is_o=is_o) if is_own else ()
    return ModelTraits(
        name=name,
        platform=platform,
        basis=_basis(name, (4, 0) if is_o else (6, 2)),
        endpoint="responses" if takes_responses else "chat_completions",
        output_parameter="max_output_tokens" if takes_responses else "max_completion_tokens",
        chat_tools=_chat_tools(line, version) if is_gpt_5 else "yes",
        takes_sampling=not reasons,
        mid_system_messages=True,
        adds_tools=not platform and takes_responses and version >= (6, 0) and not is_o,
        reasoning=("bound" if is_bound else "unbound") if reasons else "none",
        stale="dropped" if is_bound else "",
        account_bound=reasons,
        end_user_bound=is_bound,
        effort_in_prefix=is_bound,
        keeps_reasoning="all" if is_gpt_5 and version >= (5, 6) else "turn",
        thinks_unasked=is_o or (reasons and (version < (5, 1) or version >= (5, 5))),
        display_default="omitted" if reasons else "",
        efforts=_gpt_efforts(line, version, is_o=is_o) if reasons else (),
        cache_lifetimes=lifetimes,
        cache_min_tokens=1_024,
        takes_cache_key=is_own,
        charges_writes=any(each.write > 1 for each in lifetimes),
    )


def _chat_tools(line: str, version: tuple[int, int]) -> ChatTools:
    if version < (5, 6):
        return "without_effort" if version >= (5, 1) else "yes"
    return "effort_none" if _takes_effort_none(line, version) else "no"


def _takes_effort_none(line: str, version: tuple[int, int]) -> bool:
    return (5, 1) <= version < (6, 2) and (line, version) not in _NO_EFFORT_NONE


def _gpt_efforts(line: str, version: tuple[int, int], *, is_o: bool) -> tuple[Effort, ...]:
    if is_o or line == "codex":
        return ("low", "medium", "high")
    if version < (5, 1):
        return ("minimal", "low", "medium", "high")
    lowest: tuple[Effort, ...] = ("none",) if _takes_effort_none(line, version) else ()
    highest: tuple[Effort, ...] = ("xhigh",) if version >= (5, 2) else ()
    more: tuple[Effort, ...] = ("max",) if version >= (5, 6) else ()
    return (*lowest, "low", "medium", "high", *highest, *more)


def _gpt_lifetimes(version: tuple[int, int], *, is_o: bool) -> tuple[CacheLifetime, ...]:
    if is_o or (version < (5, 0) and version != (4, 1)):
        return (AUTOMATIC,)
    if version >= (5, 6):
        return (HALF_HOUR, HALF_DAY)
    return (ONE_DAY,) if version >= (5, 5) else (IN_MEMORY, ONE_DAY)


def _is_no_downgrade(old: ModelName, new: ModelName) -> bool:
    """Return whether a conversation that moves from one model to the other keeps its reasoning."""
    if "o" in (old.line, new.line) or old.numbers > new.numbers or old.rest != new.rest:
        return False
    if old.line == new.line:
        return True
    if old.line not in _TIERS or new.line not in _TIERS:
        return False
    return _TIERS[old.line] <= _TIERS[new.line]


# Google


def _gemini(name: ModelName, platform: str) -> ModelTraits:
    version = name.numbers
    reasons = version >= (2, 5)
    efforts: tuple[Effort, ...] = (
        ("low", "medium", "high") if version >= (4, 0) else ("low", "high")
    )
    return ModelTraits(
        name=name,
        platform=platform,
        basis=_basis(name, (4, 0)),
        endpoint="generate_content",
        output_parameter="maxOutputTokens",
        reasoning="must_return" if reasons else "none",
        returns="in_turn" if reasons else "",
        account_bound=reasons,
        thinks_unasked=reasons and (name.rest != "lite" or version >= (3, 0)),
        display_default="omitted" if reasons else "",
        efforts=efforts if version >= (3, 0) else (),
        cache_lifetimes=(AUTOMATIC,) if reasons and platform in ("", "vertex") else (),
        cache_min_tokens=6_144 if version >= (4, 0) else 4_096 if version >= (3, 0) else 2_048,
    )


# Others


def _deepseek(name: ModelName, platform: str) -> ModelTraits:
    must = name.numbers >= (4, 0)
    return ModelTraits(
        name=name,
        platform=platform,
        basis=_basis(name, (4, 0)),
        reasoning="must_return" if must else "unbound",
        returns="after_calls" if must else "",
        thinks_unasked=must or name.line == "reasoner" or name.numbers < (3, 0),
        thinking_modes=("enabled", "disabled") if must else (),
        display_default="full",
        efforts=("low", "high", "max") if must else (),
        cache_lifetimes=(AUTOMATIC,) if not platform else (),
    )


def _other(name: ModelName, platform: str) -> ModelTraits:
    """A maker whose models speak Chat Completions and give reasoning as plain text."""
    caches = name.maker in ("xai", "moonshot", "mistral") and not platform
    is_xai = name.maker == "xai" and not platform
    return ModelTraits(
        name=name,
        platform=platform,
        basis="documented",
        display_default="full",
        cache_lifetimes=(AUTOMATIC,) if caches else (),
        takes_cache_key=is_xai,
        cache_key_header="x-grok-conv-id" if is_xai else "",
    )

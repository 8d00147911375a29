"""The dialects, by name. A new one is a package beside this module, and one entry here."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from holdfast.core.dialects import anthropic, gemini, openai_chat, openai_responses
from holdfast.core.dialects.common.fields import without_fields
from holdfast.core.models.dialects import Target
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.dialects.common.rule import Violation
    from holdfast.core.dialects.dialect import Dialect, DialectEntry
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import CacheTime, DialectVariant
    from holdfast.core.models.messages import Prompt

ENTRIES: Final[tuple[DialectEntry, ...]] = (
    anthropic.ENTRY,
    openai_chat.ENTRY,
    openai_responses.ENTRY,
    gemini.ENTRY,
)

DIALECTS: Final[Mapping[str, DialectVariant]] = {entry.own.name: entry.own for entry in ENTRIES}
"""Each dialect in its provider's own variant."""
VARIANTS: Final[Mapping[str, Mapping[str, DialectVariant]]] = {
    entry.own.name: {known.variant: known for known in entry.variants} for entry in ENTRIES
}
IMITATED: Final = openai_chat.ENTRY.own.name
"""The dialect that a server of an unknown kind most likely has."""

_BY_NAME: Final = {entry.own.name: entry for entry in ENTRIES}


@functools.cache
def find_dialect(name: str) -> Dialect:
    """The dialect with this name. Raises `BadSetting` where there is none."""
    return _BY_NAME[find_variant(name).name].load()


def render_body(prompt: Prompt, target: Target, written: list[list[Json]] | None = None) -> Json:
    """The body of a request, without the fields that the host refused. The same prompt and target
    give the same bytes. `written` are the items of
    each message where they are written already; the body keeps them."""
    dialect = find_dialect(target.dialect.name)
    if written is None:
        written = list(map(dialect.message_writer(prompt, target), prompt.messages))
    body = dialect.render(prompt, target, written)
    return without_fields(body, target.without) if target.without else body


def validate_body(request: object, target: Target) -> list[Violation]:
    """Return what the provider would refuse in a request of any origin. Never raises."""
    return find_dialect(target.dialect.name).validate(request, target)


def all_dialects() -> list[Dialect]:
    """Every dialect, in the order of the registry."""
    return [find_dialect(name) for name in DIALECTS]


def find_variant(name: str, variant: str = "") -> DialectVariant:
    """A dialect with a host's variant: `find_variant("openai-chat:mistral")` does as well."""
    base, _, said = name.partition(":")
    variant = variant or said
    variants = VARIANTS.get(base)
    if variants is None:
        raise BadSetting(f"no dialect `{name}`", hint=_choices(base, list(VARIANTS), "dialects"))
    if not variant:
        return DIALECTS[base]
    if variant not in variants:
        raise BadSetting(
            f"the dialect `{base}` has no variant `{variant}`",
            hint=_choices(variant, list(variants), "variants"),
        )
    return variants[variant]


def _choices(name: str, known: list[str], what: str) -> str:
    import difflib

    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    guess = f"did you mean `{close[0]}`? " if close else ""
    return f"{guess}{what}: {', '.join(known)}"


def target(
    name: str,
    variant: str = "",
    *,
    provider: str = "",
    model: str = "",
    thinking: bool = False,
    thinking_tokens: int = 0,
    cache: CacheTime = "auto",
    output_max: int = 0,
) -> Target:
    """Whom a request is for, with the dialect by name."""
    return Target(
        find_variant(name, variant), provider, model, thinking, thinking_tokens, cache, output_max
    )

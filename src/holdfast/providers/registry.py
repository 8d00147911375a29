"""The clients: each is one module with one `PROVIDER`, imported when it is first used."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.anthropic.variants import NAME as ANTHROPIC
from holdfast.core.dialects.gemini.variants import NAME as GEMINI
from holdfast.core.dialects.openai_chat.variants import NAME as CHAT
from holdfast.core.dialects.openai_responses.variants import NAME as RESPONSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.providers.sdk import Provider

_MODULES: Final[Mapping[str, str]] = {
    ANTHROPIC: "holdfast.providers.anthropic",
    CHAT: "holdfast.providers.openai_chat",
    RESPONSES: "holdfast.providers.openai_responses",
    GEMINI: "holdfast.providers.gemini",
}


@functools.cache
def find_provider(dialect: str) -> Provider:
    """The client of a dialect."""
    found: Provider = importlib.import_module(_MODULES[dialect]).PROVIDER
    return found


PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name,) for name in _MODULES},
    "openai": (CHAT, RESPONSES),
}
"""The start of a model's name (`openai:NAME`) → the dialects that it may mean, the usual one
first."""

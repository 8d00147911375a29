"""The providers: each is one folder with one `PROVIDER`, imported when it is first used."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, assert_never

from holdfast.core.models.catalog import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.models.catalog import DialectName
    from holdfast.providers.provider import Provider


@functools.cache
def find_provider(dialect: DialectName) -> Provider:
    """The provider of a dialect."""
    match dialect:
        case "anthropic":
            from holdfast.providers.anthropic import PROVIDER
        case "openai-chat":
            from holdfast.providers.openai_chat import PROVIDER
        case "openai-responses":
            from holdfast.providers.openai_responses import PROVIDER
        case "gemini":
            from holdfast.providers.gemini import PROVIDER
        case _:
            assert_never(dialect)
    return PROVIDER


PREFIXES: Final[Mapping[str, tuple[DialectName, ...]]] = {
    **{dialect.name: (dialect.name,) for dialect in DIALECTS.values()},
    "openai": ("openai-chat", "openai-responses"),
}
"""The start of a model's name (`openai:NAME`) → the dialects that it may mean, the usual one
first."""

"""Chat Completions of OpenAI and of the servers that imitate it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.dialect import DialectEntry
from holdfast.core.dialects.openai_chat.variants import VARIANTS

if TYPE_CHECKING:
    from holdfast.core.dialects.dialect import Dialect


def _load() -> Dialect:
    from holdfast.core.dialects.openai_chat.value import DIALECT

    return DIALECT


ENTRY: Final = DialectEntry(variants=VARIANTS, load=_load)

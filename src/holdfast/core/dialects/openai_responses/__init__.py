"""The Responses API of OpenAI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.dialect import DialectEntry
from holdfast.core.dialects.openai_responses.variants import VARIANTS

if TYPE_CHECKING:
    from holdfast.core.dialects.dialect import Dialect


def _load() -> Dialect:
    from holdfast.core.dialects.openai_responses.value import DIALECT

    return DIALECT


ENTRY: Final = DialectEntry(variants=VARIANTS, load=_load)

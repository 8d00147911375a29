"""The Gemini API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.dialect import DialectEntry
from holdfast.core.dialects.gemini.variants import VARIANTS

if TYPE_CHECKING:
    from holdfast.core.dialects.dialect import Dialect


def _load() -> Dialect:
    from holdfast.core.dialects.gemini.value import DIALECT

    return DIALECT


ENTRY: Final = DialectEntry(variants=VARIANTS, load=_load)

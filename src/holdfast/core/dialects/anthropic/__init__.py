"""The Anthropic Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.anthropic.variants import VARIANTS
from holdfast.core.dialects.dialect import DialectEntry

if TYPE_CHECKING:
    from holdfast.core.dialects.dialect import Dialect


def _load() -> Dialect:
    from holdfast.core.dialects.anthropic.value import DIALECT

    return DIALECT


ENTRY: Final = DialectEntry(variants=VARIANTS, load=_load)

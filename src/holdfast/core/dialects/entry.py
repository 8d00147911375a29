"""The entry of a dialect in the registry: its variants at once, the rest when it is first used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.dialects.dialect import Dialect
    from holdfast.core.models.dialects import DialectVariant


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectEntry:
    """One package of this folder. Its limits are light; what reads and writes is not."""

    variants: tuple[DialectVariant, ...]
    """The provider's own first, then those of hosts."""
    load: Callable[[], Dialect]
    """Imports the dialect."""

    @property
    def own(self) -> DialectVariant:
        """The provider's own variant."""
        return self.variants[0]

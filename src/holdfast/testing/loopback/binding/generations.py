"""Models by generation: which think unasked, check prefixes, read whose reasoning.

From the providers' public pages of November 2026. A generation that is newer than all of them is
taken to be as strict as the newest.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

_CLAUDE: Final = lazy_pattern(
    r"claude-(fable|mythos|opus|sonnet|haiku)-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)"
)
_GPT: Final = lazy_pattern(r"gpt-(\d{1,2})(?:\.(\d{1,2}))?(?![\d.])(?:-([a-z]+))?")
_O: Final = lazy_pattern(r"(?:^|[:/])o([134])(?:-|$)")
_TIERS: Final = {"nano": -2, "mini": -1, "luna": 1, "terra": 2, "sol": 3, "astra": 4}
_LARGE: Final = frozenset({"fable", "mythos"})


class Claude(msgspec.Struct, frozen=True):
    """A Claude model by family and version."""

    family: str
    version: tuple[int, int]

    @property
    def is_large(self) -> bool:
        return self.family in _LARGE

    @property
    def checks_prefix(self) -> bool:
        """Return whether its thinking is bound to the prefix."""
        return self.version >= ((5, 1) if self.is_large else (5, 5))

    @property
    def refuses_everywhere(self) -> bool:
        """Return whether a changed prefix is refused for accounts of every age."""
        if self.version >= (6, 0) or self == Claude("mythos", (5, 1)):
            return True
        return self.is_large and self.version >= (5, 2)

    @property
    def thinks_unasked(self) -> bool:
        return self.version >= ((5, 5) if self.family == "haiku" else (5, 0))

    @property
    def omits_by_default(self) -> bool:
        """Return whether thinking comes without its text unless a display is asked for."""
        return self.version >= (4, 7)

    @property
    def writes_notes(self) -> bool:
        """Return whether it adds thinking of its own before calls: progress updates."""
        return self.checks_prefix

    @property
    def refuses_enabled(self) -> bool:
        return self.version >= {"opus": (4, 7), "haiku": (5, 5)}.get(self.family, (5, 0))

    @property
    def refuses_disabled(self) -> bool:
        if self.family == "haiku":
            return False
        return self.version >= ((5, 0) if self.is_large else (5, 5))

    @property
    def refuses_adaptive(self) -> bool:
        return self.version < (4, 6)

    @property
    def refuses_forced_tools(self) -> bool:
        return self.family != "haiku" and self.checks_prefix

    @property
    def binds_account(self) -> bool:
        """Return whether its thinking is read in its own account only."""
        return self.family in ("sonnet", "haiku") and self.version >= (5, 5)

    def reads(self, maker: Claude) -> bool:
        """Return whether it is given the thinking of another model."""
        if self == maker:
            return True
        if self.is_large and self.version >= (5, 2):
            return maker.is_large and maker.version == self.version
        if maker.is_large and maker.version >= (5, 2):
            return False
        if self.is_large and self.version == (5, 1):
            is_peer = maker.is_large and maker.version <= (5, 1)
            return is_peer or maker == Claude("opus", (5, 5)) or maker.version < (5, 1)
        if maker.is_large:
            return False
        match self.family, self.version:
            case "opus", (5, 5):
                return maker.version <= (5, 0) or maker == Claude("sonnet", (5, 5))
            case "sonnet", (5, 5):
                return maker == Claude("sonnet", (5, 0)) or maker.version <= (4, 8)
            case "haiku", version if version >= (5, 5):
                return False
            case _:
                return maker.version <= self.version


class Gpt(msgspec.Struct, frozen=True, order=True):
    """A GPT model by version and tier; a larger one is of a higher rank."""

    version: tuple[int, int]
    tier: int = 0

    @property
    def reasons(self) -> bool:
        return self.version >= (5, 0)

    @property
    def drops_changed(self) -> bool:
        """Return whether reasoning behind a changed history is left out."""
        return self.version >= (6, 2)

    @property
    def can_stop_reasoning(self) -> bool:
        """Return whether an effort of `none` exists."""
        if self.version >= (6, 2):
            return False
        none = (((6, 0), _TIERS["astra"]), ((6, 1), _TIERS["sol"]))
        return (self.version, self.tier) not in none

    @property
    def takes_chat_tools(self) -> str:
        """`always`, `without effort`, `with none` or `never`: function tools in Chat."""
        if self.version < (5, 2):
            return "always"
        if self.version < (5, 6):
            return "without effort"
        return "with none" if self.can_stop_reasoning else "never"


def claude(model: str) -> Claude | None:
    """A Claude model by its name; None for others, and for names without a version."""
    found = _CLAUDE.search(model)
    if found is None:
        return None
    return Claude(found[1], (int(found[2]), int(found[3] or 0)))


def gpt(model: str) -> Gpt | None:
    """A GPT model by its name; the o-series counts as the first that reasons."""
    if _O.search(model) is not None:
        return Gpt((5, 0))
    found = _GPT.search(model)
    if found is None or found[3] == "chat":
        return None
    return Gpt((int(found[1]), int(found[2] or 0)), _TIERS.get(found[3] or "", 0))

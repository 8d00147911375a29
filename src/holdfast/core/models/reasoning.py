"""The reasoning that may go back to a model, as a policy that each dialect states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.models.messages import Thinking

_SIGNATURE: Final = lazy_pattern("[a-zA-Z0-9+/=_-]+")


@dataclass(frozen=True, slots=True)
class ReasoningPolicy(ABC):
    """The rule of one dialect for reasoning that goes back; `core/dialects/NAME/reasoning.py`."""

    def can_return(self, thinking: Thinking, *, is_ours: bool = False) -> bool:
        """Return whether a block can go back unchanged, in a form that the API reads. `is_ours`
        says that it is stored as it came."""
        texts = (thinking.text, thinking.redacted)
        # A block that cannot go back unchanged does not go back.
        return all(scrub(text) == text for text in texts) and self._is_readable(
            thinking, is_ours=is_ours
        )

    @abstractmethod
    def _is_readable(self, thinking: Thinking, *, is_ours: bool) -> bool:
        """Return whether the block has everything that the API asks for."""


@dataclass(frozen=True, slots=True)
class ReasoningAsText(ReasoningPolicy):
    """The API takes the text of earlier thinking."""

    def _is_readable(self, thinking: Thinking, *, is_ours: bool) -> bool:
        del is_ours
        return bool(thinking.text)


AS_TEXT: Final = ReasoningAsText()


def is_signature(value: str) -> bool:
    """Return whether a signature is whole: garbled ones are refused."""
    return _SIGNATURE.fullmatch(value) is not None

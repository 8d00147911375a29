"""A tool that a person has to approve, and a model that calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.engine.tools import tool
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Callable


def paying(**rules: Any) -> Callable[..., str]:
    """A tool `pay`, of which a person has to approve each call unless `rules` say otherwise."""

    @tool(**{"approval": True, **rules})
    def pay(amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"

    return pay


def pay(*amounts: int) -> ScriptedModel:
    """A model that pays these amounts, one after another, and is done."""
    answers = [calls((f"c{amount}", "pay", {"amount": amount})) for amount in amounts if amount]
    return ScriptedModel(answers, otherwise="done")

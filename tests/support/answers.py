"""Answers of a workspace as data, refusals too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.engine.history.request import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Callable


def answer_of(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Return the answer as plain data, or the refusal as `{"status": …, "error": …}`."""
    try:
        return msgspec.to_builtins(call(*given, **named))
    except RequestRefused as refused:
        return {"status": refused.status, "error": refused.error}

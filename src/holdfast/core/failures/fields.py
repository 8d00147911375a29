"""The field of a request body that a refusal names."""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.text.lazy_pattern import lazy_pattern

_PATH: Final = r"[\"'`]?([A-Za-z_][\w.\[\]]{0,120})[\"'`]?"
_NAMED: Final = (
    lazy_pattern(rf"{_PATH}: extra inputs are not permitted", re.IGNORECASE),
    lazy_pattern(
        r"(?:unsupported|unknown|unrecogni[sz]ed) (?:request )?"
        rf"(?:parameter|value|argument|field|key)s?(?: supplied)?: ?{_PATH}",
        re.IGNORECASE,
    ),
    lazy_pattern(rf"unknown name {_PATH}(?: at {_PATH})?", re.IGNORECASE),
    lazy_pattern(
        rf"(?:parameter|field|property) {_PATH} is not (?:supported|allowed)", re.IGNORECASE
    ),
    lazy_pattern(rf"unexpected property:? {_PATH}|{_PATH} is not allowed$", re.IGNORECASE),
)
_KEPT: Final = frozenset(
    (
        *("model", "messages", "input", "contents", "content", "role", "parts", "text", "type"),
        *("system", "systemInstruction", "instructions", "tools", "name", "id", "tool_use_id"),
        *("source", "data", "media_type", "image_url", "tool_calls", "tool_call_id", "call_id"),
        *("function", "arguments", "output", "input_schema", "parameters", "functionCall"),
        *("functionResponse", "inline_data", "inlineData", "url", "file", "file_data", "prompt"),
    )
)
"""Fields that carry the conversation or say whom it is for: no request does without them."""
_PATH_CHARS_MAX: Final = 200
"""Of a path that is stored with the session."""
_MESSAGE_CHARS_MAX: Final = 4_000
"""Of an error, in which a field is looked for."""


def find_named_field(message: str) -> str:
    """Return the path of the field that a refusal names and that a request can do without; empty
    where there is none. Numbers in the path are left out: the field goes everywhere."""
    for pattern in _NAMED:
        found = pattern.search(message[:_MESSAGE_CHARS_MAX])
        if found is None:
            continue
        names = [name for name in found.groups() if name]
        path = ".".join(reversed(names)) if len(names) > 1 else names[0]
        steps = [step for step in re.split(r"[.\[\]]+", path) if step and not step.isdigit()]
        if steps and steps[-1] not in _KEPT:
            return ".".join(steps)[:_PATH_CHARS_MAX]
    return ""

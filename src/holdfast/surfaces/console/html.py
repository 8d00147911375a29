"""HTML from Python values. Text is escaped unless it is `Html`, and only `tag` makes that."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

_VOID: Final = frozenset(("meta", "link", "input", "br", "hr", "col"))
_CONTROLS: Final = lazy_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a page may not hold, or that turn the order of the text around them."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return a value as text of a page; `Html` stays as it is."""
    if isinstance(value, Html):
        return value
    if value is None or value is False:
        return Html("")
    if isinstance(value, (list, tuple)):
        return Html("".join(map(text, value)))
    clean = _CONTROLS.sub("\ufffd", str(value)).encode("utf-8", "replace").decode()
    return Html(escape(clean, quote=False))


def tag(name: str, /, *children: object, **attributes: Any) -> Html:
    """Return an element. `class_` is `class`, and `hx_get` is `hx-get`; None leaves one out."""
    written = "".join(
        _attribute(key, value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{''.join(map(text, children))}</{name}>")


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    clean = _CONTROLS.sub("\ufffd", str(value)).encode("utf-8", "replace").decode()
    return f' {name}="{escape(clean, quote=True)}"'


def join(*parts: object) -> Html:
    """Return parts of a page one after the other."""
    return text(parts)

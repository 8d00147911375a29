"""Pages from the templates beside this module: texts are escaped, without control characters."""

from __future__ import annotations

import shlex
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.secrets.plain_reading import plain_reading
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.timestamps import iso_utc
from holdfast.errors import UsageError
from holdfast.surfaces.formatting import ago, count, local_time, money, one_line, size_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_TEXT_BYTES: Final = 140_000
"""Of a long text on a page, so that it stays below 200 KB with its frame."""
_ESCAPED_MAX: Final = 5
"""Bytes of `&amp;`, for one."""
_CONTROLS: Final = lazy_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a page may not hold, or that turn the order of the text around them."""


def page_file(name: str) -> str:
    """Check, before anything is read, that the page can be written; return the file's name."""
    _environment()
    return name


def render_page(template: str, **values: Any) -> str:
    """Return a page."""
    return _environment().get_template(template).render(values)


def render_part(template: str, **values: Any) -> Markup:
    """Return a part of a page, for a page that is made later."""
    from markupsafe import Markup

    return Markup(render_page(template, **values))  # noqa: S704 - the template escapes its values


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise UsageError(
            "a page needs a package that is not installed: jinja2",
            hint="pip install 'holdfast[html]'",
        ) from error
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "ago": ago,
        "fitted": fit_text,
        "gist": one_line,
        "iso": iso_utc,
        "markdown": _markdown,
        "money": money,
        "number": "{:,.0f}".format,
        "percent": "{:.1%}".format,
        "share": "{:.0%}".format,
        "shell": shlex.join,
        "size": size_text,
        "tokens": "{:,.0f} tok".format,
    }
    made.globals |= {"count": count, "local_time": local_time}
    return made


def fit_text(text: str) -> str:
    """Return the beginning of a long text, as much as a page of 200 KB has room for."""
    shown = cut(text, _TEXT_BYTES, unit="bytes").text
    size = len(escape(shown).encode("utf-8", "replace"))
    if size > _TEXT_BYTES:  # escaped text is longer
        shown = cut(text, _TEXT_BYTES * _TEXT_BYTES // size, unit="bytes").text
        if len(escape(shown).encode("utf-8", "replace")) > _TEXT_BYTES:
            shown = cut(text, _TEXT_BYTES // _ESCAPED_MAX, unit="bytes").text
    return shown


def _markdown(text: str) -> Markup:
    """The Markdown of a message. It is cleaned again at the end: `&#x1b;` is a character there."""
    from markupsafe import Markup

    from holdfast.surfaces.markdown import markdown_html

    return Markup(_clean(markdown_html(str(_clean(text)))))  # noqa: S704 - made by the renderer


def _clean(value: object) -> object:
    """Take the colours of a terminal and control characters out of a text; markup is no such
    text."""
    if type(value) is not str:
        return value
    reading = plain_reading(value) if "\x1b" in value else None
    text = reading.text if reading is not None else value
    return _CONTROLS.sub("\ufffd", text).encode("utf-8", "replace").decode()

"""Pages from the templates beside this module: every text is escaped, without terminal codes."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.secrets.plain_reading import plain_reading
from holdfast.errors import UsageError
from holdfast.surfaces.formatting import count, local_time, printable

if TYPE_CHECKING:
    from jinja2 import Environment


def page_file(name: str) -> str:
    """Check, before anything is read, that the page can be written; return the file's name."""
    _environment()
    return name


def render_page(template: str, **values: Any) -> str:
    """Return a page."""
    return _environment().get_template(template).render(values)


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
        "n": "{:,}".format,
        "dollars": "${:,.2f}".format,
        "percent": "{:.1%}".format,
        "shell": shlex.join,
    }
    made.globals |= {"count": count, "local_time": local_time}
    return made


def _clean(value: object) -> object:
    """Take the colours and controls of a terminal out of a text; markup is no such text."""
    if type(value) is not str:
        return value
    reading = plain_reading(value) if "\x1b" in value else None
    return printable(reading.text if reading is not None else value, " ")

"""Markdown of a message as HTML: no markup of its own, no picture, and links that only lead out.

A text that would take long, or a page full of room, stays as it is written.
"""

from __future__ import annotations

from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

CHARS_MAX: Final = 4_000
"""Of a text; a longer one is shown as written."""
_HTML_MAX: Final = 20_000
"""Characters of the HTML; marks that nest or repeat make much from little."""
_CELLS_MAX: Final = 2_000
"""Cells of a table: each row is filled up to the width of the first."""
_LINK: Final = lazy_pattern(r"(?i:https?://|mailto:)[^\s\\]")


def markdown_html(text: str) -> str:
    """Return the HTML of a text from anyone."""
    lines = text.splitlines()
    cells = len(lines) * max((line.count("|") for line in lines), default=0)
    if len(text) <= CHARS_MAX and cells <= _CELLS_MAX:
        made: str = _renderer().render(text)
        if len(made) <= _HTML_MAX:
            return made
    return f'<p class="plain">{escape(text)}</p>'


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "breaks": True})
    made.enable(["table", "strikethrough"])
    made.disable(["image", "reference", "html_block", "html_inline"])
    made.validateLink = is_safe_link  # type: ignore[assignment, method-assign]
    made.add_render_rule("link_open", _open_link)
    made.add_render_rule("heading_open", _open_heading)
    made.add_render_rule("heading_close", _close_heading)
    made.add_render_rule("fence", _code)
    made.add_render_rule("code_block", _code)
    made.add_render_rule("table_open", _open_table)
    made.add_render_rule("table_close", _close_table)
    made.add_render_rule("th_open", _open_cell)
    made.add_render_rule("td_open", _open_cell)
    return made


def is_safe_link(address: str) -> bool:
    """Say whether a link may be followed: it leads to another site, or to a mailbox."""
    return _LINK.match(address) is not None


def _open_link(_self: Any, tokens: Sequence[Token], place: int, *_rest: Any) -> str:
    address = escape(str(tokens[place].attrGet("href")))
    return f'<a href="{address}" rel="noopener noreferrer">'


# The headings of the page are those of the console.
def _open_heading(*_given: Any) -> str:
    return '<p class="heading">'


def _close_heading(*_given: Any) -> str:
    return "</p>\n"


def _code(_self: Any, tokens: Sequence[Token], place: int, *_rest: Any) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[place].content)}</code></pre>\n'


def _open_table(*_given: Any) -> str:
    return '<div class="scroll" tabindex="0"><table>\n'


# The policy of the page allows no style in a tag: a column is not aligned.
def _open_cell(_self: Any, tokens: Sequence[Token], place: int, *_rest: Any) -> str:
    return f"<{tokens[place].tag}>"


def _close_table(*_given: Any) -> str:
    return "</table></div>\n"

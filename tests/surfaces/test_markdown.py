"""Markdown of messages: what it makes is from a short list of elements, whatever was written."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.surfaces.console.stores import HOSTILE

from holdfast.surfaces.markdown import CHARS_MAX, is_safe_link, markdown_html

ELEMENTS = {
    *("p", "br", "hr", "em", "strong", "s", "ul", "ol", "li", "blockquote", "pre", "code", "a"),
    *("table", "thead", "tbody", "tr", "th", "td", "div"),
}
ATTRIBUTES = {"href", "rel", "class", "tabindex", "start"}
MARKS = (
    *("*", "_", "**", "~~", "`", "```", "\n", "\n\n", "    ", "> ", "- ", "1. ", "# ", "|", "|-|"),
    *("[", "](", ")", "!", "<", ">", "&#x6a;", "&colon;", "\\", '"', "'", ":", "\t", "\x00", "a"),
    *(
        "javascript:",
        "data:text/html,",
        "https://a.example/",
        "mailto:",
        "//b.example",
        "vbscript:",
    ),
    *("<script>", "</pre>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "\u202e", "é"),
)


class Elements(HTMLParser):
    """Fails at anything that is not on the list, and at an element that is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        given = dict(attrs)
        assert given.keys() <= ATTRIBUTES, given
        if tag == "a":
            address = given["href"] or ""
            assert address.lower().startswith(("http://", "https://", "mailto:")), address
            assert given["rel"] == "noopener noreferrer"
            self.links.append(address)
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        assert tag in ("br", "hr")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)


def links_of(text: str) -> list[str]:
    found = Elements()
    found.feed(markdown_html(text))
    found.close()
    assert not found.open
    return found.links


@given(st.one_of(st.text(max_size=300), st.lists(st.sampled_from(MARKS), max_size=40).map("".join)))
@example(HOSTILE)
@example("[a](javascript:alert(1)) [b](JaVa\tScript:x) [c](<data:text/html,x>) <javascript:x>")
@example("[a](&#106;avascript:alert(1)) [b](java&Tab;script:x) [c](//evil.example) [d](/login)")
@example("[![x](javascript:a)](javascript:b) [[x](https://a.example)](javascript:c)")
@example('[a](https://a.example/"onmouseover="alert(1)) [b](https://a.example "x\\" onclick=y")')
@example("[a]: javascript:x\n\n[a] ```<script>\n</code></pre><script>\n```")
@example("|a|b|\n|:-:|--:|\n|1|2|")
@example("<!-- x --> <!DOCTYPE x> <?x?> <![CDATA[x]]>\n\n<div onclick=x>\n\n```js onload=x\n```")
def test_only_known_elements_come_out(text: str) -> None:
    """No element, attribute or scheme beyond the list, and each element is closed."""
    links_of(text)


@pytest.mark.parametrize("scheme", ["javascript", "data", "vbscript", "file", "blob", "ftp", ""])
def test_a_link_leads_out_or_is_text(scheme: str) -> None:
    assert not is_safe_link(f"{scheme}:x")
    assert not links_of(f"[a]({scheme}:x) <{scheme}:x> [b](#{scheme}:x)")


def test_what_people_write_is_drawn() -> None:
    """Emphasis, lists, code, tables and links; a picture is a link to it; a heading is none."""
    html = markdown_html(
        "# Title\n**bold** `code`\n- one\n- two\n\n|a|b|\n|-|-|\n|1|2|\n\n```py\nx < 1\n```\n"
        "[site](https://a.example/?a=1&b=2) ![picture](https://a.example/p.png)"
    )
    for part in ("<strong>bold", "<code>code", "<li>two", "<td>2", "x &lt; 1", '"heading">Title'):
        assert part in html, part
    assert 'href="https://a.example/?a=1&amp;b=2"' in html
    assert "!<a href" in html
    assert "<img" not in html
    assert markdown_html("one\ntwo").count("<br") == 1


@pytest.mark.parametrize(
    "text",
    [
        "|a" * 30 + "\n" + "|-" * 30 + "\n" + "x\n" * 1_400,
        "**a** " * CHARS_MAX,
        "- a\n" * (CHARS_MAX // 4),
    ],
)
def test_much_from_little_stays_as_written(text: str) -> None:
    """Text that is long, or that makes a page full of elements, is not drawn."""
    assert len(markdown_html(text)) <= max(20_000, len(text) + 30)
    assert "<table" not in markdown_html(text)


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_that_repeats_makes_no_page(mark: str) -> None:
    """The size is bounded for each mark alone."""
    text = (mark * CHARS_MAX)[:CHARS_MAX]
    assert len(markdown_html(text)) <= 24_100
    links_of(text)


def test_characters_are_cleaned_after_they_are_decoded() -> None:
    """`&#x202e;` is a character that turns a line around; the page holds no such one."""
    page = render_markdown("a &#x202e;b &#27;[31m c")
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "<p>a \ufffdb" in page


def render_markdown(text: str) -> str:
    from holdfast.surfaces.pages import _environment

    return _environment().from_string("{{ text|markdown }}").render(text=text)

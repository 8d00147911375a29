"""Pages are templates: whatever a session holds is text there, and a missing package is said."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import get_args

import pytest

import holdfast.surfaces.pages
from holdfast.core.log.records import Record
from holdfast.errors import UsageError
from holdfast.surfaces.pages import page_file, render_page

TEMPLATES = Path(holdfast.surfaces.pages.__file__).parent / "templates"


def test_no_template_lets_markup_through() -> None:
    """Every value is escaped, so no filter or block may turn that off."""
    found = {path: path.read_text() for path in TEMPLATES.rglob("*.html")}
    assert len(found) > 20
    for path, text in found.items():
        assert not re.search(r"\|\s*safe|autoescape|https?://| on[a-z]+=", text), path
        # What is saved to a file has no script; a page of the console has none of its own.
        allowed = (
            r'<script src="/static/[\w.]+" defer></script>' if path.parent != TEMPLATES else "^$"
        )
        assert not re.search("<script", re.sub(allowed, "", text)), path


def test_a_value_is_text() -> None:
    """Markup is escaped, colours of a terminal are left out, in texts and in attributes."""
    runs: list[object] = []
    title = "<b>'\"&\x1b[31mred\x1b[0m\x07"
    page = render_page(
        "policies.html",
        title=title,
        maker="m",
        about=title,
        charts=[(title, "note", [(title, 1.0, "words")])],
        runs=runs,
        price="p",
    )
    assert "<b>" not in page.partition("<main>")[2]
    assert "\x1b" not in page
    assert "\x07" not in page
    assert "aria-label='&lt;b&gt;&#39;&#34;&amp;red\ufffd'" in page


def test_a_missing_package_is_said_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the extra that brings it."""
    holdfast.surfaces.pages._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match="jinja2") as caught:
        page_file("page.html")
    assert "holdfast[html]" in (caught.value.hint or "")


def test_no_kind_of_record_wears_the_style_of_a_part() -> None:
    """A line of a conversation has its record's kind as a class, and a bare rule for that name
    would dress it as something else."""
    sheet = (TEMPLATES.parent / "console" / "static" / "console.css").read_text()
    bare = {
        selector.strip()
        for rules in re.findall(r"(?:^|[{}])([^{}@]+)\{", sheet)
        for selector in rules.split(",")
    }
    assert ".bar" in bare
    kinds = {member.__struct_config__.tag for member in get_args(Record)}
    assert "label" in kinds
    assert {f".{kind}" for kind in kinds} & bare == set()

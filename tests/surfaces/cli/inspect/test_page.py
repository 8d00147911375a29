"""The parts that every written page has."""

from __future__ import annotations

import re

from holdfast.surfaces.cli.inspect.page import document, escape, wide_table


def test_no_two_regions_of_a_page_have_one_label() -> None:
    """Screen readers list regions by label; words of a conversation are no region."""
    said = escape("role=region aria-label='Tools'")
    body = said + wide_table("Tools", "", "") * 3 + wide_table("Files", "", "") + said

    page = document("title", body, "holdfast inspect")

    assert re.findall(r"role=region aria-label='([^']*)'", page) == [
        "Tools",
        "Tools (2)",
        "Tools (3)",
        "Files",
    ]
    assert page.count(said) == 2

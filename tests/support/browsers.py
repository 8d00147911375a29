"""What tests ask of a page that is open in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.node_programs import package_file

if TYPE_CHECKING:
    from playwright.sync_api import Page


def serious_faults(page: Page) -> list[Any]:
    """Return what axe-core finds serious in the page that is open."""
    script = package_file("axe-core/axe.min.js").read_text("utf-8")
    page.evaluate(script)  # by the debugger, which no content policy binds
    # Without `preload` it fetches no style sheet again, which a page from a folder may not.
    found = page.evaluate("axe.run({resultTypes: ['violations'], preload: false})")
    return [
        (fault["id"], [node["html"][:200] for node in fault["nodes"]][:3])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]

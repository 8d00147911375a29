"""The docs site: every page is in it once, links lead somewhere, and nothing is fetched."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
from functools import cache
from posixpath import dirname, normpath
from typing import TYPE_CHECKING, Any

import pytest
from scripts.api_page import MODULES, public_names
from scripts.console_screenshots import CHROMIUM, open_browser
from scripts.site import build
from scripts.site.reference import fields_of, signature_of
from tests.support.browsers import serious_faults

from holdfast import AsyncSession, Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

SECTIONS = ("Start", "How-to", "Concepts", "Reference", "Operations", "Benchmarks", "Internals")
WAIT = 90_000
"""Milliseconds, on a machine that is busy."""
needs_generator = pytest.mark.skipif(
    not build.ZENSICAL.exists(), reason="NOT TESTED: Zensical is not installed; run `make site`"
)
needs_chromium = pytest.mark.skipif(
    not os.path.exists(CHROMIUM),
    reason="NO CHROMIUM: install it with `apt-get install -y chromium`",
)


@cache
def staged() -> dict[str, str]:
    return build.pages()


def navigation() -> build.Nav:
    return build.navigation((build.ROOT / "docs" / "README.md").read_text("utf-8"))


def places_in(nav: str | build.Nav) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [place for _title, below in nav for place in places_in(below)]


@cache
def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    plain = (re.sub(r"\[(.+?)\]\([^)]*\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in plain}


def test_sections_are_those_of_the_index() -> None:
    """The site and docs/README.md have the same sections, each with pages."""
    found = navigation()

    assert tuple(name for name, _pages in found) == SECTIONS
    assert all(pages for _name, pages in found)


def test_navigation_has_every_page_once() -> None:
    """Each page is in the navigation, and once; an example is on the page of examples."""
    listed = places_in(navigation())
    examples = {place for place in staged() if place.startswith("examples/")}

    assert sorted(listed) == sorted(set(listed))
    assert set(staged()) - examples == set(listed) - {"examples/index.md"}


def test_links_and_anchors_lead_somewhere() -> None:
    """Each link leads to a page or picture of the site, and to a heading that is there."""
    faults = []
    for place, text in staged().items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)", prose)
        links += [(file, "") for file in re.findall(r'\ssrc(?:set)?="(?!https?:)([^"]+)"', prose)]
        for target, anchor in links:
            path = normpath(f"{dirname(place)}/{target}".lstrip("/")) if target else place
            if path not in staged():
                if not (build.ROOT / "docs" / path).is_file():
                    faults.append((place, target))
            elif anchor and anchor not in anchors_of(staged()[path]):
                faults.append((place, f"{target}#{anchor}"))
    assert faults == []


@pytest.mark.parametrize(
    "here", ["README.md", "docs/page.md", "docs/adapters/page.md", "examples/README.md"]
)
def test_a_link_out_of_the_site_becomes_words(here: str) -> None:
    """A file that has no page is named and not linked; code is left as it is."""
    link = f"[the words]({'../' * here.count('/')}src/holdfast/config.py)"
    text = f"See {link}.\n\n```python\na = [b](src/{link}.py)\n```\n"

    assert build.relink(text, here) == text.replace(link, "the words", 1)


def test_code_in_tables_has_bare_pipes() -> None:
    """GitHub wants a pipe of code in a table escaped; the generator would show the backslash."""
    row = r"| `a \| b` | c \| d |"

    assert build.plain(f"{row}\n\n`a \\| b`\n") == "| `a | b` | c \\| d |\n\n`a \\| b`\n"


def test_reference_has_every_public_name() -> None:
    """Each public name has a heading and words; each method of a session its signature."""
    missing = []
    for module in MODULES:
        page = staged()[f"reference/{module}.md"]
        sections = dict(
            re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        )
        missing += [name for name in public_names(module) if not sections.get(name, "").strip()]
    assert missing == []
    page = staged()["reference/holdfast.md"]
    for cls in (Session, AsyncSession):
        for name, value in inspect.getmembers(cls, inspect.isroutine):
            if not name.startswith("_"):
                assert f"### `{cls.__name__}.{name}`" in page
                assert signature_of(inspect.unwrap(value)) in page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    build.build(folder)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, site: Path) -> Iterator[Page]:
    """A page that asks for nothing outside the folder, and has no error."""
    context = browser.new_context(viewport={"width": 390, "height": 800})
    context.set_default_timeout(WAIT)
    found = context.new_page()
    faults: list[str] = []
    inside = ("data:", "blob:", "about:", site.as_uri())
    found.on("request", lambda r: None if r.url.startswith(inside) else faults.append(r.url))
    found.on("pageerror", lambda error: faults.append(str(error)))
    found.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    yield found
    context.close()
    assert faults == []


@needs_generator
@needs_chromium
@pytest.mark.nightly
def test_pages_fetch_nothing_and_fit_a_phone(page: Page, site: Path) -> None:
    """Every page opens from the folder, asks for nothing elsewhere, and is as wide as a phone."""
    wide: dict[str, Any] = {}
    for path in sorted(set(site.rglob("*.html")) - {site / "404.html"}):  # that is for servers
        page.goto(path.as_uri())
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide[path.name] = width
    assert wide == {}


@needs_generator
@needs_chromium
@pytest.mark.nightly
def test_search_works_without_a_server(page: Page, site: Path) -> None:
    """The search of a page that was opened from a folder finds another page by its words."""
    page.set_viewport_size({"width": 1200, "height": 800})
    page.goto((site / "index.html").as_uri())
    page.get_by_role("button", name="Search").first.click()
    page.get_by_role("combobox", name="Search").fill("prompt cache")
    page.get_by_text("Loopback: a model provider on this machine").last.wait_for()


@needs_generator
@needs_chromium
@pytest.mark.nightly
def test_main_pages_have_no_serious_fault_of_access(page: Page, site: Path) -> None:
    """axe-core finds nothing serious on the first page of each section, in light and in dark."""
    first = [places_in(below)[0] for _name, below in navigation()]
    faults = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for place in (*first, "cli.md", "reference/holdfast.md", "examples/web_service.md"):
            page.goto((site / place).with_suffix(".html").as_uri())
            faults[scheme, place] = serious_faults(page)
    assert {where: found for where, found in faults.items() if found} == {}


@needs_generator
@pytest.mark.nightly
@pytest.mark.parametrize("link", ["nowhere.md", "quickstart.md#no-such-heading"])
def test_a_broken_link_fails_the_build(
    link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build is strict: a link or an anchor that leads nowhere stops it."""
    broken = staged() | {"install.md": f"# Install\n\n[broken]({link})\n"}
    monkeypatch.setattr(build, "pages", lambda: broken)

    with pytest.raises(subprocess.CalledProcessError):
        build.build(tmp_path / "site")


def bare_fields(module: str) -> list[str]:
    """Return the fields of public classes whose row in the reference would have an empty cell."""
    found = importlib.import_module(module)
    classes = [getattr(found, name) for name in public_names(module)]
    return [
        f"{cls.__name__}.{field.name}"
        for cls in classes
        if inspect.isclass(cls)
        for field in fields_of(cls)
        if not field.words
    ]


@pytest.mark.parametrize("module", MODULES)
def test_fields_have_their_words_in_the_reference(module: str) -> None:
    """Every field of every public class; a row without words explains nothing."""
    assert bare_fields(module) == []


@pytest.mark.parametrize("page", ["settings", "records", "events", "errors"])
def test_tables_of_the_reference_pages_have_no_empty_cell(page: str) -> None:
    text = (build.ROOT / "docs" / f"{page}.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row for row in rows if re.search(r"(?<!\\)\|\s*(?<!\\)\|", row)] == []

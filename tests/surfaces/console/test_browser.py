"""The console in a real Chromium: five questions, accessibility, no script error, live updates."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from scripts.console_screenshots import CHROMIUM, open_browser, serve_demo
from tests.support.browsers import serious_faults
from tests.support.cli import run_in_process
from tests.support.planted import PLANTED, planted_session
from tests.support.runs import is_whole, sample
from tests.surfaces.console.proxies import CuttingProxy
from tests.surfaces.http.real import ServeProcess

from holdfast import JsonlStore, SessionKey
from holdfast.stores import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [
    pytest.mark.files_only("the demo is in a folder"),
    pytest.mark.skipif(
        not os.path.exists(CHROMIUM),
        reason="NO CHROMIUM: install it with `apt-get install -y chromium`",
    ),
]
SESSION = "/s/coder/release"
PAGES = (
    "/",
    "/savings",
    "/sessions",
    "/inbox",
    "/waiting",
    "/timers",
    "/memory",
    "/memory?q=release",
    "/health?measure=true",
    "/health/verify",
    "/login",
    SESSION,
    f"{SESSION}/context",
    f"{SESSION}/context/fate",
    f"{SESSION}/context/what-if?window=12000",
    f"{SESSION}/context/time",
    f"{SESSION}/context/request",
    f"{SESSION}/context/changes",
    f"{SESSION}/compaction",
    f"{SESSION}/compaction/missed",
    f"{SESSION}?q=ticket",
    f"{SESSION}/branches",
    f"{SESSION}/turns",
    f"{SESSION}/inspect",
    f"{SESSION}/evaluate?policy=last&window=32000",
    f"{SESSION}/verify",
)
WAIT = 90_000
"""Milliseconds, on a machine that is busy."""
expect.set_options(timeout=WAIT)
DRAWN = {
    "light": (
        "/",
        "/sessions",
        "/inbox",
        "/health",
        SESSION,
        f"{SESSION}/context/what-if?window=12000",
    ),
    "dark": (f"{SESSION}/context/what-if?window=12000",),
}
"""Pages of `make test`, which have every part that is drawn."""


@pytest.fixture(scope="module")
def browser() -> Iterator[tuple[Browser, str]]:
    """Chromium, and the address of a server with the demo session; both are started once."""
    with serve_demo() as url, open_browser() as opened:
        yield opened, url


def new_context(browser: Browser, url: str, **options: Any) -> BrowserContext:
    context = browser.new_context(base_url=url, **options)
    context.set_default_timeout(WAIT)
    return context


@pytest.fixture
def page(browser: tuple[Browser, str]) -> Iterator[Page]:
    """A page that must not have a script error, nor break the content policy."""
    opened, url = browser
    context = new_context(opened, url)
    found = context.new_page()
    mistakes: list[str] = []
    found.on("pageerror", lambda error: mistakes.append(str(error)))
    found.on(
        "console",
        lambda message: mistakes.append(message.text) if message.type == "error" else None,
    )
    found.goto("/")
    yield found
    context.close()
    assert mistakes == []


def number_in(text: str) -> int:
    return int(re.sub("[^0-9]", "", text))


def test_five_questions_in_two_clicks(page: Page) -> None:
    """Each begins at the overview, and takes at most two clicks."""
    release = page.locator("tbody tr", has_text="A day of maintenance")
    # What did it cost, and what would it have? Without a click.
    assert re.fullmatch(r"\$\d+\.\d\d", page.locator("#bill").inner_text())
    instead = page.locator("#savings tbody tr", has_text="A day of maintenance")
    expect(instead).to_contain_text("a summary at 85 %")
    before, after = re.findall(r"\$(\d+\.\d\d)", instead.inner_text())
    assert float(after) < float(before)
    # What waits for me? One click, and the next one approves it.
    page.get_by_role("link", name="1 call waits for a person").click()
    assert "a refund of 89 euros is above 50" in page.locator("main").inner_text()
    assert page.get_by_role("button", name="Approve").is_visible()
    # What fills the window now? One click.
    page.goto("/")
    release.get_by_role("link", name="Context:").click()
    total = number_in(page.locator("#total").inner_text())
    api = page.request.get("/v1/sessions/coder/release/context").json()
    assert total == api["tokens"]["total"] < 24_000
    assert "carry-over summary" in page.locator("ul.legend").inner_text()
    assert page.locator("svg.cells").is_visible()
    # What would be sent at half the window? Two clicks.
    page.get_by_role("link", name="The request at half the window").click()
    cells = page.locator("#compare-total td").all_inner_texts()
    assert number_in(cells[1]) == total
    assert number_in(cells[2]) < 12_000
    # What was cut last, and why? What was said before it? What was missed of it? One click.
    page.goto("/")
    release.locator("a[href$='/compaction']").click()
    assert "of the budget" in page.locator("#why").inner_text()
    assert page.locator("ol.said li").count() > 3
    assert page.get_by_role("heading", name="The original: what was said").is_visible()
    expect(page.locator("#missed")).to_contain_text("every later reply had what it used")
    # What did later replies lack? Two clicks.
    page.goto("/")
    instead.get_by_role("link").click()
    lost = number_in(page.locator("#losses").inner_text())
    assert page.locator("tbody tr", has_text=", call ").count() == lost > 0


def test_a_click_approves_the_call_that_waits(page: Page) -> None:
    """It runs at once, with its arguments, and the session has the answer."""
    page.goto("/waiting")
    page.get_by_role("button", name="Approve").click()
    page.goto("/s/support/order-4711")
    expect(page.locator("#records")).to_contain_text("89 euros of order 4711 go back")


def test_no_page_has_a_serious_fault_of_access(page: Page) -> None:
    """axe-core finds nothing serious, in light and in dark, on each page."""
    faults = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for path in PAGES if is_whole() else DRAWN[scheme]:
            page.goto(path)
            faults[scheme, path] = serious_faults(page)
    assert {where: found for where, found in faults.items() if found} == {}


_EMPTY_TRANSCRIPT = (
    '{"timestamp":"2026-01-02T10:00:00Z","type":"session_meta",'
    '"payload":{"id":"empty","timestamp":"2026-01-02T10:00:00Z","cwd":"/a","cli_version":"1"}}\n'
)
"""A session of Codex in which nothing was said."""


def test_no_written_page_has_a_serious_fault_of_access(
    page: Page, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The page of `evaluate`, with losses of each kind, that of `inspect` about a folder, which has
    an empty session too, and at night that about one session; none is wider than a phone."""
    root, policy = tmp_path / "root", tmp_path / "policy.toml"
    policy.write_text('keep = 0.01\nallow = ["nothing"]\n')
    with JsonlStore(root) as store:
        store.create(SessionKey("main", "work"))
        store.append(SessionKey("main", "work"), planted_session(), expect=ANY_HEAD)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "empty.jsonl").write_text(_EMPTY_TRANSCRIPT)
    for name in ("a", "b"):
        talk = [{"role": "user", "content": name}, {"role": "assistant", "content": "yes"}]
        (folder / f"{name}.json").write_text(json.dumps(talk))
    losing = ["--window", "32k", "--static", "2k", "--policy", str(policy)]
    ways = {"evaluate": ["evaluate", "work", *losing], "folder": ["inspect", str(folder)]}
    if is_whole():
        ways["inspect"] = ["inspect", "work"]
    page.set_viewport_size({"width": 390, "height": 800})
    faults = {}
    for name, command in ways.items():
        file = tmp_path / f"{name}.html"
        done = run_in_process([*command, "--html", str(file), "--root", str(root)], capfd)
        assert name != "folder" or "3 conversations" in done.out
        for scheme in ("light", "dark") if is_whole() else ("light",):
            page.emulate_media(color_scheme=scheme)
            page.goto(file.as_uri())
            width = page.evaluate("document.documentElement.scrollWidth")
            faults[scheme, name] = [*serious_faults(page), *([width] if width > 390 else [])]
        assert page.locator(".loss").count() == (len(PLANTED) if name == "evaluate" else 0)
    assert {where: found for where, found in faults.items() if found} == {}


_HEAD_END = """() => Math.max(...[...document.querySelectorAll(
    ".top, nav[aria-label=Session], nav[aria-label=Session] + .tabs")].map(
    (part) => part.getBoundingClientRect().bottom + scrollY))"""


def test_a_phone_has_room_for_every_page(page: Page) -> None:
    """No page is wider than a phone, and what is above its content takes a fifth of the screen."""
    page.set_viewport_size({"width": 390, "height": 844})
    for path in sample(PAGES, share=1 / 2):
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, (path, width)
        assert page.evaluate(_HEAD_END) <= 844 / 5, path


def test_a_session_is_searched(page: Page) -> None:
    """What is found are whole steps with all words, far fewer than there are."""
    page.goto(SESSION)
    page.get_by_role("searchbox").fill("HF-2291 Ines")
    page.get_by_role("button", name="Search").click()
    texts = page.locator("#records > li[id]").all_text_contents()
    named = ["HF-2291" in text and "Ines" in text for text in texts]
    assert 3 < sum(named) <= len(named) <= 2 * sum(named)
    page.get_by_role("searchbox").fill("xyzzyplugh")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("No message has all of these words.")


def test_a_link_leads_to_its_cut(page: Page) -> None:
    """A cut has an address of its own, under which others find the same one."""
    page.goto(f"{SESSION}/compaction")
    older = page.locator("td:first-child a").nth(4)
    name = older.inner_text()
    older.click()
    link = page.locator("a[data-copy-link]")
    assert link.inner_text() == name
    assert page.url.endswith(str(link.get_attribute("href")))


def test_pages_are_read_without_scripts(browser: tuple[Browser, str]) -> None:
    """With JavaScript off, links lead everywhere and the numbers are there."""
    opened, url = browser
    context = new_context(opened, url, java_script_enabled=False)
    page = context.new_page()
    page.goto(SESSION)
    assert page.locator("ol.records > li").count() > 10
    page.get_by_role("link", name="Earlier records").click()
    assert "before=" in page.url
    page.goto(f"{SESSION}/context")
    assert page.locator("#total").is_visible()
    context.close()


def test_a_message_is_answered_on_an_open_page(page: Page) -> None:
    """Another page sends; this one shows the message and its answer without moving or reloading."""
    page.goto("/sessions")
    page.get_by_label("Label").fill("live")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("#live-state")).to_have_text("live")
    page.evaluate("window.isSamePage = true")
    other = page.context.new_page()
    other.goto(page.url)
    for number in range(2):
        other.get_by_label("Message").fill(f"hello number {number}")
        other.get_by_role("button", name="Send").click()
        expect(page.locator("#records > li.assistant")).to_have_count(number + 1)
        expect(page.locator("#delta")).to_be_hidden()
    ids = page.eval_on_selector_all("#records > li", "items => items.map(item => item.id)")
    assert len(set(ids)) == len(ids)
    assert page.locator("#records > li.user").count() == 2
    assert page.evaluate("window.isSamePage")
    page.reload()
    stored = page.eval_on_selector_all("#records > li", "items => items.map(item => item.id)")
    assert stored[: len(ids)] == ids  # what is recorded after an answer may come meanwhile


def test_keys_lead_through_the_console(page: Page) -> None:
    """`?` shows the keys; `j`, `o`, `c` and `g s` go to a session, its context and back."""
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    page.goto("/sessions?q=maintenance")
    page.keyboard.press("j")
    page.keyboard.press("o")
    page.wait_for_url("**/s/coder/release")
    page.keyboard.press("c")
    page.wait_for_url("**/s/coder/release/context")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/sessions")


def test_earlier_records_come_above(page: Page) -> None:
    """The link is replaced by the records before, in order and once."""
    page.goto(SESSION)
    before = page.eval_on_selector_all("#records > li[id]", "items => items.map(item => item.id)")
    page.get_by_role("link", name="Earlier records").click()
    expect(page.locator("#records > li[id]").nth(len(before))).to_be_attached()
    after = page.eval_on_selector_all("#records > li[id]", "items => items.map(item => item.id)")
    assert after[-len(before) :] == before
    assert len(set(after)) == len(after)


@pytest.fixture
def slow_server(tmp_path: Path) -> Iterator[ServeProcess]:
    """A server whose turns end when a test lets them: `wait_for_file(name="a")` waits for it."""
    settings = """
        [agents.main]
        model = "offline"
        tools = ["tests.surfaces.console.slow_tools:wait_for_file"]
    """
    environ = {"GATES": str(tmp_path)}
    with ServeProcess(str(tmp_path / "root"), settings, tmp_path, environ=environ) as process:
        yield process


def send(page: Page, url: str, text: str) -> None:
    """Send a message from elsewhere."""
    answer = page.request.post(f"{url}/v1/sessions/main/slow/messages", data={"content": text})
    assert answer.ok, answer.text()


def test_a_running_turn_is_seen_live(
    browser: tuple[Browser, str], slow_server: ServeProcess, tmp_path: Path
) -> None:
    """In the list and on its own page, without reloading: who runs it, what it does, its end."""
    context = new_context(browser[0], slow_server.url)
    rows, talk = context.new_page(), context.new_page()
    made = rows.request.put(f"{slow_server.url}/v1/sessions/main/slow", data={"label": "slow"})
    assert made.ok
    rows.goto("/sessions")
    talk.goto("/s/main/slow")
    expect(talk.locator("#live-state")).to_have_text("live")
    for page in (rows, talk):
        page.evaluate("window.isSamePage = true")
    rows.locator("tbody a.item").focus()
    send(rows, slow_server.url, 'please wait_for_file(name="a")')
    expect(rows.locator("tbody .state.running")).to_have_text("running")
    expect(rows.locator("tbody")).to_contain_text("since")
    expect(talk.locator("#state")).to_have_text("running")
    expect(talk.locator("#live-state")).to_have_text("the tool wait_for_file runs")
    assert talk.title().startswith("● running · slow")
    assert rows.evaluate("document.activeElement.classList.contains('item')"), "the focus stays"
    send(rows, slow_server.url, "and this waits behind it")
    expect(rows.locator("tbody")).to_contain_text("1 waiting")
    (tmp_path / "a").touch()
    expect(talk.locator("#records > li.assistant").last).to_be_visible()
    expect(rows.locator("tbody .state.idle")).to_have_text("idle")
    expect(talk.locator("#state")).to_have_text("idle")
    assert talk.title().startswith("idle · slow")
    assert all(page.evaluate("window.isSamePage") for page in (rows, talk))
    context.close()


def test_a_stream_that_was_cut_goes_on(
    browser: tuple[Browser, str], slow_server: ServeProcess
) -> None:
    """What was said while the page was cut off is there when it is not: each record once."""
    with CuttingProxy(slow_server.port) as proxy:
        context = new_context(browser[0], proxy.url)
        page = context.new_page()
        made = page.request.put(f"{slow_server.url}/v1/sessions/main/slow", data={"label": "slow"})
        assert made.ok
        page.goto("/s/main/slow")
        expect(page.locator("#live-state")).to_have_text("live")
        send(page, slow_server.url, "before the cut")
        expect(page.locator("#records > li.assistant")).to_have_count(1)
        for number in range(2):
            proxy.cut()
            expect(page.locator("#live-state")).to_contain_text("not connected")
            send(page, slow_server.url, f"in the dark {number}")
            proxy.is_down = False
            replies = page.locator("#records > li.assistant")
            expect(replies).to_have_count(number + 2)
        page.route("**/tail*", lambda route: route.abort())  # the stream is there, and a load fails
        with page.expect_event("requestfailed"):
            send(page, slow_server.url, "while loads fail")
        page.unroute("**/tail*")
        expect(page.locator("#records > li.assistant")).to_have_count(4)
        ids = page.eval_on_selector_all("#records > li", "items => items.map(item => item.id)")
        assert len(set(ids)) == len(ids)
        assert page.locator("#records > li.user").count() == 4
        context.close()

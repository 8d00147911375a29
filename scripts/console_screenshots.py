"""Take pictures of the console on the demo: light, dark and as wide as a phone.

    python scripts/console_screenshots.py [FOLDER]

writes `docs/images/console-*.png`. It needs Chromium (Debian: `apt-get install chromium`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SESSION = "/s/coder/release"
PAGES = {
    "overview": "/",
    "sessions": "/sessions",
    "conversation": SESSION,
    "context": f"{SESSION}/context",
    "what-if": f"{SESSION}/context/what-if?window=12000",
    "time": f"{SESSION}/context/time",
    "changes": "",
    "compaction": f"{SESSION}/compaction",
    "inspect": f"{SESSION}/inspect",
}
"""The one of changes is where the last cut was."""
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1000, "height": 660}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1000, "height": 660}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 700}},
}


@contextmanager
def serve_demo() -> Iterator[str]:
    """Serve the demo on a free port, and give the address."""
    command = [sys.executable, "-m", "holdfast", "serve", "--demo", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield str(json.loads(process.stdout.readline())["listening"])
        finally:
            process.terminate()


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with serve_demo() as url, open_browser() as browser:
        for look, options in LOOKS.items():
            page = browser.new_page(**options)
            for name, path in PAGES.items():
                if look != "light" and name not in ("overview", "context"):
                    continue
                if name == "changes":  # beside the picture of the time line, which is open
                    path = page.locator("a.column:has(.cut)").last.get_attribute("href") or ""
                page.goto(url + path, wait_until="domcontentloaded")
                page.wait_for_load_state("load")
                for part in page.locator("section[hx-get]").all():
                    part.wait_for(state="detached")  # it is replaced by what it fetches
                target = folder / f"console-{name}-{look}.png"
                page.screenshot(path=target)
                print(f"{target}: {target.stat().st_size:,} bytes")
            page.close()


if __name__ == "__main__":
    main()

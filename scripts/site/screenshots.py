"""Take pictures of what a newcomer sees: the site, a folder's report, the page of `evaluate`.

    python -m scripts.site.screenshots [TRANSCRIPTS]

writes `build/screenshots/*.png` in light, in dark and as wide as a phone, from the site in
`build/site` (`make site`) and from pages that the commands write about TRANSCRIPTS, a folder, or
about the demo session. It fails where a page is wider than the screen or asks for something outside
its folder. It needs Chromium (Debian: `apt-get install chromium`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripts.console_screenshots import open_browser

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
FOLDER = ROOT / "build" / "screenshots"
SITE_PAGES = ("index", "quickstart", "cli", "api", "settings", "own-loop", "reference/holdfast")
"""`index` is the README."""
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}


def write_reports(folder: Path, transcripts: Path | None) -> dict[str, Path]:
    """Write the pages of `inspect` and `evaluate`, and return them by name."""
    kept = folder / "kept"
    pages = {name: folder / f"{name}.html" for name in ("folder-report", "evaluation")}
    _holdfast("demo", "--fast", "--keep", str(kept), "--json")
    copies = folder / "transcripts"
    copies.mkdir()
    for number in range(3):
        log = _holdfast("export", "demo", "--root", str(kept), "--raw")
        (copies / f"session-{number}.jsonl").write_bytes(log)
    _holdfast("inspect", str(transcripts or copies), "--html", str(pages["folder-report"]))
    evaluated = ("--window", "24k", "--static", "2k", "--html", str(pages["evaluation"]))
    _holdfast("evaluate", "demo", "--root", str(kept), *evaluated)
    return pages


def _holdfast(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "holdfast", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (
        0,
        1,
    ):  # 1: a finding, such as a loss or a file that is not a transcript
        raise SystemExit(f"`{' '.join(command)}` ended with {done.returncode}")
    return done.stdout


def take(pages: dict[str, Path], folder: Path) -> list[str]:
    """Take the pictures, and return what is wrong with the pages."""
    faults: list[str] = []
    with open_browser() as browser:
        for look, options in LOOKS.items():
            page = browser.new_page(**options)
            page.on("request", lambda r: None if _is_local(r.url) else faults.append(r.url))
            for name, path in pages.items():
                page.goto(path.as_uri(), timeout=120_000)
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    faults.append(f"{name} is wider than the screen ({look})")
                page.screenshot(path=folder / f"{name.replace('/', '-')}-{look}.png")
            page.close()
    return faults


def _is_local(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:", "about:"))


def main(arguments: list[str]) -> int:
    """Take all pictures."""
    if not SITE.is_dir():
        print(f"{SITE} is not there: run `make site`", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        pages = {name: SITE / f"{name}.html" for name in SITE_PAGES}
        pages |= write_reports(Path(scratch), Path(arguments[0]) if arguments else None)
        faults = take(pages, FOLDER)
    print("\n".join([*faults, f"{len(list(FOLDER.glob('*.png')))} pictures in {FOLDER}"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

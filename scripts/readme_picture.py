"""Draw the picture of the README from the figures of the benchmark page.

    python scripts/readme_picture.py

Reads the first table of `docs/benchmarks/unseen.md` and writes `docs/images/why.svg`
and, for a phone, `docs/images/why-narrow.svg`, so the pictures say what was measured. Light and
dark are in the pictures themselves; they need no font from the network.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
WIDE = DOCS / "images" / "why.svg"
NARROW = DOCS / "images" / "why-narrow.svg"
"""For a page of at most 600 pixels, where its text is about as large as it says."""

_STYLE = """
text { font: 15px system-ui, sans-serif; fill: #18181b; }
.dim { fill: #5f5f68; font-size: 13px; } .back { fill: #ffffff; } .other { fill: #a1a1aa; }
.ours { fill: #0f766e; } .title { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #f4f4f5; } .dim { fill: #a1a1aa; } .back { fill: #18181b; }
  .other { fill: #71717a; } .ours { fill: #2dd4bf; }
}
"""


SECTION = "## Long sessions of Claude Code, set aside"


def measured(page: str) -> dict[str, list[str]]:
    """Return the rows of the first table of the section, by their names."""
    table = page[page.index(SECTION) :].split("\n\n")[2]
    rows = re.findall(r"^\| ([^|]+?) \|(.+)\|$", table, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}


def draw(page: str, *, is_narrow: bool = False) -> str:
    """Return the picture: three panels beside each other, or below each other for a phone."""
    rows = measured(page)
    place = {name: at for at, name in enumerate(rows["200k window, 18k static"])}
    ours = rows["Holdfast, `balanced`"]
    other = rows["compaction with a summary at 85 % (1 hour)"]
    panels = tuple(
        (title, ours[place[name]], other[place[name]])
        for title, name in (
            ("facts of long ago still in view", "far"),
            ("the user's words still in view", "user's words"),
            ("requests refused by a provider", "invalid requests"),
        )
    )
    width, height = (360, 380) if is_narrow else (920, 140)
    across, down = (0, 120) if is_narrow else (300, 0)
    parts = [
        f'<g transform="translate({20 + across * place} {down * place})">'
        f'<text class="title" y="32">{escape(title)}</text>{_bars(left, right)}</g>'
        for place, (title, left, right) in enumerate(panels)
    ]
    said = "; ".join(
        f"{title}: Holdfast {left}, compaction {right}" for title, left, right in panels
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(said)}"><style>{_STYLE}</style>'
        f'<rect class="back" width="{width}" height="{height}" rx="8"/>{"".join(parts)}</svg>\n'
    )


def _bars(ours: str, other: str) -> str:
    top = max(_number(ours), _number(other)) or 1.0
    drawn = []
    for place, (name, text, kind) in enumerate(
        (("Holdfast", ours, "ours"), ("compaction", other, "other"))
    ):
        width = max(160 * _number(text) / top, 2)
        y = 50 + 40 * place
        drawn.append(
            f'<text class="dim" y="{y + 8}">{name}</text>'
            f'<rect class="{kind}" y="{y + 14}" width="{width:.1f}" height="14" rx="2"/>'
            f'<text x="{width + 8:.1f}" y="{y + 27}">{escape(text)}</text>'
        )
    return "".join(drawn)


def _number(text: str) -> float:
    return float(re.sub(r"[^0-9.]", "", text))


def main() -> None:
    """Write both pictures."""
    page = (DOCS / "benchmarks" / "unseen.md").read_text("utf-8")
    WIDE.write_text(draw(page), "utf-8")
    NARROW.write_text(draw(page, is_narrow=True), "utf-8")


if __name__ == "__main__":
    main()

"""Draw the picture of the README from the figures of the benchmark page.

    python scripts/readme_picture.py

Reads the table of `docs/benchmarks/unseen.md` and writes `docs/images/why.svg`, so the picture says
what was measured. Light and dark are in the picture itself; it needs no font from the network.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PICTURE = DOCS / "images" / "why.svg"

_STYLE = """
text { font: 15px system-ui, sans-serif; fill: #18181b; }
.dim { fill: #5f5f68; font-size: 13px; } .back { fill: #ffffff; } .other { fill: #a1a1aa; }
.ours { fill: #0f766e; } .title { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #f4f4f5; } .dim { fill: #a1a1aa; } .back { fill: #18181b; }
  .other { fill: #71717a; } .ours { fill: #2dd4bf; }
}
"""


def measured(page: str) -> dict[str, list[str]]:
    """Return the rows of the first table with figures, by their names."""
    rows = re.findall(r"^\| ([^|]+?) \|(.+)\|$", page, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}


def draw(page: str) -> str:
    """Return the picture."""
    rows = measured(page)
    ours, other = rows["Holdfast"], rows["compaction with a summary at 85 %"]
    panels = (
        ("input cost, five-minute cache", ours[0], other[0]),
        ("the user's words still in view", ours[7], other[7]),
        ("requests refused by a provider", ours[8], other[8]),
    )
    parts = [
        f'<text class="title" x="{20 + 300 * place}" y="32">{escape(title)}</text>'
        + _bars(20 + 300 * place, left, right)
        for place, (title, left, right) in enumerate(panels)
    ]
    said = "; ".join(
        f"{title}: Holdfast {left}, compaction {right}" for title, left, right in panels
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 140" role="img" '
        f'aria-label="{escape(said)}"><style>{_STYLE}</style>'
        f'<rect class="back" width="920" height="140" rx="8"/>{"".join(parts)}</svg>\n'
    )


def _bars(x: int, ours: str, other: str) -> str:
    top = max(_number(ours), _number(other)) or 1.0
    drawn = []
    for place, (name, text, kind) in enumerate(
        (("Holdfast", ours, "ours"), ("compaction", other, "other"))
    ):
        width = 160 * _number(text) / top
        y = 50 + 40 * place
        drawn.append(
            f'<text class="dim" x="{x}" y="{y + 8}">{name}</text>'
            f'<rect class="{kind}" x="{x}" y="{y + 14}" width="{max(width, 2):.1f}" height="14" '
            f'rx="2"/><text x="{x + max(width, 2) + 8:.1f}" y="{y + 27}">{escape(text)}</text>'
        )
    return "".join(drawn)


def _number(text: str) -> float:
    return float(re.sub(r"[^0-9.]", "", text))


def main() -> None:
    PICTURE.write_text(draw((DOCS / "benchmarks" / "unseen.md").read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()

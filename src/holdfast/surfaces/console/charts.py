"""Pictures as inline SVG: readable without a script, without colour, and by a screen reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.surfaces.console.html import Html, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.window import Window

WIDTH: Final = 1_000
"""Units of a picture; the page scales it."""
RESERVES: Final = ("reserve", "reply")
"""Parts of a window that are kept free."""
_PATTERNS: Final = {
    "system": "M0 4 H8",
    "tools": "M4 0 V8",
    "hidden": "M0 0 L8 8",
    "summary": "M0 8 L8 0",
    "context": "M0 4 H8 M4 0 V8",
    "user": "",
    "program": "M0 3H6",
    "assistant": "M2 2 h1 v1 h-1 z M6 6 h1 v1 h-1 z",
    "tool_result": "M0 8 L8 0 M-2 2 L2 -2 M6 10 L10 6",
    "other": "M0 2 H8 M0 6 H8",
    "reply": "M0 0 L8 8 M0 8 L8 0",
    "reserve": "M4 2 v4",
    "cached": "M0 8 L8 0",
    "written": "M0 4 H8",
    "plain": "",
    "output": "M2 2 h1 v1 h-1 z M6 6 h1 v1 h-1 z",
}
"""The lines over the colour of each category."""


def small_bar(share: float, words: str) -> Html:
    """Return a share of a window as a bar of a few letters' width."""
    filled = round(60 * max(0.0, min(share, 1.0)), 1)
    level = "low" if share < 0.5 else "mid" if share < 0.8 else "high"
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=60, height=10, class_="track"),
        tag("rect", x=0, y=0, width=filled, height=10, class_=f"level {level}"),
        viewBox="0 0 60 10",
        class_="small",
        role="img",
        aria_label=words,
    )


def pattern_sheet() -> Html:
    """Return the fills of all categories, for every picture and legend of a page."""
    fills = [
        tag(
            "pattern",
            tag("rect", width=8, height=8, class_=f"c-{name}"),
            tag("path", d=lines, class_="hatch") if lines else None,
            id=f"p-{name}",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        )
        for name, lines in _PATTERNS.items()
    ]
    return tag("svg", tag("defs", *fills), width=0, height=0, class_="sheet", aria_hidden="true")


def legend(parts: Sequence[tuple[str, str, str]]) -> Html:
    """Return names of categories, each with its fill and a number."""
    return tag(
        "ul",
        *(
            tag(
                "li",
                tag(
                    "svg",
                    tag("rect", width=14, height=14, fill=f"url(#p-{kind})"),
                    viewBox="0 0 14 14",
                    class_="swatch",
                    aria_hidden="true",
                ),
                tag("span", label),
                " ",
                tag("b", value),
            )
            for kind, label, value in parts
        ),
        class_="legend",
    )


def window_bar(
    parts: Sequence[tuple[str, str, int]], window: Window, marks: Sequence[tuple[str, int]]
) -> Html:
    """Return a context window as one bar: parts from the left, reserves at the right end, and
    lines with their names."""
    whole = window.tokens
    shapes: list[Html] = [tag("rect", x=0, y=18, width=WIDTH, height=44, class_="track")]
    reserved = sum(size for kind, _label, size in parts if kind in RESERVES)
    x, is_reserve = 0.0, False
    for kind, label, size in parts:
        if kind in RESERVES and not is_reserve:
            x, is_reserve = max(x, WIDTH * (1 - reserved / whole)), True
        width = WIDTH * size / whole
        shapes.append(
            tag(
                "rect",
                tag("title", f"{label}: {size:,} tokens, {size / whole:.1%}"),
                x=round(x, 2),
                y=18,
                width=round(max(0.0, min(width, WIDTH - x)), 2),
                height=44,
                fill=f"url(#p-{kind})",
                class_="part",
            )
        )
        x = min(WIDTH, x + width)
    for place, (label, at) in enumerate(marks):
        left = round(WIDTH * min(at, whole) / whole, 1)
        y = 12 if place % 2 == 0 else 78
        anchor = "end" if left > WIDTH / 2 else "start"
        shapes += [
            tag("line", x1=left, x2=left, y1=14, y2=66, class_="mark"),
            tag("text", label, x=left, y=y, text_anchor=anchor, class_="label"),
        ]
    words = "; ".join(f"{label} {size:,} tokens" for _kind, label, size in parts if size)
    return tag(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH} 84",
        class_="window",
        role="img",
        aria_label=f"The window of {whole:,} tokens: {words}",
    )

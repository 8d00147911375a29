"""Record `holdfast demo` as a picture that moves: `docs/images/demo.svg`.

    python scripts/demo_picture.py

The demo runs as on a terminal; a frame is drawn at each call of the agent. The picture needs no
script: its frames follow each other by style alone, and a reader who asks for less motion sees the
last one.
"""

from __future__ import annotations

import io
import os
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.segment import Segment
from rich.terminal_theme import SVG_EXPORT_THEME as THEME

from holdfast.surfaces.cli.demo import demo
from holdfast.surfaces.cli.demo.recording import load
from holdfast.surfaces.cli.demo.replay import Replay, Scenario, new_scene
from holdfast.surfaces.cli.demo.view import LiveView

if TYPE_CHECKING:
    from rich.style import Style

    from holdfast.surfaces.cli.demo.replay import Scene

PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "demo.svg"
COLUMNS, ROWS = 100, 30
CELL, LINE, PAD = 8.4, 18, 14
FRAMES: Final = 30
SECONDS: Final = 36


class Frames(LiveView):
    """Keeps what a terminal would show, once for each call."""

    def __init__(self, scene: Scene) -> None:
        console = Console(
            file=io.StringIO(), width=COLUMNS, height=ROWS, force_terminal=True, color_system="256"
        )
        super().__init__(scene, console)
        self.frames: list[list[str]] = []
        self._seen = (-1, 0)

    def __enter__(self) -> Frames:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, scene: Scene) -> None:
        self._scene = scene
        seen = (scene.calls, len(scene.happenings))
        if seen != self._seen:
            self._seen = seen
            self.frames.append(self.draw())

    def draw(self) -> list[str]:
        """Return the lines of the terminal as text elements."""
        lines = self._console.render_lines(self.picture(), pad=False)
        return [_line(number, line) for number, line in enumerate(lines[:ROWS])]


def _line(number: int, segments: list[Segment]) -> str:
    spans, column = [], 0
    for segment in Segment.simplify(segments):
        text = segment.text.rstrip("\n")
        if text.strip():
            words = escape(text.replace(" ", "\u00a0"), quote=False)
            spans.append(
                f'<tspan x="{PAD + column * CELL:.1f}"{_look(segment.style)}>{words}</tspan>'
            )
        column += segment.cell_length
    return f'<text y="{PAD + 14 + number * LINE}">{"".join(spans)}</text>' if spans else ""


def _look(style: Style | None) -> str:
    if style is None:
        return ""
    fill = f' fill="{style.color.get_truecolor(THEME).hex}"' if style.color else ""
    weight = ' font-weight="bold"' if style.bold else ""
    return fill + weight + (' opacity=".75"' if style.dim else "")


def draw(frames: list[list[str]]) -> str:
    """Return the picture: a line that several frames share is written once, for as long."""
    width, height = PAD * 2 + COLUMNS * CELL, PAD * 2 + ROWS * LINE
    step = 100 / len(frames)
    styles, shown = [], []
    for number, frame in enumerate(frames):
        start, end = number * step, (number + 1) * step
        hidden = "" if number == 0 else f"0%,{start - 0.001:.3f}%{{opacity:0}}"
        after = "" if number == len(frames) - 1 else f"{end:.3f}%,100%{{opacity:0}}"
        styles.append(
            f"@keyframes f{number}{{{hidden}{start:.3f}%,{end - 0.001:.3f}%{{opacity:1}}{after}}}"
            f".f{number}{{animation:f{number} {SECONDS}s step-end infinite}}"
        )
        shown.append(f'<g class="f f{number}">{"".join(frame)}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        f'aria-label="holdfast demo in a terminal: an agent outgrows its window, is refused, is '
        f'killed, and loses nothing">\n'
        f"<style>text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#e8eaec;"
        f"white-space:pre}}.f{{opacity:0}}{''.join(styles)}"
        f"@media(prefers-reduced-motion:reduce){{.f{{animation:none!important}}"
        f".f{len(frames) - 1}{{opacity:1}}}}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#16191d"/>\n'
        + "\n".join(shown)
        + "\n</svg>\n"
    )


def choose(frames: list[list[str]]) -> list[list[str]]:
    """Return so many frames that a person can follow, the last one three times."""
    places = [round(number * (len(frames) - 1) / (FRAMES - 1)) for number in range(FRAMES)]
    return [frames[place] for place in dict.fromkeys(places)] + [frames[-1]] * 3


def main() -> None:
    recording = load()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(root=folder, journal=os.path.join(folder, "tools.txt"))
        view = Frames(new_scene(scenario))
        scene, _crash = demo._until_killed(scenario, recording, view)
        Replay(scenario, scene, view.show).run()
    PICTURE.write_text(draw(choose(view.frames)), "utf-8")
    print(f"{PICTURE.name}: {len(view.frames)} frames seen, {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

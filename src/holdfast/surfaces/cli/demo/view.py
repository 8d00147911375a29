"""Views of the demo: a live picture on a terminal with `rich`, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.core.text.cut import cut, ellipsis
from holdfast.surfaces.cli.terminal import Output
from holdfast.surfaces.formatting import bar, count, money

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.console import Console

    from holdfast.surfaces.cli.demo.replay import DemoRequest, Happening, Scene, ToolLine

_PARTS: Final = (
    ("fixed", "grey62"),
    ("summary", "magenta"),
    ("user", "green"),
    ("agent", "cyan"),
    ("results", "dark_orange"),
)
_MOODS: Final = {
    "good": "bold green",
    "bad": "bold red",
    "cut": "magenta",
    "note": "cyan",
    "plain": "dim",
}
_SIGNS: Final = {"good": "✔", "bad": "✘", "cut": "✂", "note": "•", "plain": "·"}
_HEAD_CHARS: Final = 10
_FIXED_LINES: Final = 12
"""Lines that are always shown; tools and happenings share the rest."""
_WIDTH_MIN: Final = 72
_HEIGHT_MIN: Final = 20
"""A smaller terminal gets plain lines."""


class DemoView(Protocol):
    """Shows the state of the demo as it changes."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, scene: Scene) -> None:
        """Show the scene after a change."""


def view_for(scene: Scene, *, is_json: bool) -> DemoView:
    if is_json:
        return SilentView()
    console = _console() if sys.stdout.isatty() else None
    if console is None or console.width < _WIDTH_MIN or console.height < _HEIGHT_MIN:
        return LineView(scene)
    return LiveView(scene, console)


def _console() -> Console | None:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console()


class SilentView:
    """Shows nothing; programs read the report."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, scene: Scene) -> None: ...


class LineView:
    """Prints a line for each turn, each call and each happening."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._turn = self._shown = 0
        self._ended: set[str] = set()

    def __enter__(self) -> Self:
        scene = self._scene
        _line(f"{scene.title}, replayed in a configured window of {scene.stated:,} tokens.")
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, scene: Scene) -> None:
        self._scene = scene
        if scene.turn != self._turn:
            self._news()
            _line(f"\nturn {scene.turn}/{scene.turns}  {_short(scene.words, 84)}")
            self._turn = scene.turn
        for tool in scene.tools:
            calling = scene.calling
            if tool.chars is not None and tool.call not in self._ended and calling is not None:
                fill = bar(calling.tokens / calling.limit, 20)
                size = f"{calling.tokens:>7,} of {calling.limit:,}"
                _line(f"  {calling.call:>3}  {fill:<20} {size}  {_tool_text(tool, 36)}")
                self._ended.add(tool.call)
        self._news()

    def _news(self) -> None:
        for each in self._scene.happenings[self._shown :]:
            _line(f"       {_SIGNS[each.mood]} {each.head:<{_HEAD_CHARS}} {each.text}")
        self._shown = len(self._scene.happenings)


def _line(text: str) -> None:
    Output(is_json=False).line(text)
    sys.stdout.flush()


def _tool_text(line: ToolLine, width: int) -> str:
    what = _short(f"{line.tool} {line.what}", width)
    if line.is_killed:
        return f"{what}  killed"
    if line.chars is None:
        return f"{what}  …"
    return f"{what}  {'error, ' if line.is_error else ''}{line.chars:,} chars"


def _short(text: str, width: int) -> str:
    return cut(" ".join(text.split()), max(1, width), keep="head", marker=ellipsis).text


class LiveView:
    """Draws the agent's work, the context window, and what the engine did."""

    def __init__(self, scene: Scene, console: Console) -> None:
        from rich.live import Live

        self._scene = scene
        self._console = console
        self._live = Live(console=self._console, auto_refresh=True, refresh_per_second=12)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.update(self.picture(), refresh=True)
        self._live.__exit__(kind, error, trace)

    def show(self, scene: Scene) -> None:
        self._scene = scene
        self._live.update(self.picture())

    def picture(self) -> Any:
        """Return the picture of the current state."""
        from rich.console import Group

        width = min(self._console.width, 120)
        free = max(6, min(self._console.height, 40) - _FIXED_LINES)
        happenings = max(3, free * 6 // 10)
        return Group(
            self._rule("holdfast demo", self._scene.title, width),
            self._figures(),
            self._user(width),
            *self._tools(free - happenings, width),
            self._rule("context", "what the model is sent", width),
            *self._meter(width),
            self._rule("what happened", "Holdfast did this by itself", width),
            *self._happenings(happenings, width),
        )

    def _rule(self, name: str, text: str, width: int) -> Any:
        from rich.text import Text

        words = f" · {_short(text, width - len(name) - 10)} "
        line = Text.assemble(("── ", "dim"), (name, "bold"), (words, "dim"))
        return line.append("─" * max(0, width - line.cell_len - 1), style="dim")

    def _figures(self) -> Any:
        from rich.text import Text

        scene = self._scene
        facts = [
            f"turn {scene.turn}/{scene.turns}",
            f"call {scene.calling.call if scene.calling else 0}",
            f"{len(scene.tools)} tools",
            count(len(scene.compactions), "compaction"),
            f"{scene.cache_share:.0%} cached",
            money(scene.cost),
        ]
        return Text("   ".join(facts), style="bold", no_wrap=True, overflow="crop")

    def _user(self, width: int) -> Any:
        from rich.text import Text

        return Text.assemble(("user  ", "bold green"), _short(self._scene.words, width - 8))

    def _tools(self, rows: int, width: int) -> list[Any]:
        from rich.text import Text

        agent = Text.assemble(("agent ", "bold cyan"), _short(self._scene.said, width - 8))
        lines = self._scene.tools[-rows:]
        shown = [self._tool(line, width) for line in lines]
        return [agent, *shown, *[Text("")] * (rows - len(shown))]

    def _tool(self, line: ToolLine, width: int) -> Any:
        from rich.text import Text

        what = f"{_short(line.what, width - 44):<{width - 44}}"
        if line.is_killed:
            end = ("  SIGKILL", "bold red")
        elif line.chars is None:
            end = ("  running", "yellow")
        elif line.is_error:
            end = (f"  error {line.chars:>8,} chars", "bold red")
        else:
            end = (f"{line.chars:>16,} chars", "dim")
        return Text.assemble(("  → ", "dim"), (f"{line.tool:<15}", "cyan"), what, end)

    def _meter(self, width: int) -> list[Any]:
        from rich.text import Text

        calling, scene = self._scene.calling, self._scene
        if calling is None:
            return [Text("")] * 3
        room = width - 32
        filled = Text("sent      ", style="bold")
        used, tokens = 0, 0
        for name, colour in _PARTS:
            tokens += calling.parts.get(name, 0)
            cells = round(room * min(1.0, tokens / calling.limit)) - used
            filled.append("█" * cells, style=colour)
            used += cells
        filled.append("░" * (room - used), style="dim")
        tone = "bold red" if calling.tokens > scene.real else "bold"
        filled.append(f" {calling.tokens:>7,} of {calling.limit:,}", style=tone)
        legend = Text(" " * 10)
        for name, colour in _PARTS:
            legend.append("■ ", style=colour)
            legend.append(f"{name} {calling.parts.get(name, 0):,}  ", style="dim")
        legend.rstrip()
        legend.truncate(width, overflow="ellipsis")
        return [filled, legend, self._whole(room, calling)]

    def _whole(self, room: int, calling: DemoRequest) -> Any:
        from rich.text import Text

        over = self._scene.overflow_call
        cells = round(room * min(1.0, calling.whole / calling.limit))
        words = "whole history" if over is None else f"over since {over}"
        return Text.assemble(
            ("without   ", "dim"),
            ("▒" * cells, "grey50" if over is None else "red"),
            " " * (room - cells),
            (f" {calling.whole:>7,} {words}", "dim" if over is None else "red"),
        )

    def _happenings(self, rows: int, width: int) -> list[Any]:
        from rich.text import Text

        shown = [self._happening(each, width) for each in self._scene.happenings[-rows:]]
        return [*shown, *[Text("")] * (rows - len(shown))]

    def _happening(self, happening: Happening, width: int) -> Any:
        from rich.text import Text

        head = f"{_SIGNS[happening.mood]} {happening.head:<{_HEAD_CHARS}} "
        words = _short(happening.text, width - _HEAD_CHARS - 8)
        return Text.assemble(
            (f"{happening.call:>3} ", "dim"), (head, _MOODS[happening.mood]), words
        )

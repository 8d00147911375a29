"""Views of the demo: a live picture on a terminal with `rich`, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.core.text.cut import cut, ellipsis
from holdfast.surfaces.cli.terminal import Output
from holdfast.surfaces.formatting import bar, count

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.console import Console

    from holdfast.surfaces.cli.demo.scene import DemoRequest, Happening, Scene, ToolLine

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

        line = Text("── ", style="dim")
        line.append(name, style="bold")
        line.append(f" · {_short(text, width - len(name) - 10)} ", style="dim")
        line.append("─" * max(0, width - line.cell_len - 1), style="dim")
        return line

    def _figures(self) -> Any:
        from rich.text import Text

        scene = self._scene
        facts = [
            f"turn {scene.turn}/{scene.turns}",
            f"call {scene.calling.call if scene.calling else 0}",
            f"{len(scene.tools)} tools",
            count(len(scene.compactions), "compaction"),
            f"{scene.cache_share:.0%} cached",
            f"${scene.cost:.2f}",
        ]
        return Text("   ".join(facts), style="bold", no_wrap=True, overflow="crop")

    def _user(self, width: int) -> Any:
        from rich.text import Text

        line = Text("user  ", style="bold green")
        line.append(_short(self._scene.words, width - 8), style="default")
        return line

    def _tools(self, rows: int, width: int) -> list[Any]:
        from rich.text import Text

        agent = Text("agent ", style="bold cyan")
        agent.append(_short(self._scene.said, width - 8), style="default")
        lines = self._scene.tools[-rows:]
        shown = [self._tool(line, width) for line in lines]
        return [agent, *shown, *[Text("")] * (rows - len(shown))]

    def _tool(self, line: ToolLine, width: int) -> Any:
        from rich.text import Text

        style = "bold red" if line.is_killed or line.is_error else "default"
        shown = Text("  → ", style="dim")
        shown.append(f"{line.tool:<15}", style="cyan")
        shown.append(f"{_short(line.what, width - 44):<{width - 44}}", style="default")
        if line.is_killed:
            shown.append("  SIGKILL", style=style)
        elif line.chars is None:
            shown.append("  running", style="yellow")
        elif line.is_error:
            shown.append(f"  error {line.chars:>8,} chars", style=style)
        else:
            shown.append(f"{line.chars:>16,} chars", style="dim")
        return shown

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

        scene = self._scene
        line = Text("without   ", style="dim")
        cells = round(room * min(1.0, calling.whole / calling.limit))
        is_over = scene.overflow_call is not None
        line.append("▒" * cells, style="red" if is_over else "grey50")
        line.append(" " * (room - cells))
        words = f" {calling.whole:>7,}"
        words += f" over since {scene.overflow_call}" if is_over else " whole history"
        line.append(words, style="red" if is_over else "dim")
        return line

    def _happenings(self, rows: int, width: int) -> list[Any]:
        from rich.text import Text

        shown = [self._happening(each, width) for each in self._scene.happenings[-rows:]]
        return [*shown, *[Text("")] * (rows - len(shown))]

    def _happening(self, happening: Happening, width: int) -> Any:
        from rich.text import Text

        head = f"{_SIGNS[happening.mood]} {happening.head:<{_HEAD_CHARS}} "
        line = Text(f"{happening.call:>3} ", style="dim")
        line.append(head, style=_MOODS[happening.mood])
        line.append(_short(happening.text, width - _HEAD_CHARS - 8), style="default")
        return line

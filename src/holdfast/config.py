"""Settings, read once at the edge. The only reader of the environment.

| variable         | meaning                                        | default     |
|------------------|------------------------------------------------|-------------|
| `HOLDFAST_ROOT`  | the folder that holds sessions, blobs and index | `.sessions` |
| `HOLDFAST_AGENT` | the agent that new sessions belong to          | `main`      |
| `HOLDFAST_MODEL` | the model that `holdfast chat` talks to        | `offline`   |
| `NO_COLOR`       | no colours in the terminal, whatever its value | unset       |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from holdfast.core.ids import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT_DEFAULT = ".sessions"
AGENT_DEFAULT = "main"
MODEL_DEFAULT = "offline"
"""It needs no key and no network."""


@dataclass(frozen=True, slots=True)
class Settings:
    root: str = ROOT_DEFAULT
    agent: str = AGENT_DEFAULT
    model: str = MODEL_DEFAULT

    def __post_init__(self) -> None:
        check_name("agent", self.agent)


def load(
    *,
    root: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """The settings: what the caller says, else the environment, else the defaults."""
    return Settings(
        root=root or environ.get("HOLDFAST_ROOT") or ROOT_DEFAULT,
        agent=agent or environ.get("HOLDFAST_AGENT") or AGENT_DEFAULT,
        model=model or environ.get("HOLDFAST_MODEL") or MODEL_DEFAULT,
    )


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour what is written there. `NO_COLOR` and a dumb terminal say no."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"

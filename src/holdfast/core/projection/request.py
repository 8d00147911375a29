"""The input of a projection, as one value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.outputs.offload import CONTEXT_TOOL
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.units import LAST_CUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.window import Window

Pressure = Literal["usual", "hold", "cut", "over"]
"""`usual`: decide by the policy. `hold`: leave the view alone as long as it fits. `cut`: cut now,
however much room there is. `over`: the same, because the provider counted more than the window."""


class ProjectionRequest(msgspec.Struct, frozen=True):
    """Everything that a projection depends on."""

    records: Sequence[Record]
    """The path to the head, oldest first."""
    window: Window
    """The model's context window."""
    target: Target
    """The dialect, provider and model that the request is for."""
    system: str = ""
    """The system prompt."""
    tools: Sequence[Tool] = ()
    """The tools that the model may call."""
    output_tokens: int | None = None
    """Tokens to reserve for the reply; None for a share of the window."""
    policy: Policy = Policy()
    """The thresholds."""
    prompt_cache: PromptCache = PromptCache()
    """The state of the provider's prompt cache: a cold one is a good moment to cut."""
    floor: int = WINDOW_FLOOR_TOKENS
    """The smallest window to accept."""
    at_most: int | None = None
    """Upper bound for the whole request in tokens, where a larger one was refused."""
    pressure: Pressure = "usual"
    """Decide by the policy, leave the view alone, or cut it now."""
    prose: str = ""
    """A model's summary of the records that are cut; it stands before the carry-over."""
    pending: Sequence[str] = ()
    """Open tasks, for the carry-over."""
    has_stored_ids: bool = True
    """The records have the ids that the session has in its store."""
    client_way_back: str = ""
    """Words that tell a model without the tool `context` how to read what was cut."""

    @property
    def way_back(self) -> str:
        """The words that tell the model how to read what was cut; empty where it cannot."""
        found = next((tool.name for tool in self.tools if _is_context_tool(tool)), "")
        if not found:
            return self.client_way_back
        if not self.has_stored_ids:
            return f"the tool `{found}` has it, with search."
        return f'the tool `{found}` has it, ref="..{LAST_CUT}" with lines or search.'


def _is_context_tool(tool: Tool) -> bool:
    """Return whether a tool is ours, by its shape: a client may give it another name, and others
    have tools of its name."""
    given = tool.parameters.get("properties")
    return (
        tool.name.endswith(CONTEXT_TOOL)
        and isinstance(given, dict)
        and {"ref", "lines", "search"} <= given.keys()
    )

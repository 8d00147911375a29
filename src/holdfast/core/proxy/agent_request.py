"""A client's request to an agent: the agent that it names, and what of it an agent can do.

What a client asks for is done, or refused with the reason: an answer of another kind than the one
that was asked for helps no one. Fields that only tune a model are the agent's own settings; which
of them were left out is said in a header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.proxy.endpoints import ProxyProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.dialects.common.speaking import AgentApi
    from holdfast.core.log.records import Json

AGENT_PREFIX: Final = "holdfast/"
"""The beginning of a model name that means an agent."""
_SHOWN_CHARS: Final = 100
"""Of a name in an error."""


def find_agent(model: str, agents: Sequence[str]) -> str:
    """Return the agent that a model's name means; empty where it means none. Raises
    `ProxyProblem` for an agent that is not there."""
    if not model.startswith(AGENT_PREFIX):
        return ""
    name = model.removeprefix(AGENT_PREFIX)
    if name not in agents:
        known = ", ".join(f"`{AGENT_PREFIX}{each}`" for each in agents)
        raise ProxyProblem(
            404,
            f"there is no agent `{name[:_SHOWN_CHARS]}` here",
            f"ask for one of {known}, or name it in the settings as [agents.NAME]",
            code="model_not_found",
        )
    return name


def check_fields(body: Json, api: AgentApi) -> list[str]:
    """Return the fields of a body that the agent's own settings stand for. Raises `ProxyProblem`
    for one that asks for what an agent does not do."""
    asked = [name for name, value in body.items() if not _is_plain(name, value, api)]
    refused = [name for name in asked if name not in api.fields | api.tuning_fields]
    if refused:
        raise ProxyProblem(
            400,
            f"an agent does not take the field `{refused[0][:_SHOWN_CHARS]}`",
            "leave it out: an agent has its own instructions and tools, and answers in words; "
            "its settings are in [agents.NAME]",
            code="unknown_field",
        )
    return [name for name in asked if name in api.tuning_fields]


def _is_plain(name: str, value: Any, api: AgentApi) -> bool:
    """True where a field asks for nothing."""
    if name in api.plain_values and value == api.plain_values[name]:
        return True
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def find_last_message(atoms: Sequence[Atom]) -> int:
    """Return the place of the first atom of the message to answer. Raises `ProxyProblem` where a
    conversation does not end with one of the user, or has instructions in it."""
    if not atoms:
        raise ProxyProblem(
            400, "the request has no message", "send at least one", code="no_message"
        )
    kinds = {atom.kind for atom in atoms}
    if "system" in kinds:
        raise _instructions()
    if atoms[-1].kind != "user":
        raise ProxyProblem(
            400,
            "the last message is not the user's, so there is nothing for the agent to answer",
            "end the conversation with a message of the user",
            code="no_user_message",
        )
    place = len(atoms) - 1
    while place and atoms[place - 1].item == atoms[-1].item:
        place -= 1
    return place


def check_instructions(system: str) -> None:
    """Raise `ProxyProblem` where a client sends instructions of its own."""
    if system.strip():
        raise _instructions()


def _instructions() -> ProxyProblem:
    return ProxyProblem(
        400,
        "an agent has its own instructions, and does not take those of a client",
        "leave the system prompt out, or put it into the settings as `system` of [agents.NAME]",
        code="unknown_field",
    )


SEPARATOR: Final = "\n\n"
"""Between the texts of two calls of one turn."""


class SaidText:
    """The text of a turn as its client gets it: pieces as they come, and the rest at the end.

    A call that failed is made again, and its text comes again. What was sent cannot be taken back:
    what comes again is left out, and where it is another text, the whole stands behind it.
    """

    def __init__(self) -> None:
        self.sent = ""
        self._settled = ""
        """The text of the calls that have ended."""
        self._call = ""
        """The text of the call that runs."""

    def add(self, text: str) -> str:
        """Take a piece of the running call; returns what to send."""
        self._call += text
        return self._send(SEPARATOR.join(filter(None, (self._settled, self._call))))

    def settle(self) -> None:
        """The running call has ended, and another follows."""
        self._settled = SEPARATOR.join(filter(None, (self._settled, self._call)))
        self._call = ""

    def restart(self) -> None:
        """The running call failed, and is made again."""
        self._call = ""

    def finish(self, text: str) -> str:
        """Take the whole text from the log; returns what to send."""
        if text.startswith(self.sent):
            return self._send(text)
        rest = (SEPARATOR if self.sent else "") + text
        self.sent += rest
        return rest

    def _send(self, wanted: str) -> str:
        if not wanted.startswith(self.sent):
            return ""
        rest = wanted[len(self.sent) :]
        self.sent = wanted
        return rest

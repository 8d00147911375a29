"""The programs that can be a backend: their options, limits, and what tells their accounts."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.core.history.backends import BackendIdentity
from holdfast.errors import BadSetting
from holdfast.providers.command_line.claude_code import ClaudeReader, claude_arguments
from holdfast.providers.command_line.codex import CodexReader, codex_arguments, codex_ending
from holdfast.providers.command_line.output import OwnCommandReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.text.cut import Unit
    from holdfast.providers.command_line.output import CallPlan, ProgramReader

_ARGUMENT_BYTES: Final = 100_000
"""A longer system prompt is part of the prompt: Linux takes 131,072 bytes as one argument."""
_DIGEST_CHARS: Final = 16
"""Of a SHA-256: enough to notice a change, too few to tell anything about a key."""


def _none(_plan: CallPlan) -> list[str]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgram:
    """A program as a backend."""

    name: str
    reader: Callable[[], ProgramReader]
    arguments: Callable[[CallPlan], list[str]] = _none
    """The options before the caller's own."""
    ending: Callable[[CallPlan], list[str]] = _none
    """The arguments behind them."""
    prompt_max: int
    """The longest prompt on its standard input."""
    prompt_unit: Unit
    takes_system: bool = False
    """The system prompt is an option; else it is the beginning of a new session."""
    is_in_folder: bool = False
    """A session is found only from the folder that it was begun in."""
    model_options: tuple[str, ...] = ()
    account_variables: tuple[str, ...] = ()
    """Variables by which an account, a server or a model is chosen."""
    account_file: tuple[str, str, tuple[str, ...]] | None = None
    """The variable of the settings folder, the file that names the account, from that folder or
    the user's, and the keys that lead to the name."""


CLAUDE: Final = AgentProgram(
    name="claude",
    reader=ClaudeReader,
    arguments=claude_arguments,
    prompt_max=10_000_000,
    prompt_unit="bytes",
    takes_system=True,
    is_in_folder=True,
    model_options=("--model",),
    account_variables=(
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
        *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
        *("CLAUDE_CONFIG_DIR", "HOME"),
    ),
    account_file=("CLAUDE_CONFIG_DIR", ".claude.json", ("oauthAccount", "accountUuid")),
)
CODEX: Final = AgentProgram(
    name="codex",
    reader=CodexReader,
    arguments=codex_arguments,
    ending=codex_ending,
    prompt_max=1_048_576,
    prompt_unit="characters",
    model_options=("-m", "--model"),
    account_variables=("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME", "HOME"),
    account_file=("CODEX_HOME", ".codex/auth.json", ("tokens", "account_id")),
)
PROGRAMS: Final = {program.name: program for program in (CLAUDE, CODEX)}


def split_command(command: str | Sequence[str]) -> tuple[str, ...]:
    """A command and its options, from a list or as a shell would read them."""
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as error:
        raise BadSetting(
            f"the command `{command}` cannot be read: {error}", hint="close its quotes"
        ) from error
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise BadSetting(
            f"`cli:{command}` names no command",
            hint="say which one: `cli:claude`, `cli:codex`, or `cli:./my-agent`",
        )
    return words


def find_program(words: Sequence[str]) -> AgentProgram:
    """The program of a command, by the name of its file."""
    name = os.path.basename(words[0])
    return PROGRAMS.get(name) or AgentProgram(
        name=name,
        reader=lambda: OwnCommandReader(name),
        prompt_max=10_000_000,
        prompt_unit="bytes",
    )


def fits_argument(system: str) -> bool:
    """True if a system prompt can be an argument."""
    return len(system.encode()) <= _ARGUMENT_BYTES


def identity_of(
    program: AgentProgram,
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    system: str,
    folder: str,
    account: str,
) -> BackendIdentity:
    """Whom a session of this program is for. Keys and ids are there as one digest."""
    chosen = [f"{name}={environment.get(name, '')}" for name in program.account_variables]
    who = (account, *chosen, _account_in_file(program, environment))
    return BackendIdentity(
        command=program.name,
        account=digest("\n".join(who)),
        model=_model_in(words, program),
        system=digest(system) if system else "",
        folder=digest(folder) if program.is_in_folder else "",
    )


def digest(text: str) -> str:
    """A short name for a text."""
    found = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return found[:_DIGEST_CHARS]


def _model_in(words: Sequence[str], program: AgentProgram) -> str:
    """The model among the caller's options."""
    for option in program.model_options:
        for at, word in enumerate(words):
            if word == option and at + 1 < len(words):
                return words[at + 1]
            if word.startswith(f"{option}="):
                return word.partition("=")[2]
    return ""


def _account_in_file(program: AgentProgram, environment: Mapping[str, str]) -> str:
    """The account that the program is logged in with, as far as its settings name it."""
    if program.account_file is None:
        return ""
    variable, name, keys = program.account_file
    home = environment.get(variable, "")
    path = os.path.join(home, os.path.basename(name)) if home else ""
    path = path or os.path.join(environment.get("HOME") or os.path.expanduser("~"), name)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return ""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""

"""Commands that tool calls run, what came of them, and when two of them are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.extract.touched_files import find_touches
from holdfast.core.log.records import text_of
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.log.records import Json, ToolResult

_KEYS: Final = ("command", "cmd", "script", "commands", "code")
_SHELLS: Final = lazy_pattern(
    r"(?i)bash|shell|(?<![a-z])(?:sh|zsh|cmd|run|exec)(?![a-z])|execute|terminal|powershell|ipython"
)
_CODES: Final = ("exit_code", "exitCode", "exitcode", "returncode", "return_code", "returnCode")
_TOLD: Final = lazy_pattern(
    r"(?im)^(?:[^\S\n]|[\[(])*+(?:(?:command|process|script|shell|program)\s+)?"
    r"(?:exit(?:ed)?[ _-]?(?:with[ _])?(?:code|status)?|return ?code)[^\w-]{0,4}(-?\d{1,9})\W*$"
    r"|\"(?:exit_?code|return_?code)\"\s*:\s*(-?\d{1,9})|<returncode>\s*(-?\d{1,9})\s*<"
)
"""A line that says nothing else, a field, or a tag: a script that is printed has such words too."""
_EDGE_CHARS: Final = 400
"""Characters at the beginning and end of a result that may state how a command ended."""
_BEFORE: Final = lazy_pattern(
    r"\A(?:\s*(?:cd\s+\S+|set\s+-\w+|source\s+\S+|export\s+\w+=\S*|\w+=\S*)\s*(?:&&|;))+"
)
_PREFIX: Final = lazy_pattern(r"\A(?:(?:\w+=\S*|timeout(?:\s+-\S+)*\s+\S+|time|sudo|nice|env)\s+)+")
_PIPE: Final = lazy_pattern(r"(?<!\|)\|(?!\|)")
_SHOWING: Final = frozenset(("head", "tail", "grep", "less", "cat", "tee", "sort", "wc", "cut"))
"""Filters that only show a command's output; they do not make another command."""
_REDIRECTION: Final = lazy_pattern(r"[\d&]?>{1,2}(\S*)")
_OPTION: Final = lazy_pattern(r"-{1,2}\w[\w-]*(?:=\S*)?")
_PART: Final = lazy_pattern(r"&&|\|\|?|;|\n")
_IN_QUOTES: Final = lazy_pattern(r"'[^']*+'|\"[^\"]*+\"")
_WRITING: Final = lazy_pattern(r"<<|>(?!\s*(?:/dev/null|&\d))")
_LOOKS: Final = frozenset(
    (
        *("ls", "cat", "head", "tail", "grep", "egrep", "rg", "ag", "find", "fd", "wc", "pwd"),
        *("which", "type", "echo", "tree", "stat", "file", "diff", "less", "more", "sort", "uniq"),
        *("cut", "awk", "jq", "nl", "env", "printenv", "whoami", "date", "du", "df", "ps", "cd"),
        *("sleep", "true", "test", "readlink", "realpath", "basename", "dirname", "xargs", "tr"),
    )
)
_GIT_LOOKS: Final = frozenset(
    ("status", "diff", "log", "show", "branch", "blame", "ls-files", "rev-parse", "remote", "grep")
)
_LOOK_CHARS: Final = 2_000
"""A longer command is a script."""


def command_in(tool: str, arguments: Json) -> str:
    """The command that a call runs; empty where it runs none."""
    value = next((arguments[key] for key in _KEYS if arguments.get(key)), None)
    command = _join_arguments(value)
    if not command or _SHELLS.search(tool[:200]):
        return command
    return "" if find_touches(tool, arguments) or _is_code(arguments) else command


def exit_code(result: ToolResult) -> int | None:
    """Return the exit code that a result states."""
    found = _code_in(result.details)
    if found is not None:
        return found
    text = text_of(result.content)
    edges = (text,) if len(text) <= _EDGE_CHARS else (text[:_EDGE_CHARS], text[-_EDGE_CHARS:])
    for part in edges:
        low = part.lower()
        if ("exit" in low or "return" in low) and (match := _TOLD.search(part)):
            return int(next(filter(None, match.groups())))
    return None


def has_failed(result: ToolResult) -> bool:
    """Return whether a result says by its fields or its exit code that the call failed."""
    return result.is_error or bool(exit_code(result))


def is_look(command: str) -> bool:
    """Return whether a command only shows something: `git status`, `cat a | head`."""
    if len(command) > _LOOK_CHARS:
        return False
    bare = _IN_QUOTES.sub("''", command)
    if _WRITING.search(bare):
        return False
    return all(_is_look(part.split()) for part in _PART.split(bare) if part.strip())


def _is_look(words: list[str]) -> bool:
    while len(words) > 1 and (words[0] in ("sudo", "time") or "=" in words[0]):
        words = words[1:]
    if words[0] == "git":
        if words[1:2] in (["-C"], ["-c"]):
            words = words[2:]
        return next((word for word in words[1:] if word[0] != "-"), "") in _GIT_LOOKS
    if words[0] == "sed":
        return "-n" in words and "-i" not in words
    if words[0] == "find":
        return not {"-delete", "-exec", "-execdir", "-ok"}.intersection(words)
    return words[0] in _LOOKS


def same_command(command: str) -> str:
    """Return the key shared by commands that differ only in options, pipes and folders."""
    if len(command) > _LOOK_CHARS:
        return command
    words: list[str] = []
    is_target = False
    for word in _PREFIX.sub("", without_filters(without_setup(command))).split():
        redirected = _REDIRECTION.fullmatch(word) if ">" in word else None
        is_option = word[0] == "-" and _OPTION.fullmatch(word) is not None
        if not (is_target or redirected or is_option):
            words.append(word)
        is_target = redirected is not None and not redirected[1]
    return " ".join(words) or command.strip()


def without_filters(command: str) -> str:
    """A command without the filters at its end that only show its output: `| tail -20`."""
    stages = _PIPE.split(command)
    while len(stages) > 1 and _first_word(stages[-1]) in _SHOWING:
        stages.pop()
    return "|".join(stages).strip().removesuffix("2>&1").strip()


def _first_word(stage: str) -> str:
    return next(iter(stage.split()), "")


def without_setup(command: str) -> str:
    """A command without the folders it goes to and the variables it sets first."""
    bare = command.strip().lstrip("\\").strip()
    return _BEFORE.sub("", bare).strip() or command.strip()


def _join_arguments(value: Any) -> str:
    match value:
        case str():
            return value.strip()
        case [str(), str() as flag, str() as script] if flag.startswith("-") and "c" in flag:
            return script.strip()
        case list() if value and all(isinstance(word, str) for word in value):
            return " ".join(value).strip()
        case _:
            return ""


def _is_code(arguments: Json) -> bool:
    return not any(arguments.get(key) for key in _KEYS[:-1])


def _code_in(details: Any) -> int | None:
    if not isinstance(details, dict):
        return None
    for key in _CODES:
        code = details.get(key)
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    inner = details.get("metadata")
    return _code_in(inner) if isinstance(inner, dict) and inner is not details else None

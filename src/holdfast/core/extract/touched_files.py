"""Which files a tool call touches, by what its arguments look like and not by which tool it is.

Only what a call says outright is believed: a path as the whole of an argument, or the file headers
of a patch. Commands for a shell are not taken apart, and a call counts once its result says that it
did not fail; both would be guesses.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json

PATH_CHARS: Final = 400
"""A longer text is no path."""

_WORD: Final = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CHANGING: Final = frozenset(
    (
        *("write", "edit", "create", "patch", "move", "rename", "delete", "remove", "append"),
        *("insert", "replace", "update", "save", "put", "touch", "copy", "modify", "overwrite"),
        *("mv", "cp", "rm", "unlink", "truncate", "upload", "apply", "undo", "multiedit"),
        *("writefile", "editfile", "createfile", "deletefile", "movefile"),
    )
)
_READING: Final = frozenset(
    (
        *("read", "view", "get", "list", "ls", "show", "open", "cat", "head", "tail", "stat"),
        *("check", "describe", "preview", "diff", "grep", "glob", "readfile", "listfiles"),
    )
)
"""As the first word of a name they win: `get_last_edit` changes nothing."""
_COPYING: Final = frozenset({"copy", "cp"})
_SEARCHING: Final = frozenset({"grep", "glob", "ls", "list", "find", "search", "tree", "walk"})
"""Their path is where they look, mostly a folder."""
_ACTIONS: Final = ("command", "action", "operation", "op", "mode")
"""Arguments that select the action of a tool."""
_NEW_TEXT: Final = frozenset(
    (
        *("content", "contents", "file_text", "filetext", "new_string", "newstring", "new_str"),
        *("newstr", "new_text", "newtext", "new_source", "replacement", "edits"),
    )
)
"""A call that brings a text for a file changes it, whatever it is called."""
_CONTENTS: Final = ("content", "contents", "file_text", "fileText", "text")
_PARTIAL: Final = lazy_pattern(r"(?i)edit|append|insert|replace|patch|update|multi|comment|note")
_DELETING: Final = lazy_pattern(r"(?i)delete|remove|unlink|(?<![a-z])rm(?![a-z])")
_PATH_KEYS: Final = frozenset(
    (
        *("path", "paths", "file", "files", "filename", "filenames", "filepath", "filepaths"),
        *("notebook", "source", "src", "destination", "dest", "dst", "target", "from", "to"),
        *("input", "output", "location", "document", "uri"),
    )
)
_STRONG_KEYS: Final = frozenset(
    ("path", "paths", "file", "files", "filename", "filenames", "filepath", "filepaths")
)
"""Arguments whose value is a path even without a slash or an extension: `Makefile`."""
_NEW_PLACES: Final = frozenset({"destination", "dest", "dst", "target", "to", "new", "output"})
_NO_FILES: Final = frozenset(
    (
        *("dir", "dirs", "directory", "folder", "cwd", "workdir", "root", "url", "urls", "pattern"),
        *("glob", "regex", "query", "prompt", "text", "content", "contents", "description"),
        *("command", "cmd", "script", "code", "message", "title", "exclude", "include", "ignore"),
        *("string", "str", "lines", "replacement", "value", "type", "language", "encoding"),
    )
)
_ENDING: Final = lazy_pattern(r"[^/\\]\.[A-Za-z][\w~+-]{0,11}$")
_UNLIKELY: Final = lazy_pattern(r"[*?<>|\"'`$;{}\n]|://|\s{2}|^[-#(]|[/\\]$")
_PATCHED: Final = lazy_pattern(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (?P<named>.+)$"
    r"|^--- (?:a/)?(?P<old>[^\t\n]+)(?:\t.*)?\n\+\+\+ (?:b/)?(?P<new>[^\t\n]+)",
    re.MULTILINE,
)
"""The headers of a patch. A removed line may look like half of one, so both halves are wanted."""
_PATCH_BEGINS: Final = lazy_pattern(
    r"^(?:\*\*\* Begin Patch|diff --git |--- \S.*\n\+\+\+ \S)", re.MULTILINE
)
_QUOTED_TEXT: Final = frozenset(
    ("content", "contents", "text", "string", "str", "source", "message", "prompt", "description")
)
"""A patch in there is what someone writes about, not what is applied."""


class Touch(msgspec.Struct, frozen=True, gc=False):
    """A file that a call reads or changes."""

    path: str
    is_change: bool


def find_touches(tool: str, arguments: Json) -> tuple[Touch, ...]:
    """The files a call names, each once; one that it changes is not also read."""
    action = _action(tool, arguments)
    changes = _changes(action, arguments)
    copies, searches = bool(_COPYING.intersection(action)), bool(_SEARCHING.intersection(action))
    found: dict[str, bool] = {}
    for keys, value in _texts(arguments, ()):
        if not _QUOTED_TEXT.intersection(keys) and _is_patch(value):
            found.update(dict.fromkeys(_patch_paths(value), True))
        elif (path := _path(keys, value)) and not (searches and not _ENDING.search(path)):
            is_change = changes and (not copies or bool(_NEW_PLACES.intersection(keys)))
            found[path] = found.get(path, False) or is_change
    return tuple(Touch(path, is_change) for path, is_change in found.items())


def _is_patch(text: str) -> bool:
    # Texts of files are long, and hardly any of them has the signs of a patch.
    has_signs = "--- " in text or "*** " in text or "diff " in text
    return has_signs and _PATCH_BEGINS.search(text) is not None


def deletes_files(tool: str) -> bool:
    """Return whether a tool deletes, by its name."""
    return _DELETING.search(tool) is not None


def whole_content(tool: str, arguments: Json) -> str | None:
    """Return the text of a call that writes a file whole; None if it writes a part, or nothing."""
    if _PARTIAL.search(tool) and arguments.get("command") != "create":
        return None
    texts = (arguments.get(key) for key in _CONTENTS)
    return next((text for text in texts if isinstance(text, str)), None)


def _action(tool: str, arguments: Json) -> tuple[str, ...]:
    """The words that say what is done: an argument that names it, else the tool's name."""
    for key in _ACTIONS:
        words = _words(arguments.get(key))
        if 0 < len(words) <= 3 and (words[0] in _READING or _CHANGING.intersection(words)):
            return words
    return _words(tool)


def _changes(action: tuple[str, ...], arguments: Json) -> bool:
    if action and action[0] in _READING:
        return False
    keys = {str(key).lower() for key in arguments}
    return bool(_CHANGING.intersection(action) or _NEW_TEXT.intersection(keys))


def _words(name: object) -> tuple[str, ...]:
    """The words of `write_file`, `writeFile` and `fs.write`, in small letters."""
    return _words_of(name) if isinstance(name, str) and len(name) <= PATH_CHARS else ()


@lru_cache(maxsize=1_024)
def _words_of(name: str) -> tuple[str, ...]:
    """The same; tools and their arguments have few names."""
    return tuple(word.lower() for word in _WORD.findall(name))


def _texts(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each text in a call's arguments, with the words of the key that it stands under."""
    match value:
        case str():
            yield keys, value
        case dict():
            for key, inner in value.items():
                yield from _texts(inner, _words(key))
        case list():
            for inner in value:
                yield from _texts(inner, keys)


def _path(keys: tuple[str, ...], value: str) -> str:
    """The path that a text is, or an empty text."""
    path = value.strip().removeprefix("file://")
    if not path or len(path) > PATH_CHARS or not path.isprintable() or _UNLIKELY.search(path):
        return ""
    named = _PATH_KEYS.intersection(keys)
    if not named and _NO_FILES.intersection(keys):
        return ""
    if _NO_FILES.intersection(keys[-1:]) or path in (".", "..", "/", "~"):
        return ""
    if _STRONG_KEYS.intersection(keys):
        return path if _reads_as_one(path) else ""
    has_slash, has_ending = "/" in path or "\\" in path, bool(_ENDING.search(path))
    is_path = has_ending and (has_slash or bool(named)) and " " not in path
    return path if is_path or (named and path.startswith(("/", "./", "../", "~/"))) else ""


def _reads_as_one(path: str) -> bool:
    """Return whether it is a name rather than a sentence."""
    return path.count(" ") <= 3 and (" " not in path or bool(_ENDING.search(path)))


def _patch_paths(patch: str) -> Iterator[str]:
    for match in _PATCHED.finditer(patch):
        for path in filter(None, match.groups()):
            path = path.strip()
            if path != "/dev/null" and len(path) <= PATH_CHARS and path.isprintable():
                yield path

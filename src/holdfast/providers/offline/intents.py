"""Which tools a plain request names, and with which arguments: rules, and no guessing.

`read README.md`, `list the files in src`, `search for X in Y`, `what time is it`, and the explicit
forms `name(argument=value)` and `name argument=value`. A request that fits several tools, or lacks
an argument, is asked about instead of carried out.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.providers.offline.quoting import stem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Tool

CALLS_MAX: Final = 8
"""In one reply."""


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class Wanted(msgspec.Struct, frozen=True):
    """What a message asks of the tools."""

    calls: tuple[Call, ...] = ()
    doubts: tuple[str, ...] = ()
    """What has to be asked first, each a sentence."""
    rest: str = ""
    """What is left of the message: no request for a tool."""


_VERBS: Final = (
    ("read", "show", "open", "cat", "print", "display", "view", "load"),
    ("list", "ls", "enumerate", "dir"),
    ("search", "find", "grep", "lookup", "look", "locate"),
    ("write", "save", "create", "put", "store"),
    ("edit", "replace", "change", "modify", "patch", "update"),
    ("run", "execute", "bash", "shell", "exec"),
    ("fetch", "download", "get", "curl"),
    ("count", "tally"),
    ("delete", "remove", "rm"),
    ("add", "sum"),
)
"""Words that ask for the same kind of tool."""
_ANSWERS: Final = frozenset(("tell", "explain", "say", "answer", "summarise", "summarize", "quote"))
"""Words that ask for an answer, not for a tool."""
_GENERIC: Final = frozenset(("file", "files", "data", "text", "info", "name", "item", "items"))
"""Words in a tool's name that say nothing of what it is about."""
_SAME: Final = {word: group for group in _VERBS for word in group}
_READS: Final = lazy_pattern(
    r"(?:what(?:'s| is)|whats) (?:in|inside)\b|(?:the )?contents? of\b", re.I
)
_POLITE: Final = lazy_pattern(
    r"(?:(?:please|now|then|next|first|finally|and|also|ok(?:ay)?|so|hey|hi|just|kindly|"
    r"could you|can you|would you|will you|i want you to|i'd like you to|let's|lets|"
    r"go ahead and|use|call|the tool|tool|invoke)\b[,:]?\s*)+",
    re.IGNORECASE,
)
_TOLD: Final = lazy_pattern(
    r"\b(?:did|was|were|said|had|why|ago|earlier|before|last time)\b", re.IGNORECASE
)
_ASKS: Final = lazy_pattern(r"(?:what|which|how|when|where|who)\b", re.IGNORECASE)
_CLAUSE: Final = lazy_pattern(r"\n+|;\s+|(?<=[.!?])\s+|,?\s+(?:and )?then\s+", re.IGNORECASE)
_AND: Final = lazy_pattern(r",?\s+and\s+|,\s+", re.IGNORECASE)
_EXPLICIT: Final = lazy_pattern(r"([A-Za-z_][\w.-]*)\s*\((.*)\)[.!?]?", re.S)
_NAMED: Final = lazy_pattern(r"""([A-Za-z_]\w*)\s*=\s*("[^"]*"|'[^']*'|`[^`]*`|[^\s,]+)""")
_QUOTED: Final = lazy_pattern(r"""`([^`]+)`|"([^"]+)"|(?<!\w)'([^']+)'(?!\w)|“([^”]+)”""")
_URL: Final = lazy_pattern(r"https?://[^\s\"'<>`]+[\w/]")
_PATH: Final = lazy_pattern(
    r"(?<![\w/])(?:(?:~|\.{1,2})?/)?[\w@+-][\w.@+-]*(?:/[\w.@+*-]+)+/?"  # some/where
    r"|(?<![\w/])(?:~|\.{1,2})?/[\w.@+-]*"  # /, ./here
    r"|(?<![\w/.])\.?[\w@+-]+(?:\.[A-Za-z]\w{0,7})+(?!\w)"  # file.ext, .env.local
    r"|\b(?:README|LICENSE|Makefile|Dockerfile|CHANGELOG|CONTRIBUTING)\b"
)
_PLACE: Final = lazy_pattern(
    r"\b(?:in|inside|under|within|of|from|at|to|into)\s+(?:the\s+)?", re.IGNORECASE
)
_FOR: Final = lazy_pattern(r"\b(?:for|about)\s+(?:the\s+)?", re.IGNORECASE)
_INTEGER: Final = lazy_pattern(r"(?<![\w.])-?\d+(?![\w.])")
_NUMBER: Final = lazy_pattern(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")

_PATHS: Final = frozenset(
    ("path", "file", "filename", "filepath", "dir", "directory", "folder", "root", "location")
)
_QUERIES: Final = frozenset(
    ("query", "pattern", "text", "q", "regex", "term", "terms", "keyword", "needle", "search")
)
_URLS: Final = frozenset({"url", "uri", "link", "address"})
_FOLDERS: Final = frozenset({"dir", "directory", "folder", "path", "root", "location"})
_FILLER: Final = lazy_pattern(
    r"^(?:(?:all|the|a|an|me|my|files?|folders?|director(?:y|ies)|contents?|entries|of|in|at|for|"
    r"from|on|everything|lines?|text|words?|string|named|called|with|what|is|it|now|there|are)\b"
    r"\s*)+|[\s.,;:!?]+$",
    re.IGNORECASE,
)


def wanted(message: str, tools: Sequence[Tool]) -> Wanted:
    """The calls a message asks for, in its order."""
    calls: list[Call] = []
    doubts: list[str] = []
    rest: list[str] = []
    for clause in _clauses(message, tools):
        found, doubt = _read(clause, tools)
        calls += [call for call in found if call not in calls]
        doubts += [doubt] if doubt else []
        rest += [] if found or doubt else [clause]
    return Wanted(tuple(calls[:CALLS_MAX]), tuple(doubts), "\n".join(rest))


def example(tool: Tool) -> str:
    """How to ask for a tool so that it is understood."""
    needed = _required(tool) or list(_properties(tool))[:1]
    return " ".join((tool.name, *(f"{name}=…" for name in needed)))


def _clauses(message: str, tools: Sequence[Tool]) -> list[str]:
    """A message in pieces of one request each; a form with brackets is not taken apart."""
    if _explicit(_polished(message), tools) is not None:
        return [message.strip()]
    found: list[str] = []
    for sentence in filter(None, map(str.strip, _CLAUSE.split(message))):
        if _explicit(_polished(sentence), tools) is not None:
            found.append(sentence)
            continue
        held = ""
        for piece in _AND.split(sentence):
            # `read a and list b` are two requests, `search for cats and dogs` is one.
            if held and _begins_request(piece, tools):
                found.append(held)
                held = piece
            else:
                held = f"{held} and {piece}" if held else piece
        found.append(held)
    return found


def _polished(clause: str) -> str:
    return _POLITE.sub("", clause.strip(), count=1) if _POLITE.match(clause.strip()) else clause


def _begins_request(piece: str, tools: Sequence[Tool]) -> bool:
    first = re.match(r"[\w.-]+", _polished(piece))
    if first is None:
        return False
    verb = first[0].lower()
    return verb in _ANSWERS or bool(_by_name(verb, tools) or _by_verb(verb, tools))


def _read(clause: str, tools: Sequence[Tool]) -> tuple[list[Call], str]:
    """The calls of one clause, or what is to be asked about it."""
    said = _polished(clause).strip()
    explicit = _explicit(said, tools)
    if explicit is not None:
        tool, inside = explicit
        return _checked(tool, _inside(inside, tool), clause)
    first, _, others = said.partition(" ")
    tool_named = _by_name(first.rstrip(".,:!?"), tools)
    if tool_named is not None:
        given = _named(others, tool_named) or _filled(others, tool_named)
        return _each(tool_named, given, others, clause)
    fitting = _fitting(said, tools)
    if len(fitting) > 1:
        names = ", ".join(f"`{tool.name}`" for tool in fitting)
        return [], f"“{clause.strip()}” fits several tools: {names}. Name the one you mean."
    if not fitting:
        return [], ""
    tool = fitting[0]
    rest = said if _ASKS.match(said) else others
    rest = _READS.sub("", rest, count=1)
    return _each(tool, _named(rest, tool) or _filled(rest, tool), rest, clause)


def _explicit(said: str, tools: Sequence[Tool]) -> tuple[Tool, str] | None:
    match = _EXPLICIT.fullmatch(said.strip().strip("`"))
    tool = _by_name(match[1], tools) if match else None
    return (tool, match[2]) if match and tool is not None else None


def _by_name(word: str, tools: Sequence[Tool]) -> Tool | None:
    plain = _plain(word.lstrip("/"))
    return next((tool for tool in tools if plain and _plain(tool.name) == plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _words_of(tool: Tool) -> list[str]:
    """The words of a tool's name: `readFile` and `read_file` are `read` and `file`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", tool.name)
    return [word.lower() for word in re.findall(r"[A-Za-z]+|\d+", spaced)]


def _by_verb(verb: str, tools: Iterable[Tool]) -> list[Tool]:
    group = _SAME.get(verb, (verb,))
    return [tool for tool in tools if any(word in group for word in _words_of(tool))]


def _fitting(said: str, tools: Sequence[Tool]) -> list[Tool]:
    """The tools a clause can mean: by its verb, or, for a question, by what it is about."""
    if _READS.match(said):
        return _narrowed(_by_verb("read", tools), said)
    first = re.match(r"[A-Za-z]+", said)
    verb = first[0].lower() if first else ""
    if _ASKS.match(said):
        if _TOLD.search(said):
            return []
        return [tool for tool in tools if _is_about(said, tool)]
    fitting = _by_verb(verb, tools)
    exact = [tool for tool in fitting if verb in _words_of(tool)]
    return _narrowed(exact or fitting, said)


def _narrowed(fitting: list[Tool], said: str) -> list[Tool]:
    """Of several, those whose other words are said too; then those that lack nothing."""
    if len(fitting) > 1:
        words = {stem(word) for word in re.findall(r"[a-z]+", said.lower())}
        scores = [sum(stem(word) in words for word in _words_of(tool)) for tool in fitting]
        fitting = [
            tool for tool, score in zip(fitting, scores, strict=True) if score == max(scores)
        ]
    if len(fitting) > 1:
        rest = said.partition(" ")[2]
        whole = [tool for tool in fitting if _required(tool) and not _missing(tool, rest)]
        fitting = whole or fitting
    return fitting


def _is_about(said: str, tool: Tool) -> bool:
    """Whether a question is one that a tool answers: it names its subject, and lacks nothing."""
    words = {stem(word) for word in re.findall(r"[a-z]+", said.lower())}
    subject = [
        word
        for word in _words_of(tool)
        if word not in _SAME and word not in _GENERIC and len(word) > 2
    ]
    return (
        bool(subject) and all(stem(word) in words for word in subject) and not _missing(tool, said)
    )


def _missing(tool: Tool, said: str) -> list[str]:
    given = _named(said, tool) or _filled(said, tool)
    return [name for name in _required(tool) if name not in given]


def _each(tool: Tool, given: Json, rest: str, clause: str) -> tuple[list[Call], str]:
    """One call, or one for each path where several are named and the tool takes one."""
    paths = _paths(rest)
    field = next((name for name in given if given[name] in paths), "")
    is_listed = _type(_properties(tool).get(field, {})) == "array"
    between = _QUOTED.sub("", rest)
    if field and len(paths) > 1 and not is_listed and _AND.search(between):
        calls = [_checked(tool, {**given, field: path}, clause) for path in paths]
        return [call for found, _doubt in calls for call in found], ""
    return _checked(tool, given, clause)


def _checked(tool: Tool, given: Json, clause: str) -> tuple[list[Call], str]:
    missing = [name for name in _required(tool) if name not in given]
    if missing:
        lacks = ", ".join(f"`{name}`" for name in missing)
        return [], (
            f"For “{clause.strip()}” the tool `{tool.name}` needs {lacks}: "
            f"say it as `{example(tool)}`."
        )
    return [Call(tool.name, given)], ""


def _inside(inside: str, tool: Tool) -> Json:
    """The arguments between brackets: an object, `name=value` pairs, or values in order."""
    inside = inside.strip()
    try:
        value = json.loads(inside) if inside.startswith("{") else None
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    found = _named(inside, tool)
    if found or not inside:
        return found
    values = [piece.strip().strip("\"'`") for piece in _split(inside)]
    names = [*_required(tool), *(name for name in _properties(tool) if name not in _required(tool))]
    return {
        name: cast
        for name, value in zip(names, values, strict=False)
        if (cast := _cast(value, _properties(tool).get(name, {}))) is not None
    }


def _split(inside: str) -> list[str]:
    lexer = shlex.shlex(inside, posix=False)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = ",", True, ""
    try:
        return list(lexer)
    except ValueError:
        return inside.split(",")


def _named(said: str, tool: Tool) -> Json:
    """`argument=value` pairs that the tool knows."""
    properties = _properties(tool)
    found: Json = {}
    for name, value in _pairs(said):
        known = next((one for one in properties if _plain(one) == _plain(name)), "")
        if known:
            cast = _cast(value.strip("\"'`"), properties[known])
            if cast is not None:
                found[known] = cast
    return found


def _pairs(said: str) -> Iterator[tuple[str, str]]:
    """Names and values as they stand; a value that begins as JSON is taken to its end."""
    place = 0
    while found := _NAMED.search(said, place):
        value, place = found[2], found.end()
        if value[0] in "{[":
            try:
                _parsed, place = json.JSONDecoder().raw_decode(said, found.start(2))
                value = said[found.start(2) : place]
            except ValueError:
                pass  # no JSON: as far as it goes
        yield found[1], value


def _filled(said: str, tool: Tool) -> Json:
    """Arguments from plain words, each where its name and type say that it belongs."""
    properties = _properties(tool)
    found: Json = {}
    rest = said
    for name, schema in properties.items():  # what can be told by its looks goes first
        value = _by_looks(name, schema, rest)
        if value is not None:
            cast = _cast(value, schema)
            if cast is not None:
                found[name] = cast
                rest = rest.replace(value, " ", 1)
    for name, schema in properties.items():
        is_query = _role(name) == "query"
        if name in found or _type(schema) not in ("string", "") or schema.get("enum"):
            continue
        if not is_query and name not in _required(tool):
            continue
        if _role(name) in ("path", "url") and not _QUOTED.search(rest):
            continue  # a bare word is no path; `open the door` opens no file
        words = _by_words(rest, is_query=is_query)
        if words:
            found[name] = words
            rest = rest.replace(words, " ", 1)
    return found


def _role(name: str) -> str:
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    for role, names in (("path", _PATHS), ("url", _URLS), ("query", _QUERIES)):
        if words & names:
            return role
    return ""


def _by_looks(name: str, schema: Json, said: str) -> str | None:
    choices = [one for one in schema.get("enum") or () if isinstance(one, str)]
    if choices:
        words = {word.lower() for word in re.findall(r"[\w-]+", said)}
        return next((one for one in choices if one.lower() in words), None)
    match _type(schema):
        case "integer":
            found = _INTEGER.search(said)
            return found[0] if found else None
        case "number":
            found = _NUMBER.search(said)
            return found[0] if found else None
    match _role(name):
        case "url":
            found = _URL.search(said)
            return found[0] if found else None
        case "path":
            return _path(name, said)
        case _:
            return None


def _path(name: str, said: str) -> str | None:
    """A path by its looks; where a folder may be meant, the word behind `in` will do."""
    paths = _paths(said)
    if paths:
        # `search for "a/b" in src/c`: what stands behind `in` is the place.
        behind = [path for path in paths if re.search(rf"\bin\s+[\"'`]?{re.escape(path)}", said)]
        return (behind or paths)[0]
    alone = said.strip().rstrip(".!?")
    if re.fullmatch(r"[\w@+-]+", alone) and not _FILLER.match(alone):
        return alone
    words = set(re.findall(r"[a-z]+", name.lower()))
    if words & _FOLDERS:
        place = re.search(
            r"\b(?:in|inside|under|within|of|at)\s+(?:the\s+)?[\"'`]?([\w.@+-]+)[\"'`]?"
            r"(?:\s+(?:folder|directory|dir))?\s*[.!?]?$",
            said,
            re.IGNORECASE,
        )
        if place and not re.fullmatch(r"(?:here|it|there|this|files?|folder|directory)", place[1]):
            return place[1]
    return None


def _paths(said: str) -> list[str]:
    quoted = ["".join(groups) for groups in _QUOTED.findall(said)]
    found = [
        match[0].rstrip(".") for match in _PATH.finditer(_URL.sub(" ", _QUOTED.sub(" ", said)))
    ]
    whole = [one for one in quoted if _PATH.fullmatch(one) or ("/" in one and " " not in one)]
    places = {path: said.find(path) for path in (*found, *whole) if path}
    return sorted(places, key=lambda path: places[path])


def _by_words(said: str, *, is_query: bool) -> str:
    """The words that are left for an argument: quoted ones, or those behind `for` or `in`."""
    quoted = _QUOTED.search(said)
    if quoted:
        return next(group for group in quoted.groups() if group)
    if is_query:
        behind = _FOR.split(said, maxsplit=1)
        said = behind[1] if len(behind) == 2 else said
        said = _PLACE.split(said, maxsplit=1)[0] or said
    elif _PLACE.search(said):
        said = _PLACE.split(said, maxsplit=1)[1]
    before = None
    while before != said:
        before, said = said, _FILLER.sub("", said.strip())
    return said


def _cast(value: str, schema: Json) -> Any:
    """A value as its schema wants it; None where it cannot be that."""
    try:
        match _type(schema):
            case "integer":
                return int(value)
            case "number":
                return float(value) if "." in value else int(value)
            case "boolean":
                known = {"true": True, "yes": True, "1": True, "false": False, "no": False}
                return known.get(value.lower())
            case "array":
                return json.loads(value) if value.startswith("[") else [value]
            case "object":
                return json.loads(value)
            case _:
                return value
    except ValueError:
        return None


def _properties(tool: Tool) -> dict[str, Json]:
    found = tool.parameters.get("properties")
    return {
        name: schema if isinstance(schema, dict) else {}
        for name, schema in (found if isinstance(found, dict) else {}).items()
    }


def _required(tool: Tool) -> list[str]:
    found = tool.parameters.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _type(schema: Json) -> str:
    found = schema.get("type")
    if isinstance(found, list):
        found = next((one for one in found if one != "null"), "")
    if found is None:
        options = schema.get("anyOf") or schema.get("oneOf") or ()
        kinds = [one.get("type") for one in options if isinstance(one, dict)]
        found = next((kind for kind in kinds if kind != "null"), "")
    return found if isinstance(found, str) else ""

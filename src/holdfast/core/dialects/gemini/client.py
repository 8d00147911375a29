"""A client's request to the Gemini API, and what may change in its contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.client import (
    ClientBody,
    ClientItems,
    first_count,
    first_name,
    is_reply,
)
from holdfast.core.dialects.common.digests import Atom, call_atom, digest_as
from holdfast.core.models.messages import Text, ToolCall
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.log.records import Content, Json
    from holdfast.core.models.messages import Block, Piece, Role


_TURN_PATH: Final = lazy_pattern(
    r".*/(?:(?:models|tunedModels)/|v1beta/(?=holdfast/))"
    r"((?:[^/:]+/)?[^/:]+):(?:streamG|g)enerateContent"
)
"""Of Gemini's own API, of the longer addresses of Vertex, and of clients that take a model's name
with a slash for the whole path, as the AI SDK does."""
_CONFIGS: Final = ("generationConfig", "generation_config")
_OUTPUT_FIELDS: Final = ("maxOutputTokens", "max_output_tokens")
_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
_STATUS: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiBody(ClientBody):
    """The address names the model; settings are an object of their own."""

    upstream = "gemini"
    items_field = "contents"
    key_header = "x-goog-api-key"
    turn_paths = ("/v1beta/models/{model:path}", "/v1beta/holdfast/{model:path}")

    def find_turn(self, path: str) -> str | None:
        found = _TURN_PATH.fullmatch(path)
        return None if found is None else found[1]

    def owns_request(self, path: str, headers: Mapping[str, str]) -> bool:
        has_key = "x-goog-api-key" in headers
        return has_key or path.startswith("/v1beta/") or self.find_turn(path) is not None

    def read_output_limit(self, body: Json) -> int | None:
        config = body.get(first_name(body, _CONFIGS))
        return first_count(config, _OUTPUT_FIELDS) if isinstance(config, dict) else None

    def limit_reply(self, body: Json, tokens: int) -> Json:
        name = first_name(body, _CONFIGS)
        given = body.get(name)
        config: Json = given if isinstance(given, dict) else {}
        return {**body, name: {**config, first_name(config, _OUTPUT_FIELDS): tokens}}

    def takes_tools(self, body: Json) -> bool:
        settings = body.get("generationConfig")
        count = settings.get("candidateCount") if isinstance(settings, dict) else None
        return count in (None, 1) and any(map(_declares, body["tools"]))

    def add_tools(self, body: Json, ours: list[Json]) -> Json:
        given = body["tools"]
        place = next(at for at, tool in enumerate(given) if _declares(tool))
        field = next(name for name in _DECLARATIONS if name in given[place])
        declared = [*given[place][field], *ours[0][_DECLARATIONS[0]]]
        changed = {**given[place], field: declared}
        return {**body, "tools": [*given[:place], changed, *given[place + 1 :]]}

    def write_error(self, status: int, message: str, code: str) -> Json:
        del code
        word = _STATUS.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": word}}


def _declares(tool: object) -> bool:
    return isinstance(tool, dict) and any(
        isinstance(tool.get(name), list) for name in _DECLARATIONS
    )


class GeminiItems(ClientItems):
    """A content has parts. Google's packages keep a streamed reply in pieces, as several parts and
    even as several contents: texts of a reply that follow each other are one atom. Both spellings
    of a field are read."""

    content_field = "parts"

    def read_atoms(self, items: Sequence[Any], first: int = 0) -> list[Atom]:
        atoms: list[Atom] = []
        reply = _ReplyAtoms()
        for index, item in enumerate(items, first):
            if not isinstance(item, dict):
                continue
            parts = item.get("parts")
            found = parts if isinstance(parts, list) else ()
            if item.get("role") == "model":
                for place, part in enumerate(found):
                    reply.add(part, index, place)
            else:
                atoms += reply.end()
                atoms += _user_atoms(found, index)
        return [*atoms, *reply.end()]

    def reply_digests(self, content: Content) -> list[bytes]:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        reply = _ReplyAtoms()
        for block in blocks:
            reply.add(_part_of(block), 0, 0)
        return [atom.digest for atom in reply.end()]

    def join_replies(self, items: list[Any]) -> list[Any]:
        joined: list[Any] = []
        for item in items:
            last: Any = joined[-1] if joined else {}
            if is_reply(last) and is_reply(item):
                parts = [*(last.get("parts") or ()), *(item.get("parts") or ())]
                joined[-1] = {**last, "parts": parts}
            else:
                joined.append(item)
        return joined

    def last_boundary(self, items: Sequence[Any], place: int) -> int:
        while place > 0 and not _is_users(items[place]):
            place -= 1
        return place

    def shorten_reply(self, items: Sequence[Json], blocks: Sequence[Block]) -> list[Json]:
        texts = _texts(blocks)
        own = sum(_is_text(found) for item in items for found in item.get("parts") or ())
        reply = _ShortReply(texts, blocks, is_one_by_one=own == len(texts))
        shorter = []
        for item in items:
            parts = [new for old in item.get("parts") or () for new in reply.take(old)]
            if parts:
                shorter.append({**item, "parts": parts})
        return shorter

    def shorten(
        self,
        item: Json,
        wanted: Sequence[int] | None,
        pieces: Sequence[Block | Piece],
        *,
        is_answer: bool,
    ) -> Json | list[Any] | None:
        given = item.get(self.content_field)
        parts = given if isinstance(given, list) else []
        kept = parts if wanted is None else [parts[place] for place in wanted]
        if not is_answer:
            return _shorten_parts(kept, pieces)
        return [_shorten_answer(part, pieces) if _is_answer(part) else part for part in kept]

    def text_item(self, role: Role, text: str) -> Json:
        return {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]}


def _is_users(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") in ("user", "function")


_SILENT: Final = frozenset(
    ("thoughtSignature", "thought_signature", "thought", "type", "id", "videoMetadata")
)
"""Fields of a part that say nothing in the conversation."""


class _ReplyAtoms:
    """The atoms of one reply, part by part."""

    def __init__(self) -> None:
        self._atoms: list[Atom] = []
        self._text = ""
        self._place = (0, 0)
        """The last part of the text so far."""

    def add(self, part: Any, index: int, place: int) -> None:
        if not isinstance(part, dict) or part.get("thought") is True:
            return
        call = either(part, "functionCall", "function_call")
        if isinstance(part.get("text"), str):
            if part["text"]:
                self._text += part["text"]
                self._place = (index, place)
            return
        self._end_text()
        if isinstance(call, dict):
            self._atoms.append(call_atom(call.get("name"), call.get("args"), index, place))
        else:
            self._atoms.append(Atom("assistant", _digest_part(part), index, place))

    def _end_text(self) -> None:
        text, self._text = self._text.strip(), ""
        if text:
            self._atoms.append(Atom("assistant", digest_as("text", text), *self._place))

    def end(self) -> list[Atom]:
        """The atoms; the next part begins another reply."""
        self._end_text()
        atoms, self._atoms = self._atoms, []
        return atoms


def _user_atoms(parts: Sequence[Any], index: int) -> list[Atom]:
    """The atoms of what is not the model's; results stand first, as they do in a log."""
    results: list[Atom] = []
    others: list[Atom] = []
    for place, part in enumerate(parts):
        if not isinstance(part, dict):
            continue
        answer = either(part, "functionResponse", "function_response")
        text = part.get("text")
        if isinstance(answer, dict):
            said = [answer.get("name"), answer.get("response"), answer.get("parts")]
            results.append(Atom("result", digest_as("result", said), index, place))
        elif not isinstance(text, str):
            others.append(Atom("user", _digest_part(part), index, place))
        elif text.strip():
            others.append(Atom("user", digest_as("text", text.strip()), index, place))
    return [*results, *others]


def _part_of(block: Json) -> Json:
    """A block of the log as the part that it was."""
    match block.get("type"):
        case "thinking":
            return {"thought": True}
        case "tool_use":
            return {"functionCall": {"name": block.get("name"), "args": block.get("input")}}
        case "image":
            source = block.get("source")
            known = source if isinstance(source, dict) else {}
            data = {"mimeType": known.get("media_type"), "data": known.get("data")}
            return {"inlineData": data}
        case _:
            return block


def _digest_part(part: Json) -> bytes:
    data = either(part, "inlineData", "inline_data")
    if isinstance(data, dict):
        kind = either(data, "mimeType", "mime_type")
        # Google's package writes the alphabet for addresses, the API the usual one.
        content = str(data.get("data")).replace("-", "+").replace("_", "/")
        return digest_as("block", ["inlineData", kind, content])
    said = {name: part[name] for name in part if name not in _SILENT and part[name] is not None}
    return digest_as("block", said)


def either(value: Json, camel: str, snake: str) -> Any:
    """A field as the wire or as the SDK's objects spell it."""
    found = value.get(camel)
    return value.get(snake) if found is None else found


_CALLS: Final = ("functionCall", "function_call")
_ANSWERS: Final = ("functionResponse", "function_response")
_OUTPUTS: Final = ("output", "result", "error")


def _is_answer(part: Any) -> bool:
    """True for a part that holds the result of a call."""
    return isinstance(part, dict) and _name_in(part, _ANSWERS) is not None


def _shorten_answer(part: Json, pieces: Sequence[Block | Piece]) -> Json:
    """A result with another text. Its own pictures stay as far as the plan has them."""
    name = _name_in(part, _ANSWERS) or _ANSWERS[0]
    answer: Json = part[name]
    given = answer.get("response")
    old: Json = given if isinstance(given, dict) else {}
    field = next((key for key in _OUTPUTS if key in old), _OUTPUTS[0])
    shorter = {**answer, "response": {field: "\n".join(_texts(pieces))}}
    pictures = answer.get("parts")
    if isinstance(pictures, list):
        room = sum(not isinstance(piece, Text) for piece in pieces)
        shorter["parts"] = pictures[max(0, len(pictures) - room) :]
        if not shorter["parts"]:
            del shorter["parts"]
    return {**part, name: shorter}


def _shorten_parts(parts: Sequence[Any], pieces: Sequence[Block | Piece]) -> list[Any]:
    """Parts of a user's content with other texts; of the rest, as many as the plan has."""
    others = [part for part in parts if not _is_text(part)]
    room = sum(not isinstance(piece, Text) for piece in pieces)
    kept = others[len(others) - room :] if room < len(others) else others
    return [*({"text": text} for text in _texts(pieces)), *kept]


class _ShortReply:
    def __init__(self, texts: list[str], blocks: Sequence[Block], *, is_one_by_one: bool) -> None:
        self._texts: Iterator[str] = iter(texts)
        self._calls = iter([block for block in blocks if isinstance(block, ToolCall)])
        self._is_one_by_one = is_one_by_one
        self._is_in_text = False

    def take(self, part: Any) -> list[Any]:
        """The parts that stand for one of the client's."""
        if not isinstance(part, dict) or part.get("thought") is True:
            return [part]
        if not _is_text(part):
            self._is_in_text = False
            return [self._shorten_call(part)]
        if self._is_in_text and not self._is_one_by_one:
            is_signed = any(name in part for name in ("thoughtSignature", "thought_signature"))
            return [{**part, "text": ""}] if is_signed else []
        self._is_in_text = True
        return [{**part, "text": next(self._texts, part["text"])}]

    def _shorten_call(self, part: Json) -> Json:
        name = _name_in(part, _CALLS)
        if name is None:
            return part
        call = next(self._calls, None)
        is_same = call is None or (part[name].get("args") or {}) == call.arguments
        return (
            part
            if call is None or is_same
            else {**part, name: {**part[name], "args": call.arguments}}
        )


def _texts(pieces: Sequence[Block | Piece]) -> list[str]:
    return [piece.text for piece in pieces if isinstance(piece, Text)]


def _is_text(part: Any) -> bool:
    is_said = isinstance(part, dict) and isinstance(part.get("text"), str)
    return is_said and part.get("thought") is not True and bool(part["text"].strip())


def _name_in(part: Json, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if isinstance(part.get(name), dict)), None)

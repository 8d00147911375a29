"""One message as another agent may read it.

In this order: what is of no use to a reader goes (details, usage, cost, signatures), binary becomes
a note, every text is redacted, and only then is anything cut: a secret that a cut has halved would
no longer be recognised. Whatever was cut says how much, and names the record it can be read from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.history.capped_json import (
    TEXT_CHARS_MIN,
    Cutter,
    Gap,
    with_gap_in_list,
    with_gap_in_object,
    with_gap_in_text,
)
from holdfast.core.limits import (
    HISTORY_DEPTH_MAX,
    HISTORY_ITEMS_MAX,
    HISTORY_TEXT_CHARS_MAX,
    REF_CHARS,
)
from holdfast.core.log.records import Assistant, OutputRef, ToolResult, ToolUse, User, encode
from holdfast.core.log.refs import IN_DETAILS, ref_in
from holdfast.core.log.replay import SILENT_FIELDS
from holdfast.core.outputs.binaries import placeholder, replace_payload, with_refs, without_payloads
from holdfast.core.outputs.offload import is_read_back
from holdfast.core.text.cut import cut, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from holdfast.core.log.records import Json, Record

    class Redacts(Protocol):
        """As much of a `Redactor` as is needed here."""

        def text(self, text: str) -> str: ...
        def value(self, value: Any) -> Any: ...


_OWN_TOOLS: Final = frozenset({"sessions_history", "sessions_list"})
"""Their results are what was read elsewhere: repeated here, they would grow with every read."""

_FRAME: Final = ("id", "ts", "role", "outputRef", "detailsRef")
"""Fields that are ours alone."""
_DROPPED: Final = frozenset({"details", "usage", "cost"})
_SIGNATURES: Final = frozenset(
    (
        *("thinkingSignature", "thinking_signature", "thoughtSignature", "thought_signature"),
        *("textSignature", "reasoning_signature", "encrypted_content", "encryptedContent"),
        "openclawReasoningReplay",
    )
)
"""No application calls its own fields so; a mere `signature` is dropped only from blocks."""
_OPAQUE: Final = _SIGNATURES | {"data", "signature"}
"""Fields in which a redactor ignores what looks like a payload."""
_ENCRYPTED: Final = ("redacted_thinking", "reasoning.encrypted")
_BLOCKS: Final = frozenset({"content", "parts", "output", "message"})
_ARGUMENTS: Final = frozenset({"input", "arguments", "args", "partialJson"})

_UNSAID: Final = frozenset(
    ("type", "id", "toolCallId", "tool_use_id", "call_id", "omitted", "mimeType", "sha256", "ref")
)
_STRUCTURAL: Final = _UNSAID | {
    *("content", "text", "thinking", "input", "name", "toolName", "isError", "provider", "model"),
    *("stopReason", "bytes", "source", "is_error"),
}
"""Fields whose values, and whose names, no one has said: a search does not look at them."""

_TEXTS_MAX: Final = 10_000
_TEXT_CHARS: Final = 1_000_000
_MESSAGE_CHARS: Final = 4_000_000
"""Bounds on the part of a message that is read closely: texts, characters of one, of all."""
_MASK: Final = lazy_pattern(r"\[masked[^\]\n]{0,200}\]")

_FORMS: Final = (
    (HISTORY_TEXT_CHARS_MAX, HISTORY_ITEMS_MAX),
    *((2_000, 100), (1_000, 48), (500, 24), (250, 12), (120, 6), (60, 4)),
)
"""Characters of a text and items of a list: as they are, and smaller and smaller."""
_BRIEF_CHARS: Final = (2_000, 1_000, 500, 250, 120, 60, 30, 12)
"""And where that is still too much, so many characters of all its texts in one."""

Place = Literal["block", "loose", "arguments"]
"""The place of an object: in a block, field names mean what providers mean by them; in a tool's
arguments, what the tool means; elsewhere their meaning is unknown."""


class Clean(msgspec.Struct, frozen=True):
    """A message without secrets and payloads, and not cut yet."""

    frame: Json
    body: Json
    is_cut: bool
    is_redacted: bool

    @property
    def ref(self) -> str:
        return str(self.frame["id"])

    def words(self) -> Iterator[str]:
        """Every text that a search looks at."""
        return _texts(self.body)


class Shown(msgspec.Struct, frozen=True):
    """A message as it goes into a reply."""

    message: Json
    json: bytes
    is_cut: bool
    is_redacted: bool


def is_message(record: Record) -> bool:
    return isinstance(record, User | Assistant | ToolResult | ToolUse)


def is_result(record: Record) -> bool:
    """Return whether a record holds nothing but results of tools, as itself or as blocks."""
    if isinstance(record, ToolResult):
        return True
    if not isinstance(record, User) or not isinstance(record.content, list):
        return False
    kinds = [block.get("type") for block in record.content]
    return bool(kinds) and all(kind == "tool_result" for kind in kinds)


def without_results(record: Record) -> Record:
    """A message without the results that stand among its blocks."""
    if not isinstance(record, User) or not isinstance(record.content, list):
        return record
    kept = [block for block in record.content if block.get("type") != "tool_result"]
    if len(kept) == len(record.content):
        return record
    return msgspec.structs.replace(record, content=kept)


def call_names(records: Iterable[Record]) -> dict[str, str]:
    """The name of the tool for the id of each call."""
    names: dict[str, str] = {}
    for record in records:
        if isinstance(record, ToolUse):
            names[record.tool_use_id] = record.name
        elif isinstance(record, Assistant) and isinstance(record.content, list):
            for block in record.content:
                call_id, name = block.get("id"), block.get("name")
                if block.get("type") == "tool_use" and isinstance(call_id, str):
                    names[call_id] = name if isinstance(name, str) else ""
    return names


def clean_record(record: Record, redactor: Redacts, names: Mapping[str, str]) -> Clean:
    """A record as a message. Whatever JSON is in it, this does not fail."""
    role, fields, refs = _parts(record, names)
    cleaner = _Cleaner(record.id, names)
    if isinstance(record, ToolResult) and _is_own(_tool_of(record, names), record.content):
        fields["content"] = cleaner.own_output(_tool_of(record, names))
    taken = record.extra.keys() & {*_FRAME, *fields, *SILENT_FIELDS}
    extra = {name: item for name, item in record.extra.items() if name not in taken}
    body = cleaner.as_one_text(cleaner.fields({**fields, **extra}, 0, "block"))
    redacted = _drop_payloads(redactor.value({"id": record.id, "body": body}), redactor)
    return Clean(
        frame={"id": scrub(str(redacted["id"])), "ts": record.ts, "role": role, **refs},
        body=redacted["body"],
        is_cut=cleaner.is_cut or bool(taken),
        is_redacted=redacted["id"] != record.id or redacted["body"] != body,
    )


def _drop_payloads(value: Any, redactor: Redacts, *, is_opaque: bool = False) -> Any:
    """A redacted value without anything that was taken for a payload and left alone.

    Payloads and signatures are gone by now: what still looks like one is a text.
    """
    match value:
        case str():
            return redactor.text(value) if is_opaque or value.startswith("data:") else value
        case dict():
            return {
                name: _drop_payloads(item, redactor, is_opaque=name in _OPAQUE)
                for name, item in value.items()
            }
        case list():
            return [_drop_payloads(item, redactor, is_opaque=is_opaque) for item in value]
        case _:
            return value


def searchable(record: Record) -> str:
    """Everything in a record as one text, to find out quickly what is not in it."""
    try:
        return encode(record).decode().casefold()
    except BadRecord:
        return ""


def is_within(words: Sequence[str], searchable: str) -> bool:
    """Return whether all words are in the text of `searchable`."""
    return all(msgspec.json.encode(word).decode()[1:-1].casefold() in searchable for word in words)


def matches(clean: Clean, words: Sequence[str]) -> bool:
    """Return whether all words are in a message as it may be seen.

    Masks are not searched. So whatever is found stands in the log just so, and a search that asks
    the log first learns nothing of what is masked.
    """
    said = _MASK.sub("\n", "\n".join(clean.words())).casefold()
    return all(word.casefold() in said for word in words)


def fit_message(clean: Clean, cap_bytes: int, words: Sequence[str] = ()) -> Shown:
    """The fullest form of a message that is within a cap, or the smallest where none is."""
    for form in forms(clean, words):
        if len(form.json) <= cap_bytes:
            break
    return form


def forms(clean: Clean, words: Sequence[str] = ()) -> Iterator[Shown]:
    """A message as it is, then smaller and smaller."""
    for chars, items in _FORMS:
        cutter = Cutter(clean.ref, chars, items, words)
        yield _as_shown(clean, cutter.value(clean.body), is_cut=cutter.is_cut)
    everything = "\n".join(clean.words())
    for chars in _BRIEF_CHARS:
        text = Cutter(clean.ref, chars, 0, words).text(everything)
        yield _as_shown(clean, {"content": text}, is_cut=True)


def _as_shown(clean: Clean, body: Json, *, is_cut: bool) -> Shown:
    message = {**clean.frame, **body}
    data = msgspec.json.encode(message, enc_hook=repr)
    return Shown(message, data, clean.is_cut or is_cut, clean.is_redacted)


# From a record


def _parts(record: Record, names: Mapping[str, str]) -> tuple[str, Json, Json]:
    """The role, the fields that a message has, and the refs among them."""
    match record:
        case User():
            return "user", _without_none(name=record.name, content=record.content), {}
        case Assistant():
            fields = _without_none(
                provider=record.provider,
                model=record.model,
                stopReason=record.stop_reason,
                content=record.content,
            )
            return "assistant", fields, {}
        case ToolUse():
            call = {"type": "tool_use", "id": record.tool_use_id, "name": record.name}
            return "assistant", {"content": [{**call, "input": record.input}]}, {}
        case ToolResult():
            fields = _without_none(
                toolCallId=record.tool_use_id,
                toolName=_tool_of(record, names) or None,
                isError=record.is_error or None,
                content=record.content,
            )
            return "toolResult", fields, _refs_of(record)
        case _:
            return record.kind, {}, {}  # a new type shows nothing until it is allowed here


def _without_none(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _tool_of(record: ToolResult, names: Mapping[str, str]) -> str:
    return names.get(record.tool_use_id) or record.name or ""


def _refs_of(record: ToolResult) -> Json:
    details = record.details.get(IN_DETAILS) if isinstance(record.details, dict) else None
    refs: Json = {}
    if record.output_ref is not None:
        refs["outputRef"] = _ref_json(record.output_ref)
    moved = ref_in(details)
    if moved is not None:
        refs["detailsRef"] = _ref_json(moved)
    return refs


def _ref_json(ref: OutputRef) -> Json:
    """A ref in the seed's words: its path is its hash, for there are no paths."""
    sizes = _without_none(lines=ref.lines)
    return {
        "path": ref.sha256,
        "sha256": ref.sha256,
        "bytes": ref.bytes,
        "kind": cut(ref.kind, REF_CHARS * 4).text,
        **sizes,
    }


class _Cleaner:
    """Takes out of a value what no reader needs, and notes whether that was content."""

    def __init__(self, ref: str, names: Mapping[str, str]) -> None:
        self._ref, self._names = ref, names
        self._chars = self._texts = 0
        self.is_cut = False

    def value(self, value: Any, depth: int, place: Place) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                return self._read_nested(value, depth) or self.object(value, depth, place)
            case list() | tuple():
                deep = self._read_nested(value, depth)
                items = with_gap_in_list(value)
                return deep or [self.value(item, depth + 1, place) for item in items]
            case OutputRef():
                self.is_cut = True
                return placeholder(value, "", None, self._ref)
            case int() | float() | bool() | None | Gap():
                return value
            case _:
                return self.text(str(value))

    def object(self, value: Json, depth: int, place: Place) -> Json:
        value = with_refs(value)
        instead = replace_payload(value, self._ref)
        if instead is not None:
            self.is_cut = True
            value = instead
        elif place == "block":
            value = self._without_own_output(value)
        return self.fields(value, depth, place)

    def fields(self, value: Json, depth: int, place: Place) -> Json:
        value = with_gap_in_object(value)
        return {
            _key(name): self.value(item, depth + 1, _place_of(name, place))
            for name, item in value.items()
            if place == "arguments" or not _is_noise(name, value, place)
        }

    def text(self, text: str) -> str:
        bare = without_payloads(text, self._ref)
        self.is_cut = self.is_cut or bare is not text
        room = _TEXT_CHARS if self._chars < _MESSAGE_CHARS else TEXT_CHARS_MIN
        kept = with_gap_in_text(scrub(bare), room)
        self._chars += len(kept)
        self._texts += 1
        return kept

    def as_one_text(self, body: Json) -> Json:
        """A body with more texts than can be looked at one by one, as one text."""
        if self._texts <= _TEXTS_MAX:
            return body
        self.is_cut = True
        said = msgspec.json.encode(body, enc_hook=lambda gap: f"[… {gap.count:,} left out …]")
        return {"content": self.text(said.decode())}

    def own_output(self, name: str) -> str:
        self.is_cut = True
        return f"[left out: what `{name}` gave is not repeated; read the session it was about]"

    def _without_own_output(self, block: Json) -> Json:
        if block.get("type") != "tool_result":
            return block
        name = self._names.get(str(block.get("tool_use_id")), "")
        is_own = _is_own(name, block.get("content"))
        return {**block, "content": self.own_output(name)} if is_own else block

    def _read_nested(self, value: Any, depth: int) -> str | None:
        if depth < HISTORY_DEPTH_MAX or not value:
            return None
        self.is_cut = True
        what = "an object" if isinstance(value, dict) else "a list"
        return f"[{what} of {len(value):,}, nested too deeply to be shown; ref {self._ref}]"


def _is_own(name: str, content: Any) -> bool:
    return name in _OWN_TOOLS or is_read_back(
        name, content if isinstance(content, str | list) else ""
    )


def _is_noise(name: object, value: Json, place: Place) -> bool:
    """Return whether a field is of no use to a reader: accounts, signatures, what only a
    provider reads"""
    if name in _SIGNATURES or (name == "data" and value.get("type") in _ENCRYPTED):
        return True
    return place == "block" and (name in _DROPPED or name == "signature")


def _place_of(name: object, place: Place) -> Place:
    if place == "arguments" or name in _ARGUMENTS:
        return "arguments"
    return "block" if place == "block" and name in _BLOCKS else "loose"


def _key(name: object) -> str:
    return scrub(name if isinstance(name, str) else str(name))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case bool():
            pass
        case int() | float():
            yield str(value)
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for name, item in value.items():
                if name not in _STRUCTURAL:
                    yield name
                if name not in _UNSAID:
                    yield from _texts(item)
        case _:
            pass

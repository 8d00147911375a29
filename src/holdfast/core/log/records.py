"""Record types: the lines of a session log, and their codec.

A log is one JSON object a line. Known types become the structs below; a line of an unknown type
becomes `Unknown`, and unknown fields are kept in `extra`, so that reading and writing again loses
nothing. The format and what is promised about it: docs/format.md.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args

import msgspec

from holdfast.core.limits import RECORD_NESTING_MAX
from holdfast.core.log.damage import Flaw, flaw_in_bytes
from holdfast.core.text.cut import scrub_deep
from holdfast.core.text.strings import is_shallow, is_too_deep, may_be_deep
from holdfast.core.text.typed import (
    convert_typed,
    decoder_of,
    fold,
    fold_nested,
    json_type,
    unfold,
    unfold_nested,
)
from holdfast.errors import BadRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

Json: TypeAlias = dict[str, Any]
"""A JSON object."""
Content: TypeAlias = str | list[Json] | None
"""A message's text, or its blocks exactly as the provider or the caller shaped them."""

FORMAT: Final = "holdfast"
"""The format name in the header of our own logs; its version is in limits.py."""

SEAL: Final = 0x18
"""The byte (CAN, "cancel") that closes an unfinished append. No JSON text can end with it."""


class _Open(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """A struct that keeps the fields this version does not know."""

    extra: Annotated[Json, msgspec.Meta(min_length=1)] = msgspec.field(
        name="$extra", default_factory=dict
    )
    """Fields that this version does not know; they are kept."""


class _Record(_Open, frozen=True, tag_field="type", gc=False):
    """The fields every record has."""

    id: str = ""
    """Unique in its session and sortable; empty means: give me one."""
    ts: float = 0.0
    """Seconds since 1970; 0 means: now."""
    parent: str | None = None
    """The record this one follows; none means: the record before it."""
    more: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """In an append of several records: how many of them are still to come."""

    @property
    def kind(self) -> str:
        return self.__struct_config__.tag  # type: ignore[return-value]


class Header(_Record, frozen=True, tag="session", kw_only=True):
    """The first line of a log. Its `id` is the session's."""

    format: str = ""
    """`holdfast` for our own logs."""
    version: int = 0
    """The version of the format."""
    agent: str = ""
    """The agent that the session belongs to."""
    label: str = ""
    """A name for people; `label` records change it."""
    parent_session: str | None = None
    """The session that this one came from."""
    parent_record: str | None = None
    """The newest record of the parent that this session starts from."""
    reason: str | None = None
    """Why there is a parent session: fork, reset, repair, spawn."""
    owner: str = ""
    """Whose session it is, where an application serves several people."""


class User(_Record, frozen=True, tag="user", kw_only=True):
    """A user's message: text, or blocks of the provider's own shape."""

    content: Content
    """Text, or blocks."""
    name: str | None = None
    """Who said it, where several people write."""


class Assistant(_Record, frozen=True, tag="assistant", kw_only=True):
    """A model's message. Tool calls and thinking, with its signature, are blocks of it."""

    content: Content
    """Text, or blocks."""
    provider: str | None = None
    """The provider that was called."""
    model: str | None = None
    """The name by which the model was called."""
    usage: Json | None = None
    """Tokens of the call, in the provider's own words."""
    stop_reason: str | None = None
    """Why the reply ended, in the provider's own words."""
    sent: Json | None = None
    """The origin of the reply: the API, digests of the request as it was sent, and the newest
    record in it. Absent for replies that were imported or made by version 0.1."""


METER: Final = "context meter"
"""The source of lines about how full the context is."""


class InjectedContext(_Record, frozen=True, tag="context", kw_only=True):
    """Text that a program puts before the next user message. The view fences and labels it."""

    text: str
    """The text, as the program gave it."""
    source: str = ""
    """The program it is from."""

    @property
    def is_meter(self) -> bool:
        """True for a line about how full the context is, which holds only where it stands."""
        return self.source.startswith(METER)


class OutputRef(_Open, frozen=True, kw_only=True):
    """The address of an offloaded payload."""

    sha256: str
    """The digest of the payload, by which it is found."""
    bytes: int
    """Its size."""
    kind: str = ""
    """The shape of a text, `details`, or a media type."""
    lines: int | None = None
    """Lines of a text."""
    chars: int | None = None
    """Characters of a text."""


class ToolResult(_Record, frozen=True, tag="tool_result", kw_only=True):
    """The result of one tool call, matched to it by `tool_use_id`."""

    tool_use_id: str
    """The id of the call."""
    content: Content = None
    """The result that the model gets, or its preview."""
    name: str | None = None
    """The name of the tool."""
    is_error: bool = False
    """True where the tool failed."""
    refused: str | None = None
    """The words with which a person refused the call, which then did not run; empty where they
    gave none."""
    details: Any = None
    """A value for programs; no model sees it."""
    output_ref: OutputRef | None = None
    """The address of the whole result, where it was moved out of the log."""
    pending: bool = False
    """True where the result was not known yet: this stands in its place, and it may follow."""
    key: str | None = None
    """The key of the call, in a result that came after a request had gone out without it. It is
    told as news and takes no one's place."""


class ToolUse(_Record, frozen=True, tag="tool_use", kw_only=True):
    """Read for compatibility with the seed format; Holdfast stores calls as assistant blocks."""

    tool_use_id: str
    """The id of the call."""
    name: str = ""
    """The name of the tool."""
    input: Any = None
    """Its arguments."""


class Compaction(_Record, frozen=True, tag="compaction", kw_only=True):
    """A boundary: the view starts with this summary, then the records from `first_kept` on."""

    summary: str
    """The text that stands for the records before the cut."""
    first_kept: str | None = None
    """The first record that stays in view; none means that none does."""
    covers: tuple[str, str] | None = None
    """The first and the last record that the summary stands for."""
    window: int | None = None
    """The window that it was made for; larger ones see the whole log again."""
    tokens_before: int | None = None
    """Size of the view before the cut."""
    tokens_after: int | None = None
    """Size of the view after it."""
    method: Literal["model", "extract"] | None = None
    """By a model, or by extracting from the log."""
    model: str | None = None
    """The model that wrote the summary."""
    usage: Json | None = None
    """Tokens of its calls, in the provider's own words."""
    cost: float | None = None
    """In dollars, by list price."""
    reason: str | None = None
    """Why it was made: `asked`, `full`, `cold` or `overflow`."""
    carry: str | None = None
    """Text for the next cut to carry over, where this view had no room for all of it."""
    turn: list[Json] | None = None
    """Records from before the cut that stay in view, as the log has them: the user messages of the
    turn that was cut, and protected steps. They are read without going back to them."""
    outputs: list[Json] | None = None
    """The newest offloaded outputs before the cut: what made each, and its ref."""
    reasoning: int | None = None
    """Replies that stay in view and whose reasoning ends with this cut."""


class PruneDecision(_Open, frozen=True, kw_only=True):
    record: str
    """The record of the result."""
    action: Literal["trim", "clear"]
    """`trim` keeps its beginning and end, `clear` nothing but a note."""
    tool_use_id: str | None = None
    """The call it answers, where a record holds several results."""
    keep: int | None = None
    """Characters that a trim leaves; none means the default."""


class Prune(_Record, frozen=True, tag="prune", kw_only=True):
    """Which tool results are shortened in the view, and for which window."""

    decisions: list[PruneDecision]
    """One for each result."""
    window: int | None = None
    """The window that it was made for."""
    reason: str | None = None
    """Why it was made."""
    reasoning: int | None = None
    """Replies in view whose reasoning ends with it."""


class Epoch(_Record, frozen=True, tag="epoch", kw_only=True):
    """From here on requests begin differently, for another reason than a compaction or a prune."""

    cause: str
    """Why: `system`, `tools`, `dialect`, `window`, `undo`, `refused`, `unanswered`, `upgrade` or
    `view`."""
    detail: str = ""
    """More about it, for people."""
    reasoning: int | None = None
    """Replies in view whose reasoning ends with it."""
    drops_reasoning: bool = False
    """True if no reasoning from before this record is sent again: a provider refused it."""
    media: list[str] = []
    """The records whose pictures and documents were refused. An `undo` of this record brings them
    back, and what is in `left_out`."""
    left_out: dict[str, str] = {}
    """The records that were refused as a whole, each with the note in its place; without a note,
    nothing stands there."""
    fields: list[str] = []
    """Fields beside the conversation that were refused, by their paths in the body."""
    provider: str | None = None
    """The provider that refused it."""
    model: str | None = None
    """The model that it is not sent to again; none means every model."""


class CallState(_Record, frozen=True, tag="call", kw_only=True):
    """The state of a tool call, beside its result. The newest one of a key counts."""

    key: str
    """The key of the call, unique in its session."""
    state: str
    """`parked`: it waits for a person. `approved`, `denied`: a person decided. `expired`: no one
    did in time. `withdrawn`: the session went on elsewhere. `started`: it was run, and its outcome
    is unknown until a result follows. `allowed`: from here on the tool needs no approval for the
    same reason."""
    call: str
    """The id of the call in the reply."""
    reply: str
    """The record of the reply that made it."""
    name: str = ""
    """The name of the tool."""
    arguments: Json | None = None
    """The arguments of the call: as the model gave them where it was parked, and others that it was
    approved with."""
    reason: str = ""
    """Why it was parked, or the words of the person who decided."""
    by: str = ""
    """Who decided."""
    until: float | None = None
    """The time after which no one may decide, in seconds since 1970."""
    approvers: list[str] = []
    """The names of those who may decide; empty for anyone who may use the session."""
    is_told: bool = False
    """True where a request had gone out with something else in the place of its result."""


class ToolsAdded(_Record, frozen=True, tag="tools", kw_only=True):
    """From here on the model may call these tools, too; requests before it go on unchanged."""

    tools: list[Json]
    """Each with `name`, `description` and `parameters`, as it was sent."""


class Rewind(_Record, frozen=True, tag="rewind", kw_only=True):
    """The head moves to `to`; what came after it stays in the log as a branch."""

    to: str
    """The record that is the head from here on."""
    reason: str | None = None
    """Why, as the caller gave it."""


class Undo(_Record, frozen=True, tag="undo", kw_only=True):
    """A compaction or a prune no longer counts; it stays in the log, and so does what it cut."""

    target: str
    """The compaction or prune that no longer counts."""
    reason: str | None = None
    """Why, as the caller gave it."""


class Checkpoint(_Record, frozen=True, tag="checkpoint", kw_only=True):
    """The state of the work at this point, as captured from the log."""

    state: Json
    """Requests, open tasks, failures, files and decisions so far."""
    trigger: str | None = None
    """The reason for it, such as `asked` or `compaction`."""


class Flush(_Record, frozen=True, tag="flush", kw_only=True):
    """Notes were saved: before a cut, at the policy's threshold, or when the session was left."""

    notes: list[str] = []
    """The notes that were saved."""
    sources: list[str] = []
    """The record that each of them was said in; empty for one that a model wrote."""
    trigger: str | None = None
    """The occasion: `compaction`, `threshold` or leaving the session."""
    usage: Json | None = None
    """Tokens of the call that wrote them, in the provider's own words."""


class Label(_Record, frozen=True, tag="label", kw_only=True):
    """Names a record, or the session where there is no target. An empty label takes it away."""

    label: str
    """The name; empty takes it away."""
    target: str | None = None
    """The record that it names; none means the session."""


class ModelChange(_Record, frozen=True, tag="model", kw_only=True):
    """The model in use from here on."""

    model: str
    """The name of the model."""
    provider: str | None = None
    """Its provider."""
    window: int | None = None
    """Its context window, where it was stated or learned."""


class CallFailure(_Record, frozen=True, tag="failure", kw_only=True):
    """A call that brought no reply, and why."""

    cause: str
    """The error, as the provider or the network gave it."""
    failure: str | None = None
    """The name of the failure, as `holdfast classify` gives it."""
    status: int | None = None
    """The HTTP status, where there was one."""


class Mode(_Record, frozen=True, tag="mode", kw_only=True):
    """The mode of a session: each turn in the same log, or each in a fresh session."""

    mode: Literal["continue", "fresh"]
    """`continue` keeps one log, `fresh` starts a session for each turn."""
    continued_in: str | None = None
    """The session that goes on from here, for anyone who opens this one by its name."""


class Unknown(_Record, frozen=True, tag="", kw_only=True):
    """A record of a type this version does not know: kept, carried and reported."""

    type: str = msgspec.field(name="$type", default="")
    """The word in the field `type`."""

    @property
    def kind(self) -> str:
        return self.type


_Known: TypeAlias = (
    Header
    | User
    | InjectedContext
    | Assistant
    | ToolResult
    | ToolUse
    | Compaction
    | Prune
    | Rewind
    | Undo
    | Checkpoint
    | Flush
    | Label
    | ModelChange
    | CallFailure
    | Mode
    | Epoch
    | ToolsAdded
    | CallState
)
Record: TypeAlias = _Known | Unknown
"""A line of a session's log. The classes of this union are all there are."""

BY_TYPE: Final[dict[str, type[_Known]]] = {
    str(struct.__struct_config__.tag): struct for struct in get_args(_Known)
}
MESSAGES: Final = ("user", "assistant", "tool_result")
"""The types a model sees."""

_COMMON: Final = ("id", "ts", "parent", "more")


def _names(struct: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(struct.__struct_encode_fields__) - {"$extra"}


_FIELDS: Final = {tag: _names(struct) for tag, struct in BY_TYPE.items()}
_NESTED: Final = {
    "output_ref": _names(OutputRef),
    "decisions": _names(PruneDecision),
}
"""The fields of a record that are structs themselves."""
_CAREFUL: Final = frozenset((Unknown, Prune, ToolResult))
_TYPED: Final = {tag: fields | {"type"} for tag, fields in _FIELDS.items()}
_NESTED_IN: Final = {tag: tuple(_NESTED.keys() & fields) for tag, fields in _FIELDS.items()}
_UNTYPED: Final = frozenset((*_COMMON, "type"))
ORIGINAL_FIELD: Final = "original"
"""The field in which an adapter keeps the item of a framework, last in its line."""
WORDS_FIELD: Final = "says"
"""The field in which a record that we do not know says in words what it is, for a listing."""
_ORIGINAL_START: Final = f',"{ORIGINAL_FIELD}":'.encode()

_SHALLOW_BYTES: Final = 2 * RECORD_NESTING_MAX  # no room for brackets nested too deeply
_TOO_DEEP: Final = Flaw("garbage", "nested too deeply")
_encoder: Final = msgspec.json.Encoder()


@cache
def record_decoder() -> msgspec.json.Decoder[_Known]:
    """Return the decoder of a line, made on first use: it resolves the types of all records."""
    return decoder_of(_Known)


def encode(record: Record) -> bytes:
    """One line, without its newline. Lone surrogates become U+FFFD on the way."""
    try:
        try:
            line = _encode(record)
        except UnicodeEncodeError:
            line = _encoder.encode(scrub_deep(_as_json(record)))
        if may_be_deep(line, RECORD_NESTING_MAX) and is_too_deep(record, RECORD_NESTING_MAX):
            raise RecursionError
        return line
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRecord(
            f"a `{record.kind}` record holds what JSON cannot: {error}",
            hint="store text, numbers, lists and objects; put bytes into a blob",
        ) from error
    except RecursionError as error:
        raise BadRecord(
            f"a `{record.kind}` record is nested too deeply to be stored",
            hint="store the value as text, or put it into a blob",
        ) from error


def encode_lines(records: Sequence[Record]) -> bytes:
    """Several lines, each with its newline, that will be read as records again. A struct takes any
    value for any field; what a reader would not accept is refused here."""
    try:
        for record in records:
            if record.extra or (type(record) in _CAREFUL and _needs_care(record)):
                break
        else:
            data = _encoder.encode_lines(records)
            read = record_decoder().decode_lines(data)
            nested = [record for record in read if not _is_flat(record)]
            levels, lines = RECORD_NESTING_MAX, _encoder.encode_lines(nested)
            if not may_be_deep(lines, levels, len(nested)) or not is_too_deep(nested, levels + 1):
                return data
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        pass  # said better one by one, or mended there
    return b"".join(_readable_line(record) + b"\n" for record in records)


def _readable_line(record: Record) -> bytes:
    taken = record.extra.keys() & {"type", *_FIELDS.get(record.kind, _COMMON)}
    if taken:
        raise BadRecord(
            f"the extra fields of a `{record.kind}` record have names that are taken: "
            f"{', '.join(sorted(taken))}",
            hint="set the fields themselves",
        )
    line = encode(record)
    found = decode(line)
    if isinstance(found, Flaw):
        raise BadRecord(
            f"a `{record.kind}` record has a field of the wrong type: {found.detail}",
            hint="the fields of every type are in docs/format.md",
        )
    return line


def decode(line: bytes) -> Record | Flaw:
    """The record in a line, or why it is none. Never raises, whatever the bytes."""
    found: Record | Flaw
    try:
        place = line.rfind(_ORIGINAL_START)
        if place > 0:
            return _check_depth(_decode_with_original(line, place), line)
        found = record = record_decoder().decode(line)
        if record.extra or (type(record) in _CAREFUL and has_odd_names(record)):
            found = _decode_carefully(line)
    except msgspec.ValidationError:
        found = _decode_carefully(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = _decode_leniently(line)
    return found if len(line) <= _SHALLOW_BYTES else _check_depth(found, line)


def _decode_with_original(line: bytes, place: int) -> Record | Flaw:
    """Decode the typed fields of a line by themselves: its last field would have them refused."""
    try:
        record = record_decoder().decode(line[:place] + b"}")
        kept = msgspec.json.decode(line[place + len(_ORIGINAL_START) : -1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_carefully(line)  # it is not the last field, or there are others
    if has_odd_names(record) or line[-1:] != b"}":
        return _decode_carefully(line)
    msgspec.structs.force_setattr(record, "extra", {ORIGINAL_FIELD: kept})  # no one has it yet
    return record


def _check_depth(found: Record | Flaw, line: bytes) -> Record | Flaw:
    """Return what a line was decoded to; a flaw where it is nested too deeply."""
    levels = RECORD_NESTING_MAX
    if len(line) <= _SHALLOW_BYTES or _is_flat(found) or not may_be_deep(line, levels):
        return found  # most lines: counting brackets would cost half as much as decoding
    return _TOO_DEEP if is_too_deep(found, levels) else found


def _is_flat(found: Record | Flaw) -> bool:
    """True for a message of texts, with nothing in it or beside it that could be nested deeply."""
    if type(found) is ToolResult and found.details is None and found.output_ref is None:
        return is_shallow(found.content) and is_shallow(found.extra)
    if type(found) is User or (type(found) is Assistant and is_shallow(found.usage)):
        return is_shallow(found.content) and is_shallow(found.extra)
    return False


def from_json(value: object) -> Record | Flaw:
    """A record from parsed JSON, with the same rules as for a line."""
    if not isinstance(value, dict):
        return Flaw("shape", f"expected an object, found {json_type(value)}")
    kind = value.get("type")
    if not isinstance(kind, str) or not kind:
        return Flaw("shape", "no `type`")
    if "ts" in value and value["ts"] is None:
        # How JSON spells a time that is not a number; to refuse it would lose the record.
        value = {name: item for name, item in value.items() if name != "ts"}
    known = _TYPED.get(kind)
    try:
        if known is None:
            return _unknown(kind, value)
        folded = fold(value, known)
        for name in _NESTED_IN[kind]:
            if name in folded:
                folded = {**folded, name: fold_nested(folded[name], _NESTED[name])}
        return convert_typed(folded, BY_TYPE[kind])
    except msgspec.ValidationError as error:
        return Flaw("shape", f"{kind}: {error}")


def to_json(record: Record) -> Json:
    """A record as the JSON object its line holds."""
    parsed: Json = msgspec.json.decode(encode(record))
    return parsed


def words_of_unknown(record: Unknown) -> str:
    """Return what a record of another type says of itself in words; empty where it says nothing."""
    words = record.extra.get(WORDS_FIELD)
    return words if isinstance(words, str) else ""


def text_of(content: Content) -> str:
    """The plain text in a message's content."""
    if isinstance(content, str):
        return content
    texts = (block.get("text") for block in content or () if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def tool_calls(content: Content) -> list[Json]:
    """The tool calls among a message's blocks."""
    if not isinstance(content, list):
        return []
    return [block for block in content if block.get("type") == "tool_use"]


def _encode(record: Record) -> bytes:
    return _encoder.encode(_as_json(record) if _needs_care(record) else record)


def _needs_care(record: Record) -> bool:
    """Return whether a record holds something that its struct does not write by itself."""
    return bool(record.extra) or (
        type(record) in _CAREFUL and getattr(record, "output_ref", record) is not None
    )


def has_odd_names(record: Record) -> bool:
    """Return whether a record was decoded from a line with a field that is called `$extra`."""
    if record.extra or type(record) not in _CAREFUL:
        return bool(record.extra)
    if isinstance(record, ToolResult):
        return record.output_ref is not None and bool(record.output_ref.extra)
    return isinstance(record, Prune) and any(decision.extra for decision in record.decisions)


def _as_json(record: Record) -> Json:
    plain: Json = msgspec.to_builtins(record)
    for name in _NESTED.keys() & plain.keys():
        plain[name] = unfold_nested(plain[name])
    for tag in ("type", "$type"):
        plain.pop(tag, None)
    return {"type": record.kind, **unfold(plain)}


def _decode_carefully(line: bytes) -> Record | Flaw:
    """JSON that is not one of our structs as it stands: unknown type or field, or bad shape."""
    try:
        return from_json(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(line)


def _decode_leniently(line: bytes) -> Record | Flaw:
    """Decode what the strict parser refuses: other writers leave lone surrogates and NaN."""
    flaw = flaw_in_bytes(line, SEAL)
    if flaw is not None:
        return flaw
    try:
        value = json.loads(line, parse_constant=lambda _name: None)
        return from_json(scrub_deep(value))
    except RecursionError:
        return _TOO_DEEP
    except ValueError as error:
        return Flaw("garbage", f"not JSON: {error}")


def _unknown(kind: str, value: Json) -> Unknown:
    folded = fold(value, _UNTYPED)
    plain = {name: item for name, item in folded.items() if name != "type"}
    return convert_typed({**plain, "$type": kind}, Unknown)

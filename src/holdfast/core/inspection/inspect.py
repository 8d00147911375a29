"""Inspect a transcript: tokens by kind, tool, file, turn and item; repetitions; cost."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from holdfast.core.inspection.habits import (
    DUPLICATE_CHARS_MIN,
    BilledCall,
    CacheBreak,
    CarriedResult,
    Habit,
    find_breaks,
    find_habits,
)
from holdfast.core.log.listing import title_of
from holdfast.core.log.records import Assistant, Compaction, Epoch, Prune, User
from holdfast.core.log.replay import ORIGINAL_PROMPT
from holdfast.core.models.messages import (
    AddedTools,
    Image,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
    arguments_json,
    text_of_blocks,
)
from holdfast.core.models.totals import (
    Spent,
    bill_for,
    call_cost,
    calls_before_cuts,
    is_call,
    price_moment,
    total_of,
)
from holdfast.core.models.usage import read_usage
from holdfast.core.narrative.digest import arguments_text
from holdfast.core.projection.sizes import Correction, Scale, Weight
from holdfast.core.projection.steps import Thread, ViewRepair
from holdfast.core.projection.view import turns_of
from holdfast.core.secrets.plain_reading import plain_reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block, Tool
    from holdfast.core.models.totals import PriceFor, SessionTotals
    from holdfast.core.projection.units import ContextUnit, MessagePart

KINDS: Final = (
    *("system prompt", "tool schemas", "user", "added by programs", "assistant", "thinking"),
    *("tool calls", "tool results", "images", "other"),
)
"""The kinds of tokens, in the order of a request. A program adds reminders, files and notices in
the user's role; they are not the user's words."""
_PATH_NAMES: Final = ("file_path", "path", "filename", "file", "notebook_path", "filePath")


class Group(msgspec.Struct, frozen=True):
    """Tokens that belong together."""

    name: str
    tokens: int
    count: int = 0
    largest: int = 0
    errors: int = 0


class InspectedItem(msgspec.Struct, frozen=True):
    """One record that takes much room."""

    record: str
    kind: str
    tokens: int
    says: str
    name: str = ""


class Double(msgspec.Struct, frozen=True):
    """The same result, more than once."""

    name: str
    copies: int
    tokens: int
    """All copies but the first."""
    records: tuple[str, ...]
    says: str


class InspectedCall(msgspec.Struct, frozen=True):
    """One request to the model: what we count, and what the provider reported."""

    record: str
    ts: float
    seen: int
    """Tokens of the messages before it."""
    reported: int | None = None
    """Prompt tokens, as the provider counted them; None where it did not say."""
    cost: float | None = None
    """Dollars; None where its size or its price is unknown."""


class Inspection(msgspec.Struct, frozen=True):
    """Everything there is to know about the size of a conversation."""

    records: int
    """Records of the conversation, from its beginning to its end."""
    turns: int
    """Messages of the user, on every branch."""
    steps: int
    """Replies with the results of their calls."""
    tokens: int
    """All of it, as one request that nothing was cut from."""
    factor: float
    counter: str
    models: tuple[str, ...]
    started: float
    ended: float
    compactions: int
    """Compactions, on every branch."""
    kinds: tuple[Group, ...]
    tools: tuple[Group, ...]
    files: tuple[Group, ...]
    images: Group
    by_turn: tuple[InspectedItem, ...]
    biggest: tuple[InspectedItem, ...]
    doubles: tuple[Double, ...]
    repairs: tuple[ViewRepair, ...]
    calls: tuple[InspectedCall, ...]
    """The calls of the conversation; those of abandoned branches are in `spent` alone."""
    spent: Spent
    """The bill, on every branch."""
    abandoned_calls: int = 0
    """Calls in `spent` that were made on abandoned branches, or for summaries and notes."""
    cuts: tuple[int, ...] = ()
    """The number of calls that were made before each compaction."""
    breaks: tuple[CacheBreak, ...] = ()
    """Calls that paid again for a prefix which had been in the cache."""
    habits: tuple[Habit, ...] = ()
    """The things that were paid for and could have been spared, the most expensive first."""

    @property
    def doubled_tokens(self) -> int:
        return sum(double.tokens for double in self.doubles)

    @property
    def unseen_static(self) -> int | None:
        """Return the tokens of the first reported request beside its messages: system prompt and
        tools."""
        return _unseen_static(self.calls, self.kinds)

    @property
    def static(self) -> int:
        """Return the tokens of the system prompt and the tools; 0 where nothing tells of them."""
        return _static(self.calls, self.kinds)


def _unseen_static(calls: Sequence[InspectedCall], kinds: Sequence[Group]) -> int | None:
    first = next((call for call in calls if call.reported is not None), None)
    if first is None or first.reported is None:
        return None
    return max(0, first.reported - first.seen - _sum_static(kinds))


def _sum_static(kinds: Sequence[Group]) -> int:
    return sum(group.tokens for group in kinds[:2])


def _static(calls: Sequence[InspectedCall], kinds: Sequence[Group]) -> int:
    return (_unseen_static(calls, kinds) or 0) + _sum_static(kinds)


def inspect(
    records: Sequence[Record],
    *,
    scale: Scale,
    system: str = "",
    tools: Sequence[Tool] = (),
    price_for: PriceFor | None = None,
    totals: SessionTotals | None = None,
    top: int = 10,
) -> Inspection:
    """Look at a whole conversation, cuts that were made in it left aside.

    `totals` are those of its session, on every branch; without them, the records are all there is.
    """
    thread = Thread()
    for record in records:
        thread.feed(record)
    totals = totals or total_of(records)
    units = thread.units()
    models = dict.fromkeys(
        item.model for item in records if isinstance(item, Assistant) and item.model is not None
    )
    model = next(reversed(models), "")
    calibration = scale.base(model)
    sizes = _Sizes(scale, Correction(calibration.factor, calibration.per_result))
    kinds = _kinds(units, sizes, system, tools, _own_words(records))
    spent = bill_for(totals, price_for, model_default=model, helper_default=model)
    calls = _calls(records, units, sizes, price_for, model)
    cuts = calls_before_cuts(records)
    billed = _collect_billed(records, units, price_for, model)
    breaks = find_breaks(billed, _calls_before_epochs(records))
    static = _static(calls, kinds)
    habits = find_habits(billed, _collect_results(units, calls, sizes), cuts, breaks, static)
    times = [record.ts for record in records if record.ts > 0]
    return Inspection(
        records=len(records),
        turns=totals.turns,
        steps=sum(not unit.is_user for unit in units),
        tokens=sum(group.tokens for group in kinds),
        factor=round(calibration.factor, 3),
        counter=scale.counter.name,
        models=tuple(models),
        started=min(times, default=0.0),
        ended=max(times, default=0.0),
        compactions=totals.compactions,
        kinds=kinds,
        tools=_tools(units, sizes),
        files=_files(units, sizes)[: 2 * top],
        images=_images(units, sizes),
        by_turn=_by_turn(units, sizes),
        biggest=_biggest(units, sizes, top),
        doubles=_doubles(units, sizes),
        repairs=tuple(thread.all_repairs()),
        calls=calls,
        spent=spent,
        abandoned_calls=max(0, spent.calls - len(calls)),
        cuts=cuts,
        breaks=breaks,
        habits=habits,
    )


class _Sizes:
    """Tokens of anything, in the provider's measure."""

    def __init__(self, scale: Scale, correction: Correction) -> None:
        self.scale = scale
        self._correction = correction

    def block(self, block: Block) -> int:
        return self._correction.tokens(self.scale.block(block))

    def part(self, part: MessagePart) -> int:
        return self._correction.tokens(self.scale.part(part))

    def unit(self, unit: ContextUnit) -> int:
        return self._correction.tokens(self.scale.unit(unit))

    def count(self, tokens: int) -> int:
        return self._correction.tokens(Weight(tokens))


class _Tally:
    """Groups in the making."""

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}

    def add(self, name: str, tokens: int, *, count: int = 1, is_error: bool = False) -> None:
        row = self._rows.setdefault(name, [0, 0, 0, 0])
        row[0] += tokens
        row[1] += count
        row[2] = max(row[2], tokens)
        row[3] += is_error

    def groups(self) -> tuple[Group, ...]:
        rows = sorted(self._rows.items(), key=lambda item: (-item[1][0], item[0]))
        return tuple(Group(name, *row) for name, row in rows)

    def get(self, name: str) -> Group:
        return Group(name, *self._rows.get(name, (0, 0, 0, 0)))


def _own_words(records: Iterable[Record]) -> dict[str, str]:
    """Return the user's words in the messages that a program put more into."""
    return {
        record.id: words
        for record in records
        if isinstance(record, User) and isinstance(words := record.extra.get(ORIGINAL_PROMPT), str)
    }


def _kinds(
    units: Iterable[ContextUnit],
    sizes: _Sizes,
    system: str,
    tools: Sequence[Tool],
    own_words: Mapping[str, str],
) -> tuple[Group, ...]:
    tally = _Tally()
    if system:
        tally.add("system prompt", sizes.count(sizes.scale.text(system)))
    for tool in tools:
        tally.add("tool schemas", sizes.count(sizes.scale.tools((tool,))))
    for part in _parts(units):
        own = own_words.get(part.record)
        left = sizes.block(Text(own)) if own is not None and part.source == "user" else None
        for block in part.blocks:
            for kind, inner in _kinds_in(block, _speaker(part)):
                size = sizes.block(inner)
                if kind == "user" and left is not None:
                    own_size = min(size, left)
                    if size > own_size:
                        tally.add("added by programs", size - own_size)
                    size, left = own_size, left - own_size
                tally.add(kind, size)
    return tuple(tally.get(kind) for kind in KINDS)


def _speaker(part: MessagePart) -> str:
    """Name the kind of a part's text."""
    if part.source in ("program", "context", "injected"):
        return "added by programs"
    return part.role


def _kinds_in(block: Block, speaker: str) -> Iterable[tuple[str, Block]]:
    match block:
        case Text():
            yield speaker, block
        case Thinking():
            yield "thinking", block
        case ToolCall():
            yield "tool calls", block
        case Image():
            yield "images", block
        case ToolAnswer(content=content):
            pictures = [piece for piece in content if isinstance(piece, Image)]
            rest = tuple(piece for piece in content if not isinstance(piece, Image))
            yield "tool results", msgspec.structs.replace(block, content=rest)
            yield from (("images", picture) for picture in pictures)
        case AddedTools():
            pass  # counted with the schemas
        case Other():
            yield "other", block
        case _:
            assert_never(block)


def _tools(units: Iterable[ContextUnit], sizes: _Sizes) -> tuple[Group, ...]:
    tally = _Tally()
    for part in _parts(units):
        for block in part.blocks:
            if isinstance(block, ToolAnswer):
                tally.add(block.name or "?", sizes.block(block), is_error=block.is_error)
            elif isinstance(block, ToolCall):
                tally.add(block.name or "?", sizes.block(block), count=0)
    return tally.groups()


def _files(units: Iterable[ContextUnit], sizes: _Sizes) -> tuple[Group, ...]:
    """Tokens by the file that a call names: its arguments and its result."""
    tally = _Tally()
    for unit in units:
        paths = {
            block.id: path
            for part in unit.parts
            for block in part.blocks
            if isinstance(block, ToolCall) and (path := _path_in(block.arguments))
        }
        for part in unit.parts:
            for block in part.blocks:
                if isinstance(block, ToolCall) and block.id in paths:
                    tally.add(paths[block.id], sizes.block(block), count=0)
                elif isinstance(block, ToolAnswer) and block.call_id in paths:
                    tally.add(paths[block.call_id], sizes.block(block), is_error=block.is_error)
    return tally.groups()


def _path_in(arguments: Mapping[str, object]) -> str:
    found = (arguments.get(name) for name in _PATH_NAMES)
    return next((item for item in found if isinstance(item, str) and item), "")


def _images(units: Iterable[ContextUnit], sizes: _Sizes) -> Group:
    tally = _Tally()
    for part in _parts(units):
        for block in part.blocks:
            for kind, inner in _kinds_in(block, _speaker(part)):
                if kind == "images":
                    tally.add(kind, sizes.block(inner))
    return tally.get("images")


def _by_turn(units: Sequence[ContextUnit], sizes: _Sizes) -> tuple[InspectedItem, ...]:
    starts = [*turns_of(units), len(units)]
    return tuple(
        InspectedItem(
            record=units[start].first,
            kind="turn",
            tokens=sum(sizes.unit(unit) for unit in units[start:end]),
            says=_says(units[start].parts[0]),
            name=f"{sum(not unit.is_user for unit in units[start:end])} steps",
        )
        for start, end in itertools.pairwise(starts)
    )


def _biggest(units: Iterable[ContextUnit], sizes: _Sizes, top: int) -> tuple[InspectedItem, ...]:
    items = [
        InspectedItem(part.record, part.source, sizes.part(part), _says(part), _tool_of(part))
        for part in _parts(units)
        if part.record
    ]
    items.sort(key=lambda item: (-item.tokens, item.record))
    return tuple(items[:top])


def _doubles(units: Iterable[ContextUnit], sizes: _Sizes) -> tuple[Double, ...]:
    """Results whose text is the same to the last character."""
    alike: dict[bytes, list[MessagePart]] = {}
    for part in _parts(units):
        text = "\n".join(
            text_of_blocks(block.content) for block in part.blocks if isinstance(block, ToolAnswer)
        )
        if len(text) >= DUPLICATE_CHARS_MIN:
            alike.setdefault(hashlib.sha256(text.encode()).digest(), []).append(part)
    found = [
        Double(
            name=_tool_of(parts[0]),
            copies=len(parts),
            tokens=sum(map(sizes.part, parts[1:])),
            records=tuple(part.record for part in parts),
            says=_says(parts[0]),
        )
        for parts in alike.values()
        if len(parts) > 1
    ]
    return tuple(sorted(found, key=lambda one: (-one.tokens, one.records)))


def _calls(
    records: Sequence[Record],
    units: Sequence[ContextUnit],
    sizes: _Sizes,
    price_for: PriceFor | None,
    model: str,
) -> tuple[InspectedCall, ...]:
    """The size of the history before each reply, beside what the provider reported."""
    by_id = {item.id: item for item in records if isinstance(item, Assistant) and is_call(item)}
    calls: list[InspectedCall] = []
    seen = 0
    for unit in units:
        record = by_id.get(unit.first)
        if record is not None:
            usage = read_usage(record.usage, record.provider or "")
            reported = usage.prompt if usage else None
            cost = call_cost(record, price_for, model)
            calls.append(InspectedCall(record.id, record.ts, seen, reported, cost))
        seen += sizes.unit(unit)
    return tuple(calls)


def _calls_before_epochs(records: Sequence[Record]) -> tuple[int, ...]:
    """Return the number of calls before each record that rewrites the prefix on purpose."""
    calls, found = 0, []
    for record in records:
        calls += isinstance(record, Assistant) and is_call(record)
        if isinstance(record, Compaction | Prune | Epoch):
            found.append(calls)
    return tuple(found)


def _collect_billed(
    records: Sequence[Record],
    units: Sequence[ContextUnit],
    price_for: PriceFor | None,
    model: str,
) -> list[BilledCall]:
    """Return the calls of the conversation, as they are billed."""
    by_id = {item.id: item for item in records if isinstance(item, Assistant) and is_call(item)}
    found = []
    for unit in units:
        record = by_id.get(unit.first)
        if record is None:
            continue
        provider, named = record.provider or "", record.model or model
        price = price_for and price_for(named, provider, price_moment(record.ts))
        usage = read_usage(record.usage, provider)
        said = "\n".join(_read_said(block) for part in unit.parts for block in part.blocks)
        found.append(BilledCall(record.id, record.ts, named, usage, price, said))
    return found


def _read_said(block: Block) -> str:
    """Return the words of a model's own block."""
    if isinstance(block, Text | Thinking):
        return block.text
    return arguments_text(block.arguments) if isinstance(block, ToolCall) else ""


def _collect_results(
    units: Sequence[ContextUnit], calls: Sequence[InspectedCall], sizes: _Sizes
) -> list[CarriedResult]:
    """Return the results in order, each with the number of calls before it."""
    made = {call.record for call in calls}
    asked: dict[str, tuple[str, str]] = {}
    found = []
    place = 0
    for unit in units:
        place += unit.first in made
        for part in unit.parts:
            for block in part.blocks:
                if isinstance(block, ToolCall):
                    name = _path_in(block.arguments) or block.name
                    asked[block.id] = (name, f"{block.name} {arguments_json(block.arguments)}")
                elif isinstance(block, ToolAnswer):
                    text, tool = text_of_blocks(block.content), block.name or "?"
                    name, what = asked.get(block.call_id, (tool, block.call_id))
                    found.append(
                        CarriedResult(
                            *(part.record, name, tool, what, sizes.block(block)),
                            *(block.is_error or part.is_failed, text, place),
                        )
                    )
    return found


def _parts(units: Iterable[ContextUnit]) -> Iterable[MessagePart]:
    return (part for unit in units for part in unit.parts)


def _tool_of(part: MessagePart) -> str:
    names = (block.name for block in part.blocks if isinstance(block, ToolAnswer | ToolCall))
    return next(names, "")


def _says(part: MessagePart) -> str:
    texts = []
    for block in part.blocks:
        match block:
            case Text(text):
                texts.append(text)
            case ToolAnswer(content=content):
                texts.append(text_of_blocks(content))
            case ToolCall(name=name):
                texts.append(f"→ {name}")
            case Image(media_type=kind):
                texts.append(f"[{kind or 'image'}]")
            case _:
                pass  # thinking and unknown blocks make no title
    said = "  ".join(text[:400] for text in texts)
    reading = plain_reading(said)  # without the colours of a terminal
    return title_of(reading.text if reading is not None else said)

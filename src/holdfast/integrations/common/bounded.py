"""Keeps the messages of another framework's loop within a window.

The framework sends a growing list; a request must fit. Its messages become records, Holdfast
projects them, and what is left alone goes out as the framework had it. A cut is remembered while
the list goes on, so that the prefix of the next request is the same; and so are the system prompt
and tools, so that reasoning which is bound to another request is left out. What is remembered are
records. An adapter keeps them beside the reply to the request that they were made for, wherever
its framework stores that, so that another process goes on from them.
"""

from __future__ import annotations

import hashlib
import operator
import threading
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypedDict

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.failures.classify import learned_window
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Epoch,
    Prune,
    Unknown,
    encode,
    from_json,
    to_json,
)
from holdfast.core.models.generation import traits_of
from holdfast.core.projection.policy import policy_of
from holdfast.core.projection.project import Plan, project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.turn.refusals import (
    REASONING_ACTIONS,
    REPAIRS_MAX,
    Repair,
    find_repair,
    media_of,
    policy_record,
    repair_record,
)
from holdfast.core.window import Window, window_argument
from holdfast.engine.session.prepare import cache_for
from holdfast.errors import CannotFit
from holdfast.providers.failures import name_failure
from holdfast.providers.known_models.lookup import window_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.failures.classify import Failure
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.projection.units import ContextUnit, MessagePart
    from holdfast.core.window import GivenWindow

_CONVERSATIONS_MAX: Final = 64
"""Conversations whose cuts are remembered; an older one is cut again, and misses the cache once."""
_HARMLESS: Final = frozenset(
    (
        *("merged-roles", "no-opening", "no-question", "interrupted-call", "foreign-thinking"),
        *("moved-result", "empty-message", "empty-result"),
    )
)
"""Repairs of a view that leave the record they name as it was."""

TRIES_MAX: Final = 5
"""Smaller requests after a refusal. Each is at most seven tenths of the one before: the fifth is a
sixth of the first."""
_SMALLER_SHARE: Final = 0.7
"""Of a refused size, for the next request, where the provider states no limit."""
_LIMIT_MARGIN: Final = 0.9
"""Of a stated limit: our count and the provider's differ by a few per cent."""

_NAMED: Final = "m"
"""The beginning of the ids that messages get here."""
_DECIDED: Final = "d"
"""The beginning of the ids of decisions, made from what they say: what two processes decide alike
is one decision."""
_LIST: Final = "list"
"""The field of a decision with a digest of the list that it was made for: it is about no other."""
_HEAD: Final = "head"
"""The field of a decision that says what requests begin with from there on: digests of the system
prompt and the tools, and of the cuts that a larger window put aside."""
_FIRST: Final = "peer_origin"
"""The type of the record with what the first request begins with."""
DECISIONS_FIELD: Final = "holdfast"
"""The name under which a framework's own reply keeps decisions."""


class BoundsOptions(TypedDict, total=False):
    """The window that requests are bounded to, and how."""

    window: GivenWindow
    policy: Policy | PolicyName | None


class RequestSize(TypedDict, total=False):
    """The rest of a request beside its messages, as far as its size is concerned."""

    system: str
    tools: Sequence[Tool]
    output_tokens: int | None
    at_most: int | None
    """The most tokens that it may have: a larger one was refused."""
    model: str
    """The model that is asked, where the bounds were made for none."""


class BoundedView(msgspec.Struct, frozen=True):
    """A list of messages that fits."""

    plan: Plan
    ids: tuple[str, ...]
    """The ids of the records of the list."""
    opening: tuple[ContextUnit, ...]
    """Units that take the place of the messages before `start`: the carry-over of a cut."""
    start: int
    """The first message that is kept."""
    changed: dict[str, tuple[MessagePart, ...]]
    """The parts of kept messages that are sent shortened or repaired, by record; a record without
    parts is left out."""
    added: dict[str, tuple[MessagePart, ...]]
    """Parts to send after a record: the answers of interrupted calls."""
    stale: frozenset[str] = frozenset()
    """Replies whose reasoning is left out: it was made behind another prefix."""

    @property
    def is_unchanged(self) -> bool:
        """True where the list can be sent as it is."""
        is_whole = not self.start and not self.opening and not self.stale
        return is_whole and not self.changed and not self.added

    def rows(
        self, start: int | None = None
    ) -> Iterator[tuple[int, tuple[MessagePart, ...] | None, bool, tuple[MessagePart, ...]]]:
        """Yield the place of each record that is kept, the parts that take its place, whether its
        reasoning is left out, and the parts to send after it."""
        for place in range(self.start if start is None else start, len(self.ids)):
            name = self.ids[place]
            yield place, self.changed.get(name), name in self.stale, self.added.get(name, ())


class ListBounds:
    """Fits lists of messages into a window, one conversation after the other or at once."""

    def __init__(
        self,
        target: Target,
        *,
        window: GivenWindow = None,
        policy: Policy | PolicyName | None = None,
    ) -> None:
        self.target = target
        self._window = window_argument(window) or window_of(target.model)
        self._policy = policy_of(policy or "balanced")
        self._decided: OrderedDict[str, list[Record]] = OrderedDict()
        """Decisions by conversation. Each names the one before it as its parent."""

    @property
    def window(self) -> Window:
        """The window that requests are fitted into."""
        return self._window

    def fit(
        self,
        records: Sequence[Record],
        *,
        system: str = "",
        tools: Sequence[Tool] = (),
        output_tokens: int | None = None,
        at_most: int | None = None,
        model: str = "",
    ) -> BoundedView:
        """Return a view of records, which have ids of `name_records`, that fits. Raises
        `CannotFit`."""
        conversation = records[0].id if records else ""
        digests = _digests(records)
        places = {digest: place for place, digest in enumerate(digests)}
        standing = _standing(places, self._decided.get(conversation, []))
        request = ProjectionRequest(
            records=_insert(records, places, standing),
            window=self._window,
            target=self.target,
            system=system,
            tools=tools,
            output_tokens=output_tokens,
            policy=self._policy,
            floor=0,
            at_most=at_most,
            has_stored_ids=False,
        )
        plan = project(request, cache_for(self.target))
        head = _head_record(_head(system, tools, standing, self._window), standing)
        fresh = plan.decisions if head is None else (head, *plan.decisions)
        standing = [*standing, *self._remember(records, digests[-1], standing, fresh)]
        stale = _find_stale(records, places, standing, model or self.target.model)
        stale |= _replies_before_refusal(records, places, standing)
        return _view(plan, records, frozenset(stale))

    def take_up(self, conversation: str, kept: Iterable[Any]) -> None:
        """Remember decisions of another process, as `decisions_for` returned them there. They
        come before those of this process: replies were made behind them."""
        known = self._decided.get(conversation, [])
        ids = {made.id for made in known}
        found = [
            record
            for value in kept
            if isinstance(value, dict) and str(value.get("id")) not in ids
            if not isinstance(record := from_json(value), Flaw) and _list_of(record)
        ]
        if found:
            self._decided[conversation] = [*found, *known]

    def decisions_for(self, plan: Plan) -> list[Json]:
        """Return the decisions that were made for the request of a plan and for none before it:
        what is to be kept beside the reply."""
        said, standing = self._decisions_about(plan)
        newest = _digests(said)[-1]
        return [to_json(made) for made in standing if _list_of(made) == newest]

    @property
    def has_decisions(self) -> bool:
        """True where a conversation was cut, or something is left out of one."""
        return any(made.kind != _FIRST for known in self._decided.values() for made in known)

    def decide(self, plan: Plan, decision: Record) -> None:
        """Remember a decision about the conversation of a plan, behind its newest message."""
        said, standing = self._decisions_about(plan)
        if said:
            self._remember(said, _digests(said)[-1], standing, [decision])

    def forget(self, plan: Plan, count: int) -> None:
        """Take the newest decisions about the conversation of a plan back."""
        said, standing = self._decisions_about(plan)
        refused = [made.id for made in standing if _is_refusal(made)]
        if count and refused:
            known = self._decided.get(said[0].id, [])
            self._decided[said[0].id] = [made for made in known if made.id not in refused[-count:]]

    def _decisions_about(self, plan: Plan) -> tuple[list[Record], list[Record]]:
        """Return the messages of a plan, and the decisions about them."""
        said = [record for record in plan.records if record.id.startswith(_NAMED)]
        known = self._decided.get(said[0].id, []) if said else []
        return said, _standing(set(_digests(said)), known)

    def _remember(
        self,
        records: Sequence[Record],
        digest: str,
        standing: Sequence[Record],
        fresh: Sequence[Record],
    ) -> list[Record]:
        """Remember decisions about a list; those about other branches of it stay."""
        if not records:
            return []
        base = standing[-1].id if standing else None
        made: list[Record] = []
        for decision in fresh:
            about = {**decision.extra, _LIST: digest}
            named = msgspec.structs.replace(decision, id="", ts=1.0, parent=base, extra=about)
            base = f"{_DECIDED}{hashlib.sha256(encode(named)).hexdigest()[:20]}"
            made.append(msgspec.structs.replace(named, id=base))
        conversation = records[0].id
        known = self._decided.pop(conversation, [])  # the newest is last, also amid evictions
        self._decided[conversation] = [*known, *made]
        while len(self._decided) > _CONVERSATIONS_MAX:
            self._decided.popitem(last=False)
        return made


class Refusals:
    """The refusals of one request, and what is sent after each, none twice: at most five smaller
    requests, or three where more than the size was refused."""

    def __init__(self, bounds: ListBounds) -> None:
        self._bounds = bounds
        self._repairs: list[Repair] = []
        self._tries = self._standing = 0

    def answer(self, error: Exception, plan: Plan, *, output_tokens: int = 0) -> NextRequest | None:
        """Return the next try after a request of a plan was refused; None where none would help.

        What the provider refused for another reason than its size is left out of this
        conversation's requests from now on, also where the error is the caller's to see.
        """
        self._tries += 1
        failure = name_failure(error)
        if failure.kind == "policy":
            record = policy_record(_as_answered(plan), failure.subclass or "policy")
            self._bounds.decide(plan, record)
            return None
        if self._tries > (REPAIRS_MAX if self._repairs else TRIES_MAX):
            self._bring_back(plan)
            return None
        if failure.is_overflow:
            return NextRequest(_smaller_size(failure, plan, output_tokens))
        is_too_large = failure.kind == "payload_too_large"
        repair = _without_media(plan) if is_too_large else self._without_reasoning(failure)
        if repair is None and is_too_large:
            return NextRequest(int(_SMALLER_SHARE * plan.tokens.total))
        repair = repair or find_repair(failure, _as_answered(plan), self._repairs)
        if repair is None or repair.fields or self._tries > REPAIRS_MAX:
            self._bring_back(plan)
            return None
        if repair.brings_back:
            self._bring_back(plan)  # the media were not the cause
        self._repairs.append(repair)
        self._standing += 1
        self._bounds.decide(plan, repair_record(plan, repair))
        return NextRequest()

    def _without_reasoning(self, failure: Failure) -> Repair | None:
        """Return the repair of a refusal of reasoning, once. Whether a framework's list has some
        that the provider reads, the plan does not know."""
        is_done = any(repair.drops_reasoning for repair in self._repairs)
        if is_done or failure.action not in REASONING_ACTIONS:
            return None
        return Repair("drop-thinking", "without earlier thinking", drops_reasoning=True)

    def _bring_back(self, plan: Plan) -> None:
        """Bring back what was left out for nothing."""
        self._bounds.forget(plan, self._standing)
        self._standing = 0


class NextRequest(msgspec.Struct, frozen=True):
    """The next request after a refused one."""

    at_most: int | None = None
    """Tokens that it may have; None for as many as fit."""


def _as_answered(plan: Plan) -> Plan:
    """Return a plan whose replies are the target's: a framework's list does not say whose."""
    about = plan.target
    records = [
        msgspec.structs.replace(record, provider=about.provider, model=about.model)
        if isinstance(record, Assistant)
        else record
        for record in plan.records
    ]
    return msgspec.structs.replace(plan, _records=records)


def _without_media(plan: Plan) -> Repair | None:
    media = media_of(plan.parts_sent)
    return Repair("drop-media", "without the media", media) if media else None


def _smaller_size(failure: Failure, plan: Plan, output_tokens: int) -> int:
    refused = plan.tokens.total
    limit = learned_window(failure)
    if limit is None:
        return int(_SMALLER_SHARE * refused)
    return min(int(_LIMIT_MARGIN * refused), int(_LIMIT_MARGIN * limit) - output_tokens)


def name_records(records: Sequence[Record], spelled: Sequence[str]) -> list[Record]:
    """Return records with ids made from their contents: the same in the next, longer list."""
    seen: Counter[str] = Counter()
    named = []
    for record, text in zip(records, spelled, strict=True):
        digest = hashlib.sha256(text.encode()).hexdigest()[:20]
        seen[digest] += 1
        name = f"{_NAMED}{digest}-{seen[digest]}"
        named.append(msgspec.structs.replace(record, id=name, ts=1.0))
    return named


def _digests(records: Sequence[Record]) -> list[str]:
    """Return a digest of the list before each record, and at last that of the whole."""
    found = [""]
    for record in records:
        found.append(hashlib.sha256(f"{found[-1]} {record.id}".encode()).hexdigest()[:32])
    return found


def _list_of(decision: Record) -> str:
    """Return the digest of the list that a decision was made for; empty for another record."""
    found = decision.extra.get(_LIST)
    return found if isinstance(found, str) else ""


def _standing(among: Container[str], known: Sequence[Record]) -> list[Record]:
    """Return the decisions about the lists among some, each after the one that it goes on from."""
    following: dict[str | None, Record] = {}
    for made in known:
        if _list_of(made) in among:
            following.setdefault(made.parent, made)
    standing: list[Record] = []
    base = None
    while (found := following.pop(base, None)) is not None:
        standing.append(found)
        base = found.id
    return standing


def _insert(
    records: Sequence[Record], places: Mapping[str, int], standing: Sequence[Record]
) -> list[Record]:
    """Return records with the decisions that a projection reads, each behind its list."""
    path = list(records)
    for made in reversed(standing):
        if _HEAD not in made.extra:
            path.insert(places[_list_of(made)], made)
    return path


def _head(
    system: str, tools: Sequence[Tool], standing: Sequence[Record], window: Window
) -> dict[str, str]:
    """Return what a request begins with, as digests. A cut made for a smaller window is aside."""
    listed = [[tool.name, tool.description, tool.parameters] for tool in tools]
    cuts = (made for made in standing if isinstance(made, Compaction | Prune))
    aside = [made.id for made in cuts if (made.window or window.tokens) < window.tokens]
    return {"system": _digest(system), "tools": _digest(listed), "window": _digest(aside)}


def _head_record(head: dict[str, str], standing: Sequence[Record]) -> Record | None:
    """Return the record that says what requests begin with from here on; None where they do."""
    known = next((made.extra[_HEAD] for made in reversed(standing) if _HEAD in made.extra), None)
    if known == head:
        return None
    if not isinstance(known, dict):
        return Unknown(type=_FIRST, extra={_HEAD: head})
    cause = next(name for name, digest in head.items() if known.get(name) != digest)
    return Epoch(cause=cause, extra={_HEAD: head})


def _find_stale(
    records: Sequence[Record],
    places: Mapping[str, int],
    standing: Sequence[Record],
    reader: str,
) -> set[str]:
    """Return the replies whose reasoning is bound to another request than the newest.

    A reply was made from the request whose list ends where it begins. What that began with is not
    known of a reply before the first record: it is left alone while the list goes out whole.
    """
    at: dict[int, list[Record]] = {}
    for made in standing:
        at.setdefault(places[_list_of(made)], []).append(made)
    epoch, head = "", None
    origins: list[tuple[str, Any]] = []
    for place in range(len(records) + 1):
        for made in at.get(place, ()):
            if _HEAD in made.extra:
                head = made.extra[_HEAD]
            else:
                epoch = made.id
        origins.append((epoch, head))
    now = origins[-1]
    return {
        record.id
        for record, (epoch, head) in zip(records, origins, strict=False)
        if isinstance(record, Assistant) and _is_bound(record, reader)
        if epoch != now[0] or head not in (None, now[1])
    }


def _is_bound(reply: Assistant, reader: str) -> bool:
    """Return whether reasoning of a reply is valid behind its own prefix alone. Where a framework
    does not say who made it, the model that is asked did."""
    maker = traits_of(reply.provider or "", reply.model or reader)
    return maker.is_bound or traits_of("", reader).is_bound


def _is_refusal(decision: Record) -> bool:
    return isinstance(decision, Epoch) and _HEAD not in decision.extra


def _replies_before_refusal(
    records: Sequence[Record], places: Mapping[str, int], standing: Sequence[Record]
) -> set[str]:
    """Return the replies whose reasoning a provider refused."""
    refused = (made for made in standing if isinstance(made, Epoch) and made.drops_reasoning)
    end = max((places[_list_of(made)] for made in refused), default=0)
    return {record.id for record in records[:end] if isinstance(record, Assistant)}


def _digest(value: Any) -> str:
    data = msgspec.json.encode(value, order="deterministic", enc_hook=repr)
    return hashlib.sha256(data).hexdigest()[:32]


def _view(plan: Plan, records: Sequence[Record], stale: frozenset[str]) -> BoundedView:
    places = {record.id: place for place, record in enumerate(records)}
    first = next((unit.first for unit in plan.units_kept if unit.first in places), None)
    start = 0
    if plan.is_cut:
        start = len(records) if first is None else places[first]
    mended = {repair.record for repair in plan.repairs if repair.flaw not in _HARMLESS}
    changed: dict[str, tuple[MessagePart, ...]] = dict.fromkeys(mended & places.keys(), ())
    added: dict[str, tuple[MessagePart, ...]] = {}
    for unit, shown in zip(plan.units_kept, plan.units_sent, strict=True):
        is_mended = any(part.record in mended for part in unit.parts)
        before = ""
        for part, sent in zip(unit.parts, shown.parts, strict=True):
            if part.record not in places:
                added[before] = (*added.get(before, ()), sent)
                continue
            before = part.record
            if is_mended or sent != part:
                changed[before] = (*changed.get(before, ()), sent)
    opening = tuple(plan.opening_units)
    ids = tuple(record.id for record in records)
    return BoundedView(plan, ids, opening, start, changed, added, stale)


class BoundedMessages:
    """Bounds the messages of a framework's requests: the base of the adapters' classes."""

    dialect: ClassVar = "openai-chat"
    provider: ClassVar = ""
    framework_arguments: ClassVar[tuple[str, ...]] = ()
    """The arguments of the framework's own base class."""

    def __init__(
        self,
        model: str = "",
        *,
        window: GivenWindow = None,
        policy: Policy | PolicyName | None = None,
    ) -> None:
        super().__init__(*self.framework_arguments)
        about = target(self.dialect, provider=self.provider, model=model)
        self.bounds = ListBounds(about, window=window, policy=policy)
        self.plan: Plan | None = None
        """The plan of the newest request; None before the first."""
        self.mutex = threading.Lock()
        """Held while messages are fitted and their plan is read."""

    def view_of(
        self,
        records: Sequence[Record],
        spelled: Sequence[str],
        size: RequestSize,
        kept: Iterable[Any] = (),
    ) -> BoundedView:
        """Return a view of the records of messages that fits. Raises `CannotFit`.

        `spelled` has a text for each that is the same in the next request; `kept` are the
        decisions about them that the framework keeps.
        """
        named = name_records(records, spelled)
        if named:
            self.bounds.take_up(named[0].id, kept)
        found = self.bounds.fit(named, **size)
        self.plan = found.plan
        return found


class Attempts:
    """The requests for one reply. Each is another one than that which was refused before it."""

    def __init__(
        self,
        bounded: BoundedMessages,
        fit: Callable[..., list[Any]],
        *given: Any,
        output_tokens: int = 0,
    ) -> None:
        """`fit` returns the messages of a request, made of what is `given` and of the tokens that
        it may have at most."""
        self._bounded = bounded
        self._fit = fit
        self._given = given
        self._output_tokens = output_tokens
        self._refusals = Refusals(bounded.bounds)
        self._at_most: int | None = None
        self._sent: tuple[Plan | None, list[Any]] | None = None

    def fit(self, *given: Any) -> list[Any]:
        """Return the messages of the next request. Raises `CannotFit`."""
        self._given = given or self._given
        with self._bounded.mutex:
            found = self._fit(*self._given, self._at_most)
            self._sent = (self._bounded.plan, found)
        return found

    def decisions(self) -> list[Json]:
        """Return the decisions to keep beside the reply to the newest request."""
        plan = None if self._sent is None else self._sent[0]
        if plan is None:
            return []
        with self._bounded.mutex:
            return self._bounded.bounds.decisions_for(plan)

    def after(self, error: Exception) -> list[Any] | None:
        """Return the messages of the request after a refused one; None where no other one helps."""
        try:
            if self._sent is None:
                self.fit()  # for the size of what was refused
            assert self._sent is not None
            plan, before = self._sent
            if plan is None:
                return None
            found = self._refusals.answer(error, plan, output_tokens=self._output_tokens)
            if found is None:
                return None
            self._at_most = found.at_most
            made = self.fit()
        except CannotFit:
            return None
        return None if made == before else made


def write_parts(
    messages: Sequence[Any],
    owners: Sequence[tuple[int, list[Any]]],
    view: BoundedView,
    *,
    write: Callable[[MessagePart], list[Any]],
    rewrite: Callable[[MessagePart, Sequence[Any]], list[Any]],
    without_reasoning: Callable[[list[Any]], list[Any]],
    copy: Callable[[Any, list[Any]], Any],
) -> list[Any]:
    """Return the messages of a view, where a message has parts of several records.

    `owners` has, for each record, the place of its message and its parts. `write` makes messages of
    a new part, `rewrite` parts of a changed one, and `copy` a message with other parts.
    """
    sent = [message for unit in view.opening for part in unit.parts for message in write(part)]
    kept: dict[int, tuple[list[Any], list[Any]]] = {}
    for row, changed, is_stale, added in view.rows():
        place, parts = owners[row]
        if changed is not None:
            parts = [made for part in changed for made in rewrite(part, parts)]
        if is_stale:
            parts = without_reasoning(parts)
        own, after = kept.setdefault(place, ([], []))
        own += parts
        after += [message for part in added for message in write(part)]
    for place, (own, after) in kept.items():
        message, before = messages[place], messages[place].parts or ()
        is_whole = len(own) == len(before) and all(map(operator.is_, own, before))
        if own:
            sent.append(message if is_whole else copy(message, own))
        sent += after
    return sent

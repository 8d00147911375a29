"""A client's request made to fit: unchanged while it does, else cut as its session decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.prefix import SentRequest, origin_of
from holdfast.core.dialects.registry import find_dialect, validate_body
from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.log.records import (
    MESSAGES,
    Assistant,
    Compaction,
    Epoch,
    Header,
    ModelChange,
    Prune,
)
from holdfast.core.models.generation import traits_of
from holdfast.core.models.window import output_reserve
from holdfast.core.projection.policy import PromptCache
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.proxy.edit import ConversationMap, edit_items, is_in_order, without_stale
from holdfast.core.refusals import REFUSED
from holdfast.core.turn.options import Limits
from holdfast.core.turn.recovery import Tries, is_smaller, remedy
from holdfast.core.turn.refusals import REPAIRS_MAX, policy_record, repair_record
from holdfast.core.turn.run import Bounds
from holdfast.core.window import Window
from holdfast.engine.proxy.own_tools import ToolOffer, add_tools
from holdfast.engine.proxy.upstreams import ReplyLimit, read_limit
from holdfast.engine.session.prepare import cache_for
from holdfast.errors import CannotFit
from holdfast.providers.known_models.lookup import window_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.failures.classify import Failure
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.request import Pressure
    from holdfast.core.proxy.branches import ChainPlace
    from holdfast.core.turn.refusals import Repair
    from holdfast.engine.proxy.keeper import RequestLog
    from holdfast.engine.proxy.own_tools import OwnTools
    from holdfast.engine.proxy.request import ClientRequest
    from holdfast.engine.proxy.session_branches import LoggedSession

_ENDLESS: Final = Window(10**9, "no limit")
"""A window in which everything fits: nothing that was decided for another one binds it."""
_LONG_CONTEXT: Final = "context-1m"
"""Anthropic's beta for a window of a million tokens. The same client sends it in some requests of
a conversation and not in others."""
_LONG_CONTEXT_TOKENS: Final = 1_000_000
_CHARS_PER_TOKEN: Final = 3
"""Fewer than any text has on average, so that a size guessed from bytes is too large, not small."""
_SURE_SHARE: Final = 0.9
"""A guess below this share of the window is not worth a closer look."""
_LIMITS: Final = Limits(recovery_calls=3)
"""With the first one, at most four requests for one of the client's."""
_CLIENT_WAY_BACK: Final = "`holdfast output ID`, in a shell, shows any record by its id."
"""For a client without our tool: it runs on a machine where commands can be run."""
_COUNTED_SHARE: Final = 0.95
"""Of a limit: our count and the provider's differ by a few per cent."""
_REPLY_MAX: Final = 100_000_000
"""Tokens that a reply is weighed with at most: some clients ask for the largest number there is."""
_HELD: Final[tuple[Pressure, ...]] = ("hold",)
_ASKED: Final[tuple[Pressure, ...]] = ("cut", "hold")
_SIZE_STEPS: Final = frozenset(("shrink", "lower-output", "drop-media"))


class UpstreamRefusal(Exception):
    """An upstream's refusal as failures are classified: status, headers, body."""

    def __init__(self, status: int | None, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.headers = headers
        self.response = self
        try:
            self.body: Any = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.body = body


class Fitting:
    """The body of one exchange. Use it under the lock of its session."""

    def __init__(
        self,
        keeper: RequestLog,
        request: ClientRequest,
        session: LoggedSession,
        target: Target,
    ) -> None:
        self.body = request.data
        self._json: Json | None = None
        """The body as JSON; None where it is the client's own."""
        self._keeper = keeper
        self._request = request
        self._dialect = find_dialect(request.dialect)
        self._session = session
        self._target = target
        self._path: list[Record] = []
        self._bounds = Bounds()
        self._tries = Tries()
        self._sent: Plan | None = None
        """The plan of the request that was sent last; None for one that went out unchanged."""
        self._goes_on = False
        self._weighed: Plan | None = None
        self._repairs: list[Repair] = []
        self._stated: set[int] = set()
        self._stated_reply: ReplyLimit | None = None
        """The limit of the reply that the newest refusal stated."""
        self._epoch = ""
        """The decision by which the request that was sent last is cut."""
        self._note = ""
        self.tools: OwnTools | None = None
        """Our tools, where the request that is sent has them."""
        self._offer = ToolOffer(keeper, request, session.key)
        bare = keeper.refused_fields.leave_out(request)
        if bare is not None:
            self._send(bare)

    @property
    def window(self) -> Window:
        """The window of this request: stated by the user, learned, or known."""
        if self._keeper.window is not None:
            return self._keeper.window
        model = self._request.model
        known = window_of(model)
        if _LONG_CONTEXT in self._request.headers.get("anthropic-beta", ""):
            return Window(_LONG_CONTEXT_TOKENS, f"the beta `{_LONG_CONTEXT}`", "known")
        learned = self._session.branches.windows.get(model)
        if learned is not None and learned < known.tokens:
            return Window(learned, "learned from the provider", "learned")
        return known

    def headers(self) -> dict[str, str]:
        """The response headers that tell what was changed."""
        if self.body is self._request.data:
            return {}
        told = {"x-holdfast-action": "projected"}
        if self._sent is not None:
            told["x-holdfast-tokens"] = str(self._sent.tokens.total)
            told["x-holdfast-tokens-before"] = str(self._whole().tokens.total)
        if self.tools is not None:
            told["x-holdfast-tools"] = ", ".join(tool.name for tool in self.tools.tools)
        return told | ({"x-holdfast-note": self._note} if self._note else {})

    def decide(self, after: str, place: ChainPlace | None) -> str:
        """Decide about the request as it came; returns the record that the reply follows."""
        if self._keeper.reply_limits.knows(self._request):
            self._read_path(after)
            self._send(self._json or self._request.body)
        window = self.window
        is_cut = place is not None and (place.is_repaired or place.cut_window >= window.tokens)
        is_saving = self._keeper.mode == "save"
        was_cut = place is not None and place.cut_window > 0
        if not was_cut and _is_compacted_upstream(self._request, window):
            return after
        if not is_cut and not is_saving and self._surely_fits(window, place):
            return self._unbind(after) if was_cut else after
        self._read_path(after)
        if not is_cut and not is_saving and self._whole().tokens.total <= window.tokens:
            return self._unbind(after) if was_cut else after
        try:
            plan = self._project("usual" if is_saving else "hold")
            if plan.decisions and not is_saving:
                deep = self._project("cut")  # deep and seldom: each cut costs the cached prefix
                plan = deep if _has_newest(deep, self._path) else plan
        except CannotFit as error:
            self._note = str(error)[:200]
            return after  # the provider says so in its own words
        return self._use(plan, after) or after

    def shrink(self, failure: Failure, after: str) -> str | None:
        """Answer a refusal with a smaller request; the record that the reply follows then, or None
        where the refusal is the client's to see."""
        learn = self._keeper.refused_fields.learn
        tries = self._tries.recoveries
        if tries < REPAIRS_MAX and (bare := learn(self._request, self._json, failure)):
            self._tries = Tries(recoveries=tries + 1)
            self._send(bare)
            return after
        self._read_path(after)
        refused = self._last_request()
        limits, repairs = _LIMITS, self._repairs
        found = remedy(failure, refused, self._bounds, self._tries, limits, repairs)
        repair = found.repair
        if repair is not None and repair.media:  # all else is the client's own business
            self._repairs.append(repair)
            after = self._session.append([repair_record(refused, repair)], after)
            self._read_path(after)
        elif repair is not None or found.step not in _SIZE_STEPS:
            return None
        done = self._tries.recoveries + 1
        self._bounds, self._tries = found.bounds, Tries(recoveries=done)
        if found.learned is not None:
            self._stated.add(found.learned)
        if found.step == "lower-output":
            self._stated_reply = read_limit(failure, refused)
            tokens = found.bounds.output or 1
            body = self._dialect.body.limit_reply(self._json or self._request.body, tokens)
            if _breaks_nothing_new(body, self._request.body, self._target):
                self._send(body)
                self._note = found.detail
                return after
            self._bounds = _usual_reply(found.bounds, failure, refused)
        try:
            plan = self._project("hold")
        except CannotFit:
            return None
        if repair is None and not is_smaller(plan, refused):
            return None
        return self._use(plan, after)

    def end_turn(self, why: str, after: str) -> str:
        """Leave the newest turn out of later requests: the provider refuses it under a policy, and
        the client sees that. Returns the record that the client's next message follows."""
        self._read_path(after)
        made = policy_record(self._last_request(), why)
        return self._session.append([made], after) if made.left_out else after

    def go_on(self, after: str) -> str | None:
        """Make the request that follows a reply to which the proxy answered itself; the record
        that the next reply follows, or None where there can be none."""
        self._goes_on = True
        self._read_path(after)
        is_cut_asked = self.tools is not None and self.tools.take_asked_cut()
        for pressure in _ASKED if is_cut_asked else _HELD:
            try:
                used = self._use(self._project(pressure), after)
            except CannotFit:
                continue
            if used is not None:
                return used
        return None

    def _last_request(self) -> Plan:
        """The request that was sent last, with the reply that it asked for: a plan itself reserves
        no more than its share of the window."""
        sent = self._sent or msgspec.structs.replace(self._whole(), window=self.window)
        asked = self._dialect.body.read_output_limit(self._json or self._request.fields)
        if self._sent is None or asked is None:
            return sent
        prompt = msgspec.structs.replace(sent.prompt, output_tokens=asked)
        return msgspec.structs.replace(sent, prompt=prompt)

    def window_records(self, reply: Record) -> list[Record]:
        """The record of a window that a refusal stated and a reply then confirmed; a limit of the
        reply is remembered for the upstream."""
        if isinstance(reply, Assistant) and self._stated_reply is not None:
            self._keeper.reply_limits.learn(self._request, self._stated_reply)
        if not isinstance(reply, Assistant) or len(self._stated) != 1:
            return []
        stated = next(iter(self._stated))
        if not WINDOW_FLOOR_TOKENS <= stated < self.window.tokens:
            return []
        return [
            ModelChange(
                model=self._request.model or "(none)",
                provider=self._request.provider,
                window=stated,
            )
        ]

    def _surely_fits(self, window: Window, place: ChainPlace | None) -> bool:
        if window.confidence == "assumed":
            return True  # a guess is no reason to cut; the provider knows
        if len(self._request.data) <= window.tokens:
            return True  # no token is shorter than a byte
        if place is None or not place.tokens:
            return False
        new = len(self._request.data) / max(1, self._request.item_count)
        guess = place.tokens + 3 * new / _CHARS_PER_TOKEN
        return guess <= _SURE_SHARE * window.tokens

    def _read_path(self, after: str) -> None:
        found = self._keeper.store.read_branch(self._session.key, after)
        self._path = [record for record in found if not isinstance(record, Header)]
        self._weighed = None

    def _whole(self) -> Plan:
        """The request as the client sent it, weighed; once for each path."""
        if self._weighed is not None:
            return self._weighed
        request = msgspec.structs.replace(
            self._projection(),
            records=[record for record in self._path if not _is_repair(record)],
            window=_ENDLESS,
            pressure="hold",
            at_most=None,
        )
        asked = self._request.output_tokens or output_reserve(self.window)
        asked = min(asked, _REPLY_MAX)
        self._weighed = project(
            msgspec.structs.replace(
                request, tools=self._request.tools, output_tokens=asked, target=self._target
            ),
            cache_for(self._target),
        )
        return self._weighed

    def _projection(self, pressure: Pressure = "hold") -> ProjectionRequest:
        request, window, bounds = self._request, self.window, self._bounds
        output = min(request.output_tokens or 10**9, output_reserve(window))
        own = self._offer.tools_for(self.window)
        return ProjectionRequest(
            self._path,
            window,
            bounds.target or self._target,
            system=request.system,
            tools=request.tools if own is None else (*request.tools, *own.tools),
            output_tokens=min(output, bounds.output or output),
            prompt_cache=_prompt_cache(self._path),
            floor=min(WINDOW_FLOOR_TOKENS, window.tokens),
            at_most=bounds.at_most,
            pressure=pressure,
            client_way_back=_CLIENT_WAY_BACK,
        )

    def _project(self, pressure: Pressure) -> Plan:
        return project(self._projection(pressure), cache_for(self._target))

    def _use(self, plan: Plan, after: str) -> str | None:
        """Send a plan, with its decisions in the log; None where it changes nothing or would not
        be valid."""
        request = self._request
        conversation = _map_of(self._request, self._path)
        whole = _blocks_by_record(self._whole())
        units = [*plan.opening_units, *plan.units_sent]
        epoch = _epoch_in([*self._path, *plan.decisions])
        items = edit_items(conversation, units, whole, self._stale(epoch))
        if not is_in_order(items, request.items, goes_on=self._goes_on):
            return None
        body: Json = {**request.body, request.items_field: items}
        asked = request.output_tokens
        if self._bounds.output is not None and asked is not None and asked > self._bounds.output:
            body = self._dialect.body.limit_reply(body, self._bounds.output)
        if body == request.body or not _breaks_nothing_new(body, request.body, self._target):
            return None
        own = self._offer.tools_for(self.window)
        if own is not None:
            body = add_tools(body, own.tools, self._target)
        after = self._session.append(list(plan.decisions), after)
        if plan.decisions:
            self._read_path(after)
            epoch = _epoch_in(self._path)
        self._epoch = epoch
        self._sent, self.tools = plan, own
        self._send(body)
        return after

    def _stale(self, epoch: str) -> set[str]:
        """The replies whose reasoning was made behind another prefix than the one of an epoch."""
        reader = (self._target.provider, self._target.model)
        return {
            record.id
            for record in self._path
            if isinstance(record, Assistant)
            and _is_bound((record.provider or "", record.model or ""), reader)
            and ((sent := origin_of(record)) is None or sent.epoch != epoch)
        }

    def _unbind(self, after: str) -> str:
        """Send the client's messages as they are, but for reasoning that was made behind a cut
        which no longer counts."""
        self._read_path(after)
        stale = self._stale("")
        if stale:
            items = without_stale(_map_of(self._request, self._path), stale)
            if items != self._request.items:
                self._send({**self._request.body, self._request.items_field: items})
        return after

    def origin(self) -> SentRequest:
        """The request as the record of its reply has it."""
        return SentRequest(self._target.dialect.name, epoch=self._epoch)

    def _send(self, body: Json) -> None:
        body = self._keeper.refused_fields.leave_out(self._request, body) or body
        if self._path:
            limits = self._keeper.reply_limits
            shorter = limits.limit(
                self._request, body, lambda: (self._sent or self._whole()).tokens.total
            )
            body = shorter if _breaks_nothing_new(shorter, body, self._target) else body
        if body == self._request.body:
            return
        self.body, self._json = msgspec.json.encode(body), body


def _is_compacted_upstream(request: ClientRequest, window: Window) -> bool:
    """True where the client has the provider compact the conversation before it is too large for
    a window: messages before its compaction do not count, and a cut would end it."""
    limit = find_dialect(request.dialect).body.read_compaction_limit(request.fields)
    return limit is not None and limit <= window.tokens


def _epoch_in(records: Sequence[Record]) -> str:
    """The id of the newest decision about a view; empty where there is none, and for one that is
    not stored yet a name that no reply has."""
    kinds = (Compaction, Prune)
    found = (rec for rec in reversed(records) if isinstance(rec, kinds) or _is_repair(rec))
    newest = next(found, None)
    return "" if newest is None else newest.id or "(new)"


def _map_of(request: ClientRequest, path: Sequence[Record]) -> ConversationMap:
    dialect = find_dialect(request.dialect)
    return ConversationMap(request.items, request.atoms, request.chains, path, dialect)


def _is_repair(record: Record) -> bool:
    return isinstance(record, Epoch) and record.cause == REFUSED


def _is_bound(maker: tuple[str, str], reader: tuple[str, str]) -> bool:
    return traits_of(*maker).is_bound or traits_of(*reader).is_bound


def _prompt_cache(path: Sequence[Record]) -> PromptCache:
    """The provider's cache, by the time between the last reply and the newest message."""
    replies = (record for record in reversed(path) if isinstance(record, Assistant))
    last = next(replies, None)
    newest = path[-1].ts if path else 0.0
    idle = None if last is None or not newest else max(0.0, newest - last.ts)
    return PromptCache(idle_seconds=idle)


def _has_newest(plan: Plan, path: Sequence[Record]) -> bool:
    """True where the newest message is still in a plan."""
    newest = next((record.id for record in reversed(path) if record.kind in MESSAGES), "")
    units = (*plan.opening_units, *plan.units_sent)
    return any(part.record == newest for unit in units for part in unit.parts)


def _usual_reply(bounds: Bounds, failure: Failure, refused: Plan) -> Bounds:
    """Bounds for a reply of the usual size. One so short that it could not be thought about breaks
    a turn that began with thinking; so the input gives way."""
    limit = failure.limit or refused.window.tokens
    reply = output_reserve(Window(limit))
    scale = refused.tokens.total / (failure.input or refused.tokens.total)
    most = int(_COUNTED_SHARE * (limit - reply) * scale)
    return msgspec.structs.replace(bounds, output=reply, at_most=most)


def _breaks_nothing_new(body: Json, given: Json, target: Target) -> bool:
    """True where a body breaks no rule that the client's own did not break."""
    broken = {found.rule for found in validate_body(given, target)}
    return all(found.rule in broken for found in validate_body(body, target))


def _blocks_by_record(plan: Plan) -> dict[str, tuple[Block, ...]]:
    units: Sequence[Any] = plan.units_sent
    return {part.record: part.blocks for unit in units for part in unit.parts if part.record}

"""A model provider on this machine, which keeps the rules of the real ones and fails on request."""

from __future__ import annotations

import functools
import time
from threading import Condition
from typing import TYPE_CHECKING, Final, Self

from holdfast.testing.disk import FOREVER
from holdfast.testing.loopback.asking import Scripted, echo
from holdfast.testing.loopback.binding import Ledger, ReasoningCounts
from holdfast.testing.loopback.caching import Caches
from holdfast.testing.loopback.connections import Server
from holdfast.testing.loopback.exchange import Exchange, Services
from holdfast.testing.loopback.faults import Counts, WireFailure
from holdfast.testing.loopback.outgoing import Handled
from holdfast.testing.loopback.reading import read_request
from holdfast.testing.loopback.rules import Faults, Rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.tokens.counting import Counter
    from holdfast.engine.simulation.prompt_cache import CacheRules
    from holdfast.ports import Clock
    from holdfast.testing.loopback.asking import Brain, Line
    from holdfast.testing.loopback.exchange import Received
    from holdfast.testing.loopback.faults import Fault
    from holdfast.testing.loopback.outgoing import Outgoing
    from holdfast.testing.loopback.rules import When

LIMIT: Final = 200_000
"""The window of the models that are used most."""


class Loopback:
    """Speaks Anthropic Messages, both of OpenAI's APIs and Gemini on 127.0.0.1.

    Use it as a context manager, and give its address to the real SDK or to anything else:

        with Loopback(limit=25_000) as loopback:
            client = anthropic.Anthropic(base_url=loopback.url, api_key="any")
    """

    def __init__(
        self,
        brain: Brain | Sequence[Line] = echo,
        *,
        limit: int = LIMIT,
        limits: Mapping[str, int] | None = None,
        output_max: int = 0,
        reserves_output: bool = True,
        body_bytes: int | None = None,
        variants: Mapping[str, str] | None = None,
        counter: Counter | None = None,
        factor: float = 1.0,
        cache: CacheRules | None = None,
        clock: Clock = time.time,
        api_key: str = "",
        checks_foreign_signatures: bool = False,
        is_old_account: bool = False,
        accounts: Mapping[str, str] | None = None,
    ) -> None:
        """A provider that answers as `brain` says: a function, or the lines of a script.

        `limit`: the window in tokens, input and reply together; `limits` has those of single
        models. `output_max`: the most a reply may ask for; 0 is no limit. `reserves_output`:
        whether the room for the reply must be there in advance; without, only input over the
        window is refused and a reply that meets its end says so, as newer models do. `body_bytes`:
        instead of the dialect's own; 0 is no limit. `variants`: whose quirks a dialect has, such
        as `{"openai-chat": "mistral"}`. `counter` and `factor`: how it counts; with 1.3, it finds
        30 % more tokens than the counter does. `cache`: which prefixes Anthropic's cache keeps and
        how far it looks back; `clock`: by which they grow old. `api_key`: the only one it takes,
        where it is not empty. `checks_foreign_signatures`: whether thinking that it has not signed
        itself is refused. `is_old_account`: whether Anthropic's models between those that never
        check a prefix and those that always refuse a changed one let it pass, as for accounts from
        before 31 August 2026. `accounts`: whose key it is, where several keys belong to one
        account; otherwise each key is an account of its own.
        """
        self.rules = Rules(
            limit=limit,
            limits=dict(limits or {}),
            output_max=output_max,
            reserves_output=reserves_output,
            body_bytes=body_bytes,
            variants=dict(variants or {}),
            counter=counter,
            factor=factor,
            api_key=api_key,
            checks_foreign_signatures=checks_foreign_signatures,
            is_old_account=is_old_account,
            accounts=dict(accounts or {}),
        )
        self.caches = Caches(clock, cache)
        self.errors: list[Exception] = []
        """Exceptions of the brain. The first is raised again when the context ends."""
        self._faults = Faults()
        self._services = Services(
            brain if callable(brain) else Scripted(brain),
            self.rules,
            self.caches,
            self._faults,
            clock,
            self._add_up,
            Ledger(),
        )
        self._changed = Condition()
        self._received: dict[int, Received] = {}
        self._number = 0
        self._totals = Counts(0)

    # The address

    @functools.cached_property
    def _server(self) -> Server:
        """Made when an address is asked for: `handle` needs none."""
        return Server(self._answer)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_about: object) -> None:
        self._server.stop()
        if kind is None and self.errors:
            raise self.errors[0]

    @property
    def url(self) -> str:
        """The address for the SDKs of Anthropic and Google, which add the version themselves."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def openai_url(self) -> str:
        """The address for OpenAI's SDK, which adds no version."""
        return f"{self.url}/v1"

    # What it is told

    def fail_next(self, *faults: Fault | None) -> None:
        """Let the next requests fail, one by one; None stands for one that does not.

        A fault that spoils a reply waits until there is one to spoil: a request that is refused
        anyway does not use it up. Requests that only count are never struck.
        """
        self._faults.add(*faults)

    def fail_when(self, when: When, fault: Fault, *, times: int = FOREVER) -> None:
        """Let requests fail of which `when` says so. What was queued goes first."""
        self._faults.add_when(when, fault, times)

    def heal(self) -> None:
        """Forget all faults that are still to come."""
        self._faults.clear()

    @property
    def faults_left(self) -> int:
        """Return the number of queued faults that have not struck yet."""
        return self._faults.waiting

    # What it has seen

    @property
    def requests(self) -> tuple[Received, ...]:
        """Every request so far, in the order of arrival."""
        with self._changed:
            return tuple(self._received[number] for number in sorted(self._received))

    @property
    def over_limit(self) -> tuple[Received, ...]:
        """Every request that asked for more than the window, whatever was answered."""
        return tuple(request for request in self.requests if request.is_over)

    @property
    def invalid(self) -> tuple[Received, ...]:
        """Every request that broke a rule, whatever was answered."""
        return tuple(request for request in self.requests if request.violations)

    @property
    def answers(self) -> tuple[Received, ...]:
        """Every request that the brain answered."""
        return tuple(request for request in self.requests if request.is_answered)

    @property
    def reasoning(self) -> ReasoningCounts:
        """Return what became of the models' reasoning in all requests so far."""
        return ReasoningCounts.of(self.requests)

    def wait_for(self, count: int, *, seconds: float = 10.0) -> bool:
        """Wait until that many requests have come in; False where they do not come."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._received) >= count, seconds)

    def handle(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Handled:
        """Answer a POST without a connection, for a transport inside the process.

        Nothing is waited for. A reply that a fault breaks off has `is_broken`.
        """
        small = {name.lower(): value for name, value in (headers or {}).items()}
        reply = self._answer("POST", path.partition("?")[0], small, body)
        data = b"".join(part for part in reply.parts if isinstance(part, bytes))
        return Handled(reply.status, reply.headers, data, is_broken=reply.ending != "end")

    def count(self, dialect: str, body: Json) -> int:
        """Count the tokens of a request."""
        sums = self.rules.sums(read_request(dialect, body))
        return sums[-1] if sums else 0

    # How it answers

    def _answer(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Outgoing:
        with self._changed:
            self._number += 1
            number = self._number
        exchange = Exchange(self._services, number, path, headers, raw)
        try:
            reply = exchange.answer(method)
        except Exception as error:  # a brain's mistake must reach the test, not end in a thread
            self.errors.append(error)
            said = f"the brain failed: {type(error).__name__}: {error}"
            reply = exchange.fail(WireFailure(said, 500))
        with self._changed:
            self._received[number] = exchange.record(reply.status)
            self._changed.notify_all()
        return reply

    def _add_up(self, counts: Counts) -> Counts:
        """Remember what an answer took; give what the earlier ones took."""
        with self._changed:
            before = self._totals
            self._totals = Counts(
                before.prompt + counts.prompt, output=before.output + counts.output
            )
            return before

"""`simulate`: compares the requests, cost and losses of several policies, without a model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from holdfast.core.models.prices import Price
from holdfast.core.projection.policy import POLICIES
from holdfast.core.window import Window
from holdfast.engine.simulation.policies import (
    ClearResults,
    Compact,
    DoNothing,
    Holdfast,
    KeepTurns,
    Plays,
    TrimTokens,
)
from holdfast.engine.simulation.simulate import STATIC_TOKENS, Run, offer_for, simulate
from holdfast.engine.simulation.transcripts import Transcript
from holdfast.errors import UsageError
from holdfast.providers.known_models.lookup import default_price, price_of
from holdfast.providers.tokenizers import counter_for
from holdfast.surfaces.answers import Cell, StyledTable
from holdfast.surfaces.cli.command import option, pick, place
from holdfast.surfaces.cli.conversations import (
    Conversation,
    ReadsConversations,
    conversations,
)
from holdfast.surfaces.cli.inspect.reports import share_cell
from holdfast.surfaces.formatting import count, money
from holdfast.surfaces.pages import page_file, render_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.models.pace import CacheOffer
    from holdfast.surfaces.cli.app import App


def _play(name: str, _turns: int) -> Plays:
    return Holdfast(POLICIES[name], name=name)


_KNOWN: Final[dict[str, Callable[[int], Plays]]] = {
    "nothing": lambda _turns: DoNothing(),
    "last": KeepTurns,
    "trim": lambda _turns: TrimTokens(),
    "clear": lambda _turns: ClearResults(),
    "compact": lambda _turns: Compact(),
    "holdfast": lambda _turns: Holdfast(),
    **{name: partial(_play, name) for name in POLICIES},
}
"""Every policy, made for the number of turns that `last` keeps."""
_COMPARED: Final = tuple(_KNOWN)[:6]
_WINDOW: Final = Window(200_000, "simulated")
_TTL = {"5m": 300.0, "1h": 3_600.0, "warm": None, "none": 0.0}
_SOLD = ("auto", "30m", "12h")
"""Lifetimes that are taken from what the model's host sells; `auto` chooses among all of them."""


class ReplaysConversations(ReadsConversations, frozen=True, kw_only=True):
    """Replays them; some tokens of the window are not for messages."""

    what: Annotated[
        tuple[str, ...],
        place("transcripts, folders of them, or sessions of the store", "FILE|FOLDER|SESSION"),
    ]
    static: Annotated[
        int, option(f"tokens of the system prompt and tools ({STATIC_TOKENS:,})", "N")
    ] = STATIC_TOKENS
    output: Annotated[int | None, option("tokens to reserve for each reply", "N")] = None

    def conversations(self, app: App) -> list[Conversation]:
        """Read everything that was named."""
        return [
            each for name in self.what for each in conversations(app, name, format_=self.format)
        ]


class SimulateCommand(ReplaysConversations, frozen=True, kw_only=True):
    """Replays transcripts."""

    example = """examples:
  holdfast simulate session.jsonl --window 64000
  holdfast simulate *.jsonl --window 200000 --policy compact --policy holdfast --cache 1h"""
    policy: Annotated[
        tuple[str, ...],
        option(
            f"a policy to compare: {', '.join(_KNOWN)} (default: {', '.join(_COMPARED)})", "NAME"
        ),
    ] = ()
    turns: Annotated[int, option("turns that `last` keeps (20)", "N")] = 20
    calls: Annotated[int, option("leave out sessions with fewer calls", "N")] = 0
    idle: Annotated[
        float | None,
        Meta(ge=0),
        option("time between two calls, instead of the times of the transcript", "SECONDS"),
    ] = None
    html: Annotated[
        str | None, option("write a page that compares the policies", "FILE", read=page_file)
    ] = None
    cache: Annotated[
        Literal["5m", "1h", "warm", "none", "auto", "30m", "12h"],
        option("the lifetime of the provider's cache (5m); auto: by the pauses, as a session does"),
    ] = "5m"
    price: Annotated[
        str | None,
        option("dollars per million tokens, instead of the list price", "IN,OUT,READ,WRITE"),
    ] = None

    def run(self, app: App) -> _Compared:
        found = [each for each in self.conversations(app) if each.records]
        if not found:
            raise UsageError(
                "nothing to replay: the transcripts have no records", hint="pass other files"
            )
        model = self.model or next((each.model for each in found if each.model), "")
        price = _price(self.price, model)
        runs, sessions = self._replay(found, app, price)
        if not runs:
            raise UsageError(
                f"no session among {count(len(found), 'transcript')} has {self.calls:,} calls or "
                "more",
                hint="pass a smaller number to `--calls`",
            )
        idle = f", {self.idle:g} s between calls" if self.idle is not None else ""
        about = (
            f"{count(sessions, 'transcript')}, {count(runs[0].requests, 'call')}, "
            f"a window of {runs[0].window:,}, {self.static:,} static tokens, "
            f"a cache of {self.cache}{idle}"
        )
        if self.html:
            app.out.write_file(self.html, policy_page(runs, about, price.note))
        return _Compared(runs, sessions, about, price)

    def plain(self, found: _Compared) -> Any:
        runs = [_as_json(run) for run in found.runs]
        window = (self.window or _WINDOW).tokens
        return {"window": window, "sessions": found.sessions, "runs": runs}

    def show(self, found: _Compared, app: App) -> None:
        out = app.out
        out.line(found.about)
        out.line()
        out.section(policy_table(found.runs))
        out.note(
            "sent: tokens of all requests; breaks: cached prefixes that were changed; "
            "facts lost: names that a later call used and its request no longer contained; "
            "far: recall of facts last seen more than ten steps before; "
            "words: the share of the user's words in view"
        )
        out.note(found.price.note)

    def _policies(self) -> list[Plays]:
        """Make the policies, whose names may be separated by commas."""
        names = [name.strip() for text in self.policy or _COMPARED for name in text.split(",")]
        for name in names:
            if name not in _KNOWN:
                raise UsageError(f"no policy `{name}`", hint=f"known policies: {', '.join(_KNOWN)}")
        return [_KNOWN[name](self.turns) for name in dict.fromkeys(names)]

    def _replay(
        self, found: Sequence[Conversation], app: App, price: Price
    ) -> tuple[list[Run], int]:
        """Replay transcripts under each policy; returns the sums, and the number of sessions."""
        policies, totals, sessions = self._policies(), dict[str, Run](), 0
        with app.out.progress("replaying", len(found) * len(policies)) as advance:
            for each in found:
                model = self.model or each.model
                transcript = Transcript(each.records, counter_for(model or None))
                if len(transcript.calls) < self.calls:
                    continue
                sessions += 1
                for policy in policies:
                    run = simulate(
                        transcript,
                        policy,
                        window=self.window or _WINDOW,
                        static=self.static,
                        output=self.output,
                        ttl_seconds=_TTL.get(self.cache, 300.0),
                        idle_seconds=self.idle,
                        price=price,
                        offer=_offer(self.cache, model, price),
                    )
                    before = totals.get(policy.name)
                    totals[policy.name] = run if before is None else before + run
                    advance(f"{each.name}: {policy.name}")
        return list(totals.values()), sessions


class _Compared(NamedTuple):
    """The runs of each policy, and what they are about."""

    runs: list[Run]
    sessions: int
    about: str
    price: Price


def _price(given: str | None, model: str) -> Price:
    if given is None:
        return price_of(model) or default_price()
    try:
        plain, output, read, write = map(float, given.split(","))
    except ValueError as error:
        raise UsageError(
            f"`--price {given}` is not four numbers",
            hint="pass input, output, cache read and cache write: --price 3,15,0.3,3.75",
        ) from error
    return Price(plain, output, read, write)


def _offer(cache: str, model: str, price: Price | None) -> CacheOffer | None:
    """The lifetimes to choose from; None for one that is the same in every call."""
    if cache not in _SOLD:
        return None
    offer = offer_for(model, price=price)
    named = tuple(each for each in offer.lifetimes if cache in ("auto", each.name))
    if not named:
        sold = ", ".join(each.name for each in offer.lifetimes) or "none that is known"
        raise UsageError(
            f"`{model or 'this model'}` has no cache lifetime `{cache}`",
            hint=f"its host sells: {sold}; `--model NAME` names another model",
        )
    return msgspec.structs.replace(offer, lifetimes=named)


def _as_json(run: Run) -> dict[str, Any]:
    recall = pick(run.recall, pooled="pooled_share", far="far_share", verbatim="verbatim_share")
    more = pick(run, "facts_lost", cache_read_share="read_share", users_words_in_view="words_share")
    return {**msgspec.to_builtins(run), **more, "recall": recall}


def policy_page(runs: Sequence[Run], about: str, price: str) -> str:
    """Return policies side by side on one page: what each would cost, lose and have refused."""

    def cost(run: Run) -> str:
        return money(run.cost) + (f", {run.overflows:,} over" if run.overflows else "")

    refused = (
        "Less is better. Requests over the window are refused: such a cost cannot be compared."
    )
    shares: dict[str, Callable[[Run], float]] = {
        "Recall of what later calls used": lambda run: run.recall.pooled_share,
        "Recall of what was last seen more than ten steps before": lambda run: run.recall.far_share,
        "The user's words in view": lambda run: run.words_share,
    }
    charts = [("Input cost", refused, [(run.policy, run.cost, cost(run)) for run in runs])]
    for title, share in shares.items():
        shown = [(run.policy, share(run), f"{share(run):.1%}") for run in runs]
        charts.append((title, "More is better.", shown))
    return render_page(
        "policies.html",
        title="Policies compared",
        maker="holdfast simulate",
        runs=runs,
        about=about,
        charts=charts,
        price=price,
    )


def policy_table(runs: Sequence[Run]) -> StyledTable:
    """Return all figures; an overflow is marked, because its cost cannot be compared."""
    dearest = max((run.cost for run in runs), default=0.0) or 1.0
    return StyledTable(
        (
            *("policy", ">input cost", "", ">sent", ">cached", ">breaks", ">overflows", ">invalid"),
            *(">facts lost", ">recall", ">far", ">words"),
        ),
        tuple(
            (
                *(run.policy, money(run.cost), share_cell(run.cost / dearest, 16)),
                *(f"{run.tokens_sent / 1e6:,.1f} M", f"{run.read_share:.1%}", f"{run.breaks:,}"),
                Cell(f"{run.overflows:,}", "bad" if run.overflows else "plain"),
                Cell(f"{run.invalid:,}", "bad" if run.invalid else "plain"),
                *(f"{run.facts_lost:,}", f"{run.recall.pooled_share:.1%}"),
                *(f"{run.recall.far_share:.1%}", f"{run.words_share:.0%}"),
            )
            for run in runs
        ),
    )

"""`simulate`: compares the requests, cost and losses of several policies, without a model."""

from __future__ import annotations

import argparse
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.prices import Price
from holdfast.core.projection.policy import POLICIES
from holdfast.core.window import Window, window_argument
from holdfast.engine.simulation.policies import (
    ClearResults,
    Compact,
    DoNothing,
    Holdfast,
    KeepTurns,
    Plays,
    TrimTokens,
)
from holdfast.engine.simulation.simulate import Run, offer_for, simulate
from holdfast.engine.simulation.transcripts import Transcript
from holdfast.errors import UsageError
from holdfast.providers.known_models.lookup import default_price, price_of
from holdfast.providers.tokenizers import counter_for
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.conversations import (
    Conversation,
    add_reserved,
    add_transcripts,
    conversations,
)
from holdfast.surfaces.formatting import bar, count
from holdfast.surfaces.pages import page_file, render_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.models.pace import CacheOffer


def _play(name: str, _args: argparse.Namespace) -> Plays:
    return Holdfast(POLICIES[name], name=name)


_PLAYS: dict[str, Callable[[argparse.Namespace], Plays]] = {
    "nothing": lambda _args: DoNothing(),
    "last": lambda args: KeepTurns(args.turns),
    "trim": lambda _args: TrimTokens(),
    "clear": lambda _args: ClearResults(),
    "compact": lambda _args: Compact(),
    "holdfast": lambda _args: Holdfast(),
}
"""Those that are compared by default."""
_KNOWN: dict[str, Callable[[argparse.Namespace], Plays]] = {
    **_PLAYS,
    **{name: partial(_play, name) for name in POLICIES},
}
_WINDOW: Final = Window(200_000, "simulated")
_TTL = {"5m": 300.0, "1h": 3_600.0, "warm": None, "none": 0.0}
_SOLD = ("auto", "30m", "12h")
"""Lifetimes that are taken from what the model's host sells; `auto` chooses among all of them."""
_EXAMPLE = """examples:
  holdfast simulate session.jsonl --window 64000
  holdfast simulate *.jsonl --window 200000 --policy compact --policy holdfast --cache 1h"""


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    add_transcripts(parser)
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help=f"a policy to compare: {', '.join(_KNOWN)} (default: {', '.join(_PLAYS)})",
    )
    parser.add_argument(
        "--turns", type=int, default=20, metavar="N", help="turns that `last` keeps (20)"
    )
    add_reserved(parser)
    parser.add_argument(
        "--calls", type=int, default=0, metavar="N", help="leave out sessions with fewer calls"
    )
    parser.add_argument(
        "--idle",
        type=_seconds,
        metavar="SECONDS",
        help="time between two calls, instead of the times of the transcript",
    )
    parser.add_argument(
        "--html", type=page_file, metavar="FILE", help="write a page that compares the policies"
    )
    parser.add_argument(
        "--cache",
        choices=[*_TTL, *_SOLD],
        default="5m",
        help="the lifetime of the provider's cache (5m); auto: by the pauses, as a session does",
    )
    parser.add_argument(
        "--price",
        metavar="IN,OUT,READ,WRITE",
        help="dollars per million tokens, instead of the list price",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds: write 60 or 0.5")
    return seconds


def _simulate(args: argparse.Namespace, app: App) -> int:
    found = [
        each
        for name in args.what
        for each in conversations(app, name, format_=args.format)
        if each.records
    ]
    if not found:
        raise UsageError(
            "nothing to replay: the transcripts have no records", hint="pass other files"
        )
    model = args.model or next((each.model for each in found if each.model), "")
    price = _price(args.price, model)
    window = window_argument(args.window, "--window") or _WINDOW
    policies = [_KNOWN[name](args) for name in _policies(args.policy)]
    runs, sessions = _runs(policies, found, args, app, price, window)
    if not runs:
        raise UsageError(
            f"no session among {count(len(found), 'transcript')} has {args.calls:,} calls or more",
            hint="pass a smaller number to `--calls`",
        )
    about = _about(runs, sessions, args)
    if args.html:
        app.out.write_file(args.html, policy_page(runs, about, price.note))
    if app.out.is_json:
        shown = [*map(_as_json, runs)]
        app.out.json({"window": window.tokens, "sessions": sessions, "runs": shown})
        return 0
    _show(runs, about, app, price)
    return 0


def _policies(given: list[str] | None) -> list[str]:
    """Split the names of policies, which may be separated by commas."""
    names = [name.strip() for text in given or _PLAYS for name in text.split(",")]
    for name in names:
        if name not in _KNOWN:
            raise UsageError(f"no policy `{name}`", hint=f"known policies: {', '.join(_KNOWN)}")
    return list(dict.fromkeys(names))


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


def _runs(
    policies: Sequence[Plays],
    found: Sequence[Conversation],
    args: argparse.Namespace,
    app: App,
    price: Price,
    window: Window,
) -> tuple[list[Run], int]:
    """Replay the transcripts under each policy; returns the sums, and the number of sessions."""
    totals: dict[str, Run] = {}
    sessions = 0
    with app.out.progress("replaying", len(found) * len(policies)) as advance:
        for each in found:
            counter = counter_for(args.model or each.model or None)
            transcript = Transcript(each.records, counter)
            if len(transcript.calls) < args.calls:
                continue
            sessions += 1
            for policy in policies:
                run = simulate(
                    transcript,
                    policy,
                    window=window,
                    static=args.static,
                    output=args.output,
                    ttl_seconds=_TTL.get(args.cache, 300.0),
                    idle_seconds=args.idle,
                    price=price,
                    offer=_offer(args.cache, args.model or each.model or "", price),
                )
                before = totals.get(policy.name)
                totals[policy.name] = run if before is None else before + run
                advance(f"{each.name}: {policy.name}")
    return list(totals.values()), sessions


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
    plain: dict[str, Any] = msgspec.to_builtins(run)
    return {
        **plain,
        "cache_read_share": run.read_share,
        "facts_lost": run.facts_lost,
        "recall": {
            "pooled": run.recall.pooled_share,
            "far": run.recall.far_share,
            "verbatim": run.recall.verbatim_share,
        },
        "users_words_in_view": run.words_share,
    }


def _show(runs: Sequence[Run], about: str, app: App, price: Price) -> None:
    out = app.out
    out.line(about)
    out.line()
    simulation_table(app, runs)
    out.line()
    out.note(
        "sent: tokens of all requests; breaks: cached prefixes that were changed; "
        "facts lost: names that a later call used and its request no longer contained; "
        "far: recall of facts last seen more than ten steps before; "
        "words: the share of the user's words in view"
    )
    out.note(price.note)


def _about(runs: Sequence[Run], sessions: int, args: argparse.Namespace) -> str:
    idle = f", {args.idle:g} s between calls" if args.idle is not None else ""
    return (
        f"{count(sessions, 'transcript')}, {count(runs[0].requests, 'call')}, "
        f"a window of {runs[0].window:,}, {args.static:,} static tokens, "
        f"a cache of {args.cache}{idle}"
    )


def policy_page(runs: Sequence[Run], about: str, price: str) -> str:
    """Return policies side by side on one page: what each would cost, lose and have refused."""

    def cost(run: Run) -> str:
        return f"${run.cost:,.2f}" + (f", {run.overflows:,} over" if run.overflows else "")

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


def simulation_table(app: App, runs: Sequence[Run]) -> None:
    app.out.table(
        (
            *("policy", ">input cost", "", ">sent", ">cached", ">breaks", ">overflows", ">invalid"),
            *(">facts lost", ">recall", ">far", ">words"),
        ),
        _rows(runs),
    )


def _rows(runs: Sequence[Run]) -> list[Row]:
    """Return the rows; an overflow is marked, because its cost cannot be compared."""
    dearest = max((run.cost for run in runs), default=0.0) or 1.0
    return [
        (
            run.policy,
            f"${run.cost:,.2f}",
            Cell(bar(run.cost / dearest, 16), "bad" if run.overflows else "name"),
            f"{run.tokens_sent / 1e6:,.1f} M",
            f"{run.read_share:.1%}",
            f"{run.breaks:,}",
            Cell(f"{run.overflows:,}", "bad" if run.overflows else "plain"),
            Cell(f"{run.invalid:,}", "bad" if run.invalid else "plain"),
            f"{run.facts_lost:,}",
            f"{run.recall.pooled_share:.1%}",
            f"{run.recall.far_share:.1%}",
            f"{run.words_share:.0%}",
        )
        for run in runs
    ]


VERBS = {
    "simulate": Verb(_add_simulate, _simulate, _EXAMPLE),
}

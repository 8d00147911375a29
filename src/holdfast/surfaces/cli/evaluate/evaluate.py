"""`evaluate`: replays own sessions under a policy, and fails where they lost more than before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.evaluation.baseline import TOLERANCE, compare, read_baseline, write_baseline
from holdfast.core.evaluation.needs import NEED_KINDS
from holdfast.core.evaluation.report import describe_cut
from holdfast.core.window import window_argument
from holdfast.engine.simulation.evaluate import (
    EVALUATION_WINDOW,
    EvaluationSource,
    EvaluationTerms,
    evaluate,
)
from holdfast.engine.simulation.policies import read_policy
from holdfast.engine.simulation.sessions import NAMED_POLICIES, SessionReplay
from holdfast.errors import BadSetting, UsageError
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.conversations import add_reserved, add_transcripts, conversations
from holdfast.surfaces.cli.evaluate.page import evaluation_page
from holdfast.surfaces.formatting import count
from holdfast.surfaces.pages import page_file

if TYPE_CHECKING:
    import argparse

    from holdfast.core.evaluation.baseline import Comparison
    from holdfast.core.evaluation.losses import Loss
    from holdfast.core.evaluation.report import Evaluation
    from holdfast.engine.simulation.policies import Plays

EXIT_WORSE: Final = 1
"""The status where something got worse than the baseline, or there are too many losses."""
_SHOWN: Final = 20
"""Losses in the terminal; the page and `--json` have all of them."""
_EXAMPLE = """examples:
  holdfast evaluate transcripts/ --window 64k --save-baseline memory.json
  holdfast evaluate transcripts/ --window 64k --policy policy.toml --baseline memory.json
  holdfast evaluate session.jsonl --policy recorded --html losses.html"""


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    add_transcripts(parser)
    parser.add_argument(
        "--policy",
        metavar="FILE",
        default="holdfast",
        help="a TOML or JSON file with thresholds, or a name: " + ", ".join(NAMED_POLICIES),
    )
    add_reserved(parser)
    parser.add_argument("--baseline", metavar="FILE", help="fail where it is worse than this")
    parser.add_argument("--save-baseline", metavar="FILE", help="write a baseline for later")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=100 * TOLERANCE,
        metavar="PERCENT",
        help=f"how much dearer and colder it may get ({100 * TOLERANCE:g})",
    )
    parser.add_argument(
        "--max-losses", type=int, metavar="N", help="fail where there are more losses"
    )
    parser.add_argument(
        "--html", type=page_file, metavar="FILE", help="write a page that shows each loss"
    )


def _evaluate(args: argparse.Namespace, app: App) -> int:
    policy = _policy(args.policy)
    baseline = read_baseline(_bytes_in(args.baseline), args.baseline) if args.baseline else None
    sources = [
        EvaluationSource(each.name, each.records, each.model, each.address)
        for name in args.what
        for each in conversations(app, name, format_=args.format)
    ]
    terms = EvaluationTerms(
        window=window_argument(args.window, "--window") or EVALUATION_WINDOW,
        static=args.static,
        output=args.output,
        model=args.model or "",
    )
    report = _run(sources, policy, terms, app)
    compared = (
        compare(report, baseline, tolerance=args.tolerance / 100) if baseline is not None else None
    )
    failures = [*(compared.worse if compared is not None else ())]
    if args.max_losses is not None and len(report.losses) > args.max_losses:
        failures.append(f"{len(report.losses):,} losses, {args.max_losses:,} allowed")
    if args.save_baseline:
        _write(app, args.save_baseline, write_baseline(report))
    if args.html:
        app.out.write_file(args.html, evaluation_page(report, compared))
    if app.out.is_json:
        app.out.json(_as_json(report, compared, failures))
    else:
        _show(app, report, compared, failures)
    return EXIT_WORSE if failures else 0


def _run(
    sources: list[EvaluationSource], policy: Plays, terms: EvaluationTerms, app: App
) -> Evaluation:
    total = sum(record.kind == "assistant" for source in sources for record in source.records)
    with app.out.progress("replaying", total) as advance:
        return evaluate(sources, policy, terms, lambda name, _done, _all: advance(name))


def _policy(name: str) -> Plays:
    """Return the policy of a file, or one by its name."""
    if name in NAMED_POLICIES and not Path(name).exists():
        return NAMED_POLICIES[name]()
    if not Path(name).exists():
        raise UsageError(
            f"there is no policy `{name}`",
            hint=f"pass a TOML or JSON file, or a name: {', '.join(NAMED_POLICIES)}",
        )
    try:
        return SessionReplay(read_policy(name), name=Path(name).name)
    except BadSetting as error:
        raise UsageError(f"the policy `{name}`: {error}", hint=error.hint) from error


def _bytes_in(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read `{path}`: {error.strerror}", hint="pass a file that is there"
        ) from error


def _write(app: App, path: str, data: bytes) -> None:
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"cannot write `{path}`: {error.strerror}", hint="choose another file"
        ) from error
    app.out.note(f"wrote {Path(path).resolve()}")


def _as_json(
    report: Evaluation, compared: Comparison | None, failures: list[str]
) -> dict[str, Any]:
    figures = report.figures
    return {
        "policy": report.policy,
        "window": report.window,
        "passed": not failures,
        "failures": failures,
        "needed": report.need_counts,
        "lost": report.loss_counts,
        "figures": {**msgspec.to_builtins(figures), "cache_read_share": figures.read_share},
        "sessions": [msgspec.to_builtins(session) for session in report.sessions],
        "baseline": msgspec.to_builtins(compared) if compared is not None else None,
    }


def _show(app: App, report: Evaluation, compared: Comparison | None, failures: list[str]) -> None:
    out, figures = app.out, report.figures
    out.line(
        f"{count(len(report.sessions), 'session')}, {count(figures.calls, 'call')}, "
        f"policy {report.policy}, a window of {report.window:,}"
    )
    out.line(
        f"${figures.cost:,.2f} input cost, {figures.read_share:.1%} read from the cache, "
        f"{count(figures.cuts, 'cut')}, {count(figures.overflows, 'overflow')}"
    )
    out.line()
    before = compared.lost_before if compared is not None else {}
    head = ("needed", ">different", ">lost", *((">baseline",) if compared is not None else ()))
    rows: list[Row] = []
    for kind in NEED_KINDS:
        lost = report.loss_counts[kind]
        tone: Any = "bad" if lost and lost > before.get(kind, 0) else "plain"
        row = (kind, f"{report.need_counts[kind]:,}", Cell(f"{lost:,}", tone))
        rows.append((*row, f"{before[kind]:,}") if compared is not None else row)
    out.table(head, rows)
    _show_losses(app, compared.new_losses if compared is not None else report.losses)
    omitted = sum(session.omitted for session in report.sessions)
    if omitted:
        out.note(f"{count(omitted, 'sentence')} beyond the first 2,000 were not looked for")
    if compared is not None:
        _show_uncompared(app, compared)
    for failure in failures:
        out.line(Cell("worse:", "bad"), " ", failure)
    if compared is not None and not failures:
        out.line(Cell("no worse than the baseline", "good"))


def _show_losses(app: App, losses: tuple[Loss, ...]) -> None:
    out = app.out
    for loss in losses[:_SHOWN]:
        out.line()
        out.line(Cell(loss.kind, "name"), f"  {loss.text}")
        seen = f"{loss.seen.kind} {loss.seen.record}".strip() or "nowhere"
        out.line(f"  last seen   {seen}" + (f" of {loss.seen.tool}" if loss.seen.tool else ""))
        out.line(f"  taken by    {describe_cut(loss)}")
        calls = count(loss.calls, "call")
        out.line(f"  needed by   {loss.needed_by}, call {loss.needed_call:,}; missing in {calls}")
        out.line(f"  way back    {loss.ways_back[0]}")
    if len(losses) > _SHOWN:
        out.line()
        out.note(f"{len(losses) - _SHOWN:,} more losses: --html FILE and --json show all of them")
    out.line()


def _show_uncompared(app: App, compared: Comparison) -> None:
    for names, why in (
        (compared.changed, "changed since the baseline and cannot be compared"),
        (compared.unknown, "not in the baseline"),
        (compared.absent, "in the baseline, and not evaluated now"),
    ):
        if names:
            shown = ", ".join(names[:5]) + (", …" if names[5:] else "")
            app.out.note(f"{count(len(names), 'session')} {why}: {shown}")


VERBS = {"evaluate": Verb(_add_evaluate, _evaluate, _EXAMPLE)}

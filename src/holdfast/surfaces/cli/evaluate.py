"""`evaluate`: replays own sessions under a policy, and fails where they lost more than before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec

from holdfast.core.evaluation.baseline import TOLERANCE, compare, read_baseline, write_baseline
from holdfast.core.evaluation.needs import NEED_KINDS
from holdfast.core.evaluation.report import describe_cut
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
from holdfast.surfaces.cli.command import option, pick
from holdfast.surfaces.cli.verbs.simulate import ReplaysConversations
from holdfast.surfaces.formatting import count, money
from holdfast.surfaces.pages import page_file, render_page

if TYPE_CHECKING:
    from holdfast.core.evaluation.baseline import Comparison
    from holdfast.core.evaluation.losses import Loss
    from holdfast.core.evaluation.report import Evaluation
    from holdfast.engine.simulation.policies import Plays
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.formatting import Tone

EXIT_WORSE: Final = 1
"""The status where something got worse than the baseline, or there are too many losses."""
_SHOWN: Final = 20
"""Losses in the terminal; the page and `--json` have all of them."""


class EvaluateCommand(ReplaysConversations, frozen=True, kw_only=True):
    """Evaluates a policy."""

    example = """examples:
  holdfast evaluate transcripts/ --window 64k --save-baseline memory.json
  holdfast evaluate transcripts/ --window 64k --policy policy.toml --baseline memory.json
  holdfast evaluate session.jsonl --policy recorded --html losses.html"""
    policy: Annotated[
        str,
        option(
            f"a TOML or JSON file with thresholds, or a name: {', '.join(NAMED_POLICIES)}", "FILE"
        ),
    ] = "holdfast"
    baseline: Annotated[str | None, option("fail where it is worse than this", "FILE")] = None
    save_baseline: Annotated[str | None, option("write a baseline for later", "FILE")] = None
    tolerance: Annotated[
        float,
        option(
            f"how much cost may rise, and cache reads may fall ({100 * TOLERANCE:g})",
            "PERCENT",
        ),
    ] = 100 * TOLERANCE
    max_losses: Annotated[int | None, option("fail where there are more losses", "N")] = None
    html: Annotated[
        str | None, option("write a page that shows each loss", "FILE", read=page_file)
    ] = None

    def run(self, app: App) -> _Evaluated:
        policy, given = _policy(self.policy), self.baseline
        baseline = read_baseline(_bytes_in(given), given) if given else None
        sources = [
            EvaluationSource(each.name, each.records, each.model, each.address)
            for each in self.conversations(app)
        ]
        settings = EvaluationTerms(
            window=self.window or EVALUATION_WINDOW,
            static=self.static,
            output=self.output,
            model=self.model or "",
        )
        total = sum(record.kind == "assistant" for source in sources for record in source.records)
        with app.out.progress("replaying", total) as advance:
            report = evaluate(sources, policy, settings, lambda name, _done, _all: advance(name))
        compared = compare(report, baseline, tolerance=self.tolerance / 100) if baseline else None
        failures = [*compared.worse] if compared is not None else []
        if self.max_losses is not None and len(report.losses) > self.max_losses:
            failures.append(f"{len(report.losses):,} losses, {self.max_losses:,} allowed")
        if self.save_baseline:
            _write(app, self.save_baseline, write_baseline(report))
        if self.html:
            app.out.write_file(self.html, evaluation_page(report, compared))
        return _Evaluated(report, compared, failures)

    def plain(self, found: _Evaluated) -> Any:
        report, compared, failures = found
        figures = msgspec.to_builtins(report.figures)
        names = {"needed": "need_counts", "lost": "loss_counts"}
        return pick(report, "policy", "window", "sessions", **names) | {
            "passed": not failures,
            "failures": failures,
            "figures": {**figures, "cache_read_share": report.figures.read_share},
            "baseline": compared,
        }

    def show(self, found: _Evaluated, app: App) -> None:
        report, compared, failures = found
        out, figures = app.out, report.figures
        out.line(
            f"{count(len(report.sessions), 'session')}, {count(figures.calls, 'call')}, "
            f"policy {report.policy}, a window of {report.window:,}"
        )
        out.line(
            f"{money(figures.cost)} input cost, {figures.read_share:.1%} read from the cache, "
            f"{count(figures.cuts, 'cut')}, {count(figures.overflows, 'overflow')}"
        )
        out.line()
        before = compared.lost_before if compared is not None else {}
        rows: list[Row] = []
        for kind in NEED_KINDS:
            lost = report.loss_counts[kind]
            tone: Tone = "bad" if lost and lost > before.get(kind, 0) else "plain"
            row = (kind, f"{report.need_counts[kind]:,}", Cell(f"{lost:,}", tone))
            rows.append((*row, f"{before[kind]:,}") if compared is not None else row)
        more = (">baseline",) if compared is not None else ()
        out.table(("needed", ">different", ">lost", *more), rows)
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

    def status(self, found: _Evaluated) -> int:
        return EXIT_WORSE if found.failures else 0


class _Evaluated(NamedTuple):
    """An evaluation, how it compares, and why it fails."""

    report: Evaluation
    compared: Comparison | None
    failures: list[str]


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


_LOSSES_MAX: Final = 500
"""Losses of a session on the page: more would make a page that no browser likes."""


def evaluation_page(report: Evaluation, compared: Comparison | None = None) -> str:
    """Return the page: the figures, the losses by kind, and each loss by session."""
    return render_page(
        "evaluation.html",
        title="What later replies needed and no longer had",
        maker="holdfast evaluate",
        report=report,
        compared=compared,
        kinds=NEED_KINDS,
        losses_max=_LOSSES_MAX,
        describe_cut=describe_cut,
    )

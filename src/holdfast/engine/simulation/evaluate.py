"""Replay your own sessions under a policy, and report what later replies needed and lacked.

report = evaluate_sessions("transcripts/", window=64_000)
assert not report.losses_of("instruction"), report.describe()
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.evaluation.baseline import compare, read_baseline, write_baseline
from holdfast.core.evaluation.losses import CutNote, LossTracker, ObservedCall
from holdfast.core.evaluation.needs import NeedCatalog
from holdfast.core.evaluation.report import Evaluation, Figures, SessionEvaluation, sum_figures
from holdfast.core.log.listing import title_of
from holdfast.core.log.records import Assistant, Compaction, Header, Prune, User
from holdfast.core.log.refs import restore
from holdfast.core.log.replay import user_text, with_ids
from holdfast.core.owners import ANY_OWNER
from holdfast.core.projection.policy import POLICIES, Policy, PolicyName, policy_of
from holdfast.core.window import Window, as_window
from holdfast.engine.outputs import payload_of
from holdfast.engine.simulation.policies import read_policy
from holdfast.engine.simulation.sessions import REPLAYED, SessionReplay
from holdfast.engine.simulation.simulate import STATIC_TOKENS, PolicyReplay, rules_for, terms_for
from holdfast.engine.simulation.transcripts import Transcript
from holdfast.errors import UsageError
from holdfast.ports.sessions import names_of
from holdfast.providers.known_models.lookup import default_price, price_of
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.prices import Price
    from holdfast.core.window import StatedWindow
    from holdfast.engine.simulation.policies import Plays, PolicyRequest
    from holdfast.engine.simulation.sessions import Summarise
    from holdfast.ports import SessionStore

    EvaluationProgress = Callable[[str, int, int], None]
    """(session, calls done, calls in all)"""


EVALUATION_WINDOW: Final = Window(200_000, "simulated")
"""The window where the caller states none: that of most models in use."""


class EvaluationSource(msgspec.Struct, frozen=True):
    """A conversation to evaluate."""

    name: str
    """Its name in the report."""
    records: Sequence[Record]
    """Its records, the oldest first."""
    model: str = ""
    """The model that it is counted and priced for; empty means the recorded one."""
    address: str = ""
    """The name by which commands find it."""


class EvaluationTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of an evaluation."""

    window: Window = EVALUATION_WINDOW
    static: int = STATIC_TOKENS
    """Tokens of the system prompt and the tools."""
    output: int | None = None
    """Tokens that a reply may take; None for the default share of the window."""
    ttl_seconds: float | None = 300.0
    """Lifetime of the provider's cache; None for ever."""
    model: str = ""
    """Count and price as for this model; empty for the one that the session used."""
    price: Price | None = None


def evaluate_sessions(
    *sources: str | os.PathLike[str] | EvaluationSource,
    policy: Policy | PolicyName | Plays | None = None,
    summarise: Summarise | None = None,
    window: StatedWindow = EVALUATION_WINDOW,
    static: int = STATIC_TOKENS,
    output: int | None = None,
    model: str = "",
    store: SessionStore | None = None,
) -> Evaluation:
    """Replay sessions under a policy and report what later replies needed and no longer had.

    A source is a transcript file of any known format, a folder of them, an `EvaluationSource`, or,
    with a `store`, the id of a session. `policy` is that of a Holdfast session or its name,
    or another one that can be simulated (`RecordedCuts()` judges the cuts in the log). `summarise`
    is called for each cut with the records that it takes, and returns the summary that stands for
    them.
    """
    found = [each for source in sources for each in read_source(source, store)]
    plays = policy
    if plays is None or isinstance(plays, Policy | str):
        plays = SessionReplay(policy_of(plays or "balanced"), summarise)
    terms = EvaluationTerms(
        window=as_window(window, "simulated"), static=static, output=output, model=model
    )
    return evaluate(found, plays, terms)


def evaluate(
    sources: Iterable[EvaluationSource],
    policy: Plays,
    terms: EvaluationTerms,
    progress: EvaluationProgress | None = None,
) -> Evaluation:
    """Evaluate conversations one by one; those without a reply are left out."""
    sessions = []
    for source in sources:
        session = _evaluate_session(source, policy, terms, progress)
        if session is not None:
            sessions.append(session)
    if not sessions:
        raise UsageError(
            "nothing to evaluate: the sessions have no replies",
            hint="pass sessions or transcripts in which a model has answered",
        )
    return Evaluation(policy.name, terms.window.tokens, tuple(sessions))


def _evaluate_session(
    source: EvaluationSource,
    policy: Plays,
    terms: EvaluationTerms,
    progress: EvaluationProgress | None,
) -> SessionEvaluation | None:
    records = with_ids(source.records)
    if not any(isinstance(record, Assistant) for record in records):
        return None
    model = terms.model or source.model
    transcript = Transcript(records, counter_for(model or None), catalog=NeedCatalog)
    catalog = transcript.catalog
    assert isinstance(catalog, NeedCatalog)
    price = terms.price or price_of(model) or default_price()
    rules = rules_for(price, terms.ttl_seconds)
    conditions = terms_for(terms.window, terms.static, terms.output, price, rules)
    tracker = LossTracker(catalog, records)
    figures: list[Figures] = []

    def advance(done: int, total: int) -> None:
        if progress is not None:
            progress(source.name, done, total)

    for call, request, run, known in PolicyReplay(transcript, policy, conditions, price).play(
        advance
    ):
        figures.append(
            Figures(
                calls=1,
                cost=run.cost,
                tokens_sent=run.tokens_sent,
                tokens_read=run.tokens_read,
                cuts=run.cuts,
                prunes=run.prunes,
                overflows=run.overflows,
                invalid=run.invalid,
            )
        )
        tracker.observe(
            ObservedCall(
                reply=transcript.records[call.records].id,
                arrived=call.arrived,
                uses=[use.fact for use in call.uses],
                pieces=[piece.facts for piece in request.pieces],
                known=known,
                summary=request.injected,
                made=_note_cut(request),
            )
        )
    return SessionEvaluation(
        name=source.name,
        fingerprint=_fingerprint(transcript.records),
        figures=sum_figures(figures),
        losses=tracker.finish(),
        needed=tracker.need_counts,
        omitted=catalog.omitted,
        address=source.address,
        title=_title_of(transcript.records),
    )


def _title_of(records: Sequence[Record]) -> str:
    spoken = (user_text(record) for record in records if isinstance(record, User))
    return title_of(next((text for text in spoken if text.strip()), ""))


def _note_cut(request: PolicyRequest) -> CutNote:
    made = next((rec for rec in request.decisions if isinstance(rec, Compaction)), None)
    pruned = next((rec for rec in request.decisions if isinstance(rec, Prune)), None)
    decision = made or pruned
    if decision is None:
        return CutNote()
    return CutNote(
        action="pruning" if made is None else "compaction",
        reason=decision.reason or "",
        record="" if decision.id.startswith(REPLAYED) else decision.id,
        kept_from=(made.first_kept or "") if made is not None else "",
    )


def _fingerprint(records: Sequence[Record]) -> str:
    """A hash of what was said and done, which another import of the same session has, too."""
    found = hashlib.blake2b(digest_size=12)
    for record in records:
        said = (record.kind, getattr(record, "content", None), getattr(record, "input", None))
        found.update(msgspec.json.encode(said))
    return found.hexdigest()


def read_source(
    source: str | os.PathLike[str] | EvaluationSource, store: SessionStore | None = None
) -> Iterator[EvaluationSource]:
    """Yield the conversations of a file or a folder, or the session of a store."""
    if isinstance(source, EvaluationSource):
        yield source
    elif not isinstance(source, str | os.PathLike):
        raise UsageError(
            f"a session cannot be of type `{type(source).__name__}`",
            hint="pass paths or ids one by one: `evaluate_sessions(*paths)`",
        )
    elif os.path.exists(source):
        yield from _in_files(os.fspath(source))
    elif store is not None:
        yield session_source(store, os.fspath(source))
    else:
        raise UsageError(
            f"there is no file or folder `{os.fspath(source)}`",
            hint="pass a transcript or a folder of them; ids of sessions need `store`",
        )


def _in_files(path: str) -> Iterator[EvaluationSource]:
    from holdfast.importers import read_transcript
    from holdfast.importers.places import find, load

    is_folder, count = os.path.isdir(path), 0
    for file in find(path):
        try:
            found = read_transcript(load(file), file)
        except UsageError:
            if not is_folder:
                raise
            continue  # a folder may hold other files
        for each in found:
            count += 1
            yield EvaluationSource(each.name, each.records, "", f"{file}#{each.name}")
    if not count:
        raise UsageError(
            f"no transcript in `{path}`", hint="name a file to see what was found in it"
        )


def session_source(store: SessionStore, name: str) -> EvaluationSource:
    """Return a session of a store by its id, its label or a unique prefix of one."""
    from holdfast.core.log.ids import resolve

    infos = store.sessions(owner=ANY_OWNER)
    key = resolve(name, names_of(infos))
    payload = payload_of(store.blobs)
    records = [restore(rec, payload) for rec in store.read(key) if not isinstance(rec, Header)]
    return EvaluationSource(str(key), records, "", str(key))


class EvaluationSettings(msgspec.Struct, frozen=True):
    """The settings of a test run; empty texts are not set."""

    root: str
    """The folder that relative paths of the settings start from."""
    window: str = ""
    policy: str = ""
    baseline: str = ""
    saves: bool = False
    """Write the baseline instead of comparing with it."""

    def evaluate(self, *sources: Any, **options: Any) -> tuple[Evaluation, str]:
        """Return the report, and in words what is worse than the baseline."""
        baseline = options.pop("baseline", None) or self.baseline
        if self.window:
            options.setdefault("window", _window(self.window))
        if self.policy:
            options.setdefault("policy", self._policy())
        report = evaluate_sessions(*sources, **options)
        if not baseline:
            return report, ""
        path = Path(self.root, baseline)
        if self.saves:
            path.write_bytes(write_baseline(report))
            return report, ""
        if not path.exists():
            raise UsageError(
                f"there is no baseline `{path}`",
                hint="write it with `pytest --holdfast-save-baseline`",
            )
        compared = compare(report, read_baseline(path.read_bytes(), str(path)))
        if not compared.worse:
            return report, ""
        lines = ["worse than the baseline:", *compared.worse]
        if compared.new_losses:
            lines += ["new losses:", report.describe(compared.new_losses)]
        return report, "\n".join(lines)

    def _policy(self) -> Policy:
        path = os.path.join(self.root, self.policy)
        is_name = self.policy in POLICIES and not os.path.exists(path)
        return POLICIES[self.policy] if is_name else read_policy(path)


def _window(text: str) -> Window:
    try:
        return Window(int(text.replace("_", "").replace(",", "")), "simulated")
    except ValueError as error:
        raise UsageError(
            f"`holdfast_window = {text}` is not a number", hint="write the tokens: 64000"
        ) from error

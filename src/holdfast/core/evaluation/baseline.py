"""A baseline: the figures of an evaluation that later ones are compared with.

It holds counts and hashes and none of the words of a session, so that it can be kept beside the
tests. Only sessions with the same records are compared.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.evaluation.needs import LASTING, NEED_KINDS, NeedKind
from holdfast.core.evaluation.report import Evaluation, Figures, count_losses, sum_figures
from holdfast.core.extract.statements import same_words
from holdfast.core.text.typed import decode_typed
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.evaluation.losses import Loss
    from holdfast.core.evaluation.report import SessionEvaluation

BASELINE_VERSION: Final = 1
TOLERANCE: Final = 0.05
"""Cost and cache reads may get worse by this share: moving a cut by one call does as much."""
_EXACT: Final[tuple[Literal["overflows", "invalid"], ...]] = ("overflows", "invalid")


class BaselineSession(msgspec.Struct, frozen=True):
    """One session of a baseline."""

    name: str
    fingerprint: str
    figures: Figures
    lost: dict[str, int]
    """Number of losses by kind."""
    losses: list[str]
    """A hash of each loss."""


class Baseline(msgspec.Struct, frozen=True):
    """An earlier evaluation, without words."""

    policy: str
    """The policy that was evaluated."""
    window: int
    """The window, in tokens."""
    sessions: list[BaselineSession]
    """Figures and losses of each session."""
    version: int = BASELINE_VERSION
    """The version of this format."""


class Comparison(msgspec.Struct, frozen=True):
    """An evaluation beside its baseline."""

    before: Figures
    """Figures of the baseline, over the sessions that are in both."""
    after: Figures
    """Figures of the evaluation, over the same sessions."""
    lost_before: dict[NeedKind, int]
    """Number of losses in the baseline, by kind."""
    lost_after: dict[NeedKind, int]
    """Number of losses now, by kind."""
    worse: tuple[str, ...]
    """Each thing that got worse, in words; empty where nothing did."""
    new_losses: tuple[Loss, ...]
    """Losses that the baseline does not have."""
    compared: int
    """Number of sessions."""
    changed: tuple[str, ...] = ()
    """Sessions whose records are others than in the baseline."""
    unknown: tuple[str, ...] = ()
    """Sessions that the baseline does not have."""
    absent: tuple[str, ...] = ()
    """Sessions of the baseline that were not evaluated."""


def make_baseline(evaluation: Evaluation) -> Baseline:
    """The baseline that an evaluation is for later ones."""
    sessions = [
        BaselineSession(
            name=session.name,
            fingerprint=session.fingerprint,
            figures=session.figures,
            lost={kind: count for kind, count in count_losses(session.losses).items() if count},
            losses=[loss_key(loss) for loss in session.losses],
        )
        for session in evaluation.sessions
    ]
    return Baseline(evaluation.policy, evaluation.window, sessions)


def write_baseline(evaluation: Evaluation) -> bytes:
    """The baseline of an evaluation as JSON, with the same bytes for the same evaluation."""
    data = msgspec.json.encode(make_baseline(evaluation), order="deterministic")
    return msgspec.json.format(data, indent=1) + b"\n"


def read_baseline(data: bytes, name: str) -> Baseline:
    """Read a baseline. Raises `UsageError` where it is none."""
    hint = "write one with `holdfast evaluate … --save-baseline FILE`"
    try:
        found = decode_typed(data, Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"`{name}` is not a baseline: {error}", hint=hint) from error
    if found.version != BASELINE_VERSION:
        raise UsageError(f"`{name}` is a baseline of version {found.version}", hint=hint)
    return found


def compare(
    evaluation: Evaluation, baseline: Baseline, *, tolerance: float = TOLERANCE
) -> Comparison:
    """Compare an evaluation with a baseline. Raises `UsageError` where they share no session."""
    known = {session.fingerprint: session for session in baseline.sessions}
    names = {session.name for session in baseline.sessions}
    pairs = [
        (session, known[session.fingerprint])
        for session in evaluation.sessions
        if session.fingerprint in known
    ]
    others = [each.name for each in evaluation.sessions if each.fingerprint not in known]
    if not pairs:
        raise UsageError(
            f"the baseline has none of these {len(evaluation.sessions):,} sessions as they are now",
            hint="evaluate the sessions of the baseline, or write a new one with --save-baseline",
        )
    here = {session.fingerprint for session in evaluation.sessions}
    changed = tuple(name for name in others if name in names)
    after = sum_figures(session.figures for session, _before in pairs)
    before = sum_figures(old.figures for _session, old in pairs)
    lost_after = count_losses(loss for session, _before in pairs for loss in session.losses)
    lost_before: dict[NeedKind, int] = {
        kind: sum(old.lost.get(kind, 0) for _session, old in pairs) for kind in NEED_KINDS
    }
    new = tuple(loss for session, old in pairs for loss in _new_losses(session, old))
    return Comparison(
        *(before, after, lost_before, lost_after),
        worse=(
            *_more_losses(lost_before, lost_after, new),
            *_worse_figures(before, after, tolerance),
        ),
        new_losses=new,
        compared=len(pairs),
        changed=changed,
        unknown=tuple(name for name in others if name not in names),
        absent=tuple(
            each.name
            for each in baseline.sessions
            if each.fingerprint not in here and each.name not in changed
        ),
    )


def loss_key(loss: Loss) -> str:
    """A hash that is the same for the same loss, whichever cut took it."""
    text = f"{loss.kind} {same_words(loss.text)}"
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def _new_losses(session: SessionEvaluation, before: BaselineSession) -> list[Loss]:
    known = set(before.losses)
    return [loss for loss in session.losses if loss_key(loss) not in known]


def _more_losses(
    before: dict[NeedKind, int], after: dict[NeedKind, int], new: tuple[Loss, ...]
) -> list[str]:
    """A kind is worse with more losses; a lasting one also with others than before."""
    others = count_losses(new)
    worse = []
    for kind in NEED_KINDS:
        if after[kind] > before[kind]:
            worse.append(f"{kind}: {after[kind]:,} lost, {before[kind]:,} before")
        elif kind in LASTING and others[kind]:
            worse.append(f"{kind}: {others[kind]:,} lost that were not lost before")
    return worse


def _worse_figures(before: Figures, after: Figures, tolerance: float) -> list[str]:
    worse = [
        f"{name}: {getattr(after, name):,}, {getattr(before, name):,} before"
        for name in _EXACT
        if getattr(after, name) > getattr(before, name)
    ]
    if after.cost > before.cost * (1 + tolerance):
        worse.append(f"cost: ${after.cost:,.2f}, ${before.cost:,.2f} before")
    if after.read_share < before.read_share - tolerance:
        worse.append(
            f"cache reads: {after.read_share:.1%} of the input, {before.read_share:.1%} before"
        )
    return worse

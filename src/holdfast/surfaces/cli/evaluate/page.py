"""An evaluation as one HTML page, without scripts or network access: every loss with its cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.evaluation.needs import NEED_KINDS
from holdfast.core.evaluation.report import describe_cut
from holdfast.surfaces.pages import render_page

if TYPE_CHECKING:
    from holdfast.core.evaluation.baseline import Comparison
    from holdfast.core.evaluation.report import Evaluation

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

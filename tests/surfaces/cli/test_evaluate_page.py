"""The page of an evaluation shows each loss, escaped, and needs nothing else."""

from __future__ import annotations

import re

from tests.core.evaluation.test_baseline import BEFORE, a_loss, an_evaluation

from holdfast.core.evaluation.baseline import compare, make_baseline
from holdfast.surfaces.cli.evaluate import evaluation_page


def test_every_loss_has_its_record_its_cut_and_ways_back() -> None:
    page = evaluation_page(BEFORE)
    assert page.count("<article") == len(BEFORE.losses)
    for words in ("Never push.", "user <code>r1</code>", "cut 1 before call 2", "Ways back"):
        assert words in page
    assert not re.search(r"<script|https?://|src=", page)


def test_words_of_a_session_are_text() -> None:
    page = evaluation_page(an_evaluation(a_loss("value", "<script>alert('x')</script>\x1b[31m")))
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page


def test_what_got_worse_comes_first() -> None:
    after = an_evaluation(a_loss(), a_loss("name", "other_name"))
    page = evaluation_page(after, compare(after, make_baseline(BEFORE)))
    assert "name: 2 lost, 1 before" in page
    assert page.index("Worse than the baseline") < page.index("By kind")
    assert "No worse" in evaluation_page(BEFORE, compare(BEFORE, make_baseline(BEFORE)))

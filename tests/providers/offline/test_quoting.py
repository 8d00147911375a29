"""Finding sentences: the right one first, nothing where nothing fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.providers.offline.quoting import (
    SENTENCE_CHARS,
    Sentence,
    find_quotes,
    has_terms,
    sentences,
)


def passages(*texts: str) -> list[Sentence]:
    return [Sentence(text, f"message {place}", place) for place, text in enumerate(texts)]


SAID = passages(
    "The database runs on port 5432.",
    "Deployments happen on Tuesdays after the release meeting.",
    "Ada owns the billing service.",
    "The cache was moved to Redis last spring.",
    "サーバーのポートは八千八十です。",
)


def test_the_sentence_with_the_answer_comes_first() -> None:
    """Words decide, whatever their endings."""
    for question, answer in (
        ("Which port does the database use?", 0),
        ("When do we deploy? Is there a deployment on Tuesday?", 1),
        ("Who owns billing?", 2),
        ("Where did we move the caches?", 3),
        ("サーバーのポート", 4),
    ):
        assert find_quotes(question, SAID, 1)[0].place == answer


def test_nothing_is_found_where_nothing_fits() -> None:
    """A question whose words nobody used has no answer, and neither has one without words."""
    for question in ("What is the capital of France?", "and of the?", "", "Who owns a yacht club?"):
        assert find_quotes(question, SAID, 3) == []


def test_of_equals_the_newest() -> None:
    """What was said last counts, where it is the same thing in other numbers."""
    found = find_quotes("Which port?", passages("The port is 1.", "The port is 2."), 2)
    assert [one.place for one in found] == [1, 0]


def test_the_same_sentence_is_quoted_once() -> None:
    """A sentence that was repeated is not worth two quotes."""
    said = passages("The port is 8080.", "The  port is 8080.", "the port is 8080.")
    assert len(find_quotes("port", said, 3)) == 1


@given(st.text(max_size=600))
def test_sentences_hold_the_whole_text(text: str) -> None:
    """No sentence is long or blank, and no character that counts is lost."""
    found = list(sentences(text))

    assert all(one and len(one) <= SENTENCE_CHARS for one in found)
    kept = [letter for one in found for letter in one if letter.isalnum()]
    assert kept == [letter for letter in text if letter.isalnum()]


def test_sentences_end_where_they_end() -> None:
    """Points inside names and numbers end nothing."""
    text = "Read src/a.py at 1.5 s. Then stop!\nNext line 文章。次です"
    assert list(sentences(text)) == [
        "Read src/a.py at 1.5 s.",
        "Then stop!",
        "Next line 文章。",
        "次です",
    ]


def test_small_words_are_no_question() -> None:
    """There is nothing to search for where all words are common."""
    assert has_terms("the files")
    assert not has_terms("and of the?")

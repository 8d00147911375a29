"""The order of hits: exact ones first, the same however many are wanted, each source in turn."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.memory.ranking import (
    NOTE_WEIGHTS,
    Alike,
    Candidate,
    Weights,
    essential,
    leaders,
    query_terms,
    rank,
    rarity,
)

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        id=st.integers(0, 10_000),
        source=st.integers(0, 5),
        place=st.integers(0, 20),
        words=st.floats(0, 30),
        similarity=st.none() | st.floats(-1, 1),
        is_user=st.booleans(),
        ts=st.none() | st.floats(0, 2e9),
        is_at_named_time=st.booleans(),
        is_exact=st.booleans(),
        identifiers=st.floats(0, 1),
    ),
    max_size=30,
    unique_by=(lambda one: one.id, lambda one: (one.source, one.place)),
)
SOURCES = st.dictionaries(st.integers(0, 5), st.floats(0, 50))
NEAR = st.dictionaries(st.integers(0, 5), st.floats(-1, 1))
ALIKE = st.builds(Alike, words=SOURCES, meaning=NEAR)


@given(CANDIDATES, SOURCES, NEAR, ALIKE)
def test_every_candidate_is_ranked_once_and_exact_ones_come_first(
    candidates: list[Candidate], sources: dict[int, float], means: dict[int, float], alike: Alike
) -> None:
    """Fusion loses nothing: an exact hit stands before all that are not."""
    order = rank(candidates, sources, means=means, alike=alike, newest=2e9)
    exact = {one.id for one in candidates if one.is_exact}

    assert sorted(one.id for one in order) == sorted(one.id for one in candidates)
    assert {one.id for one in order[: len(exact)]} == exact
    assert all(0 <= one.score <= 1.000001 for one in order)


@given(
    st.lists(st.tuples(st.integers(1, 99), st.booleans()), min_size=2, max_size=20, unique=True),
    st.floats(0, 1),
)
@example([(50, True), (60, False), (99, False)], 0.3)
def test_what_has_no_vector_stands_where_its_words_put_it(
    drawn: list[tuple[int, bool]], coverage: float
) -> None:
    """Where meaning goes with words, the order is the same whichever of the passages have a vector:
    none is pushed down, or up, because it has none."""
    least = Weights().similarity_least
    candidates = [
        Candidate(
            number,
            source=number,
            place=0,
            words=float(words),
            similarity=least + words / 200 if has_vector else None,
        )
        for number, (words, has_vector) in enumerate(drawn)
    ]
    order = [candidates[one.id].words for one in rank(candidates, {}, coverage=coverage)]

    assert order == sorted(order, reverse=True)


@given(CANDIDATES, SOURCES, NEAR, ALIKE, st.floats(0, 1), st.none() | st.floats(0.01, 1))
def test_every_score_is_a_share_whatever_is_missing(
    candidates: list[Candidate],
    sources: dict[int, float],
    means: dict[int, float],
    alike: Alike,
    coverage: float,
    told: float | None,
) -> None:
    """Exact ones are first, and the order does not depend on that of the candidates."""
    given_ = {"means": means, "alike": alike, "newest": 2e9, "coverage": coverage, "told": told}
    order = rank(candidates, sources, **given_)  # type: ignore[arg-type]
    exact = {one.id for one in candidates if one.is_exact}

    assert order == rank(candidates[::-1], sources, **given_)  # type: ignore[arg-type]
    assert {one.id for one in order[: len(exact)]} == exact
    assert all(0 <= one.score <= 1.000001 for one in order)


@given(CANDIDATES, SOURCES)
def test_the_order_does_not_depend_on_the_order_of_the_candidates(
    candidates: list[Candidate], sources: dict[int, float]
) -> None:
    assert rank(candidates, sources) == rank(candidates[::-1], sources)


def test_a_perfect_hit_by_words_alone_is_first() -> None:
    """However near others come in meaning, what holds exactly what was asked for is not lost."""
    exact = Candidate(1, source=1, place=0, words=2.0, similarity=0.0, is_exact=True)
    near = [Candidate(n, source=n, place=0, words=0.0, similarity=0.9) for n in range(2, 30)]

    assert rank([*near, exact], {})[0].id == 1


def test_of_equals_the_newer_is_first() -> None:
    old = Candidate(2, source=1, place=0, words=1.0, ts=1e9)
    new = Candidate(1, source=2, place=0, words=1.0, ts=1.5e9)

    assert [one.id for one in rank([old, new], {}, newest=1.5e9)] == [1, 2]


def test_age_alone_does_not_beat_a_better_match() -> None:
    old = Candidate(1, source=1, place=0, words=3.0, ts=1e9)
    new = Candidate(2, source=2, place=0, words=2.0, ts=1.5e9)

    assert rank([old, new], {}, newest=1.5e9)[0].id == 1


def test_what_stands_beside_a_match_counts() -> None:
    """The neighbour of the best passage goes before a stranger of the same weight."""
    best = Candidate(1, source=1, place=4, words=5.0)
    beside = Candidate(2, source=1, place=5, words=1.0)
    stranger = Candidate(3, source=2, place=2, words=1.0)
    order = rank([stranger, beside, best], {}, weights=Weights(again=1.0))

    assert [one.id for one in order] == [1, 2, 3]


def test_the_words_that_a_session_begins_with_count_more() -> None:
    opening = Candidate(1, source=1, place=0, words=1.0)
    later = Candidate(2, source=2, place=1, words=1.0)  # of equals the one written later is first

    assert [one.id for one in rank([opening, later], {})] == [1, 2]
    assert [one.id for one in rank([opening, later], {}, weights=NOTE_WEIGHTS)] == [2, 1]


def test_where_no_passage_says_much_of_the_query_the_session_decides() -> None:
    """A passage that says all of it goes first; one that says little of it does not."""
    says_it = Candidate(1, source=1, place=7, words=5.0)
    begins = Candidate(2, source=2, place=0, words=1.0)
    sources = {1: 1.0, 2: 2.0}

    assert [one.id for one in rank([says_it, begins], sources, told=1.0)] == [1, 2]
    assert [one.id for one in rank([says_it, begins], sources, told=0.2)] == [2, 1]


@given(st.integers(0, 20), st.integers(-20, 20))
def test_the_neighbour_of_a_hit_is_not_pushed_down(place: int, distance: int) -> None:
    """A question and its answer belong together: how near two hits of a source stand to each other
    does not lower the second."""
    best = Candidate(1, source=1, place=place, words=5.0)
    second = Candidate(2, source=1, place=place + 40 + distance, words=2.0)
    beside = Candidate(2, source=1, place=place + 1, words=2.0)
    weights = Weights(neighbour_alone=0.0)

    assert rank([best, beside], {}, weights=weights) == rank([best, second], {}, weights=weights)


def test_what_was_said_at_a_named_time_goes_first() -> None:
    then = Candidate(1, source=1, place=0, words=2.0, ts=1e9, is_at_named_time=True)
    later = Candidate(2, source=2, place=0, words=2.2, ts=1.1e9)

    assert rank([later, then], {}, newest=1.1e9)[0].id == 1


def test_a_short_statement_goes_before_the_reply_that_repeats_it() -> None:
    """By words alone: the evidence is what the user said, and the reply is longer."""
    told = Candidate(1, source=1, place=0, words=2.0, is_user=True)
    answered = Candidate(2, source=1, place=1, words=2.5)

    assert rank([answered, told], {})[0].id == 1


def test_another_source_goes_before_more_of_the_same() -> None:
    many = [Candidate(n, source=1, place=2 * n, words=5.0 - n / 100) for n in range(4)]
    other = Candidate(9, source=2, place=0, words=4.5)

    assert rank([*many, other], {})[1].id == 9


def test_what_a_person_said_goes_before_the_same_answer() -> None:
    told = Candidate(1, source=1, place=0, words=1.0, is_user=True)
    answered = Candidate(2, source=2, place=0, words=1.0)

    assert rank([answered, told], {})[0].id == 1


def test_age_counts_for_little_beside_words_and_meaning() -> None:
    old = Candidate(1, source=1, place=0, words=3.0, similarity=0.8, ts=1e9)
    new = Candidate(2, source=2, place=0, words=1.0, similarity=0.4, ts=1.5e9)

    assert rank([old, new], {}, newest=1.5e9)[0].id == 1


@given(CANDIDATES, SOURCES)
def test_the_leaders_are_the_best_passages_of_the_best_sources(
    candidates: list[Candidate], sources: dict[int, float]
) -> None:
    found = leaders(candidates, sources, newest=2e9)

    assert found == leaders(candidates[::-1], sources, newest=2e9)
    assert len({one.source for one, _share in found}) == len(found) <= 3
    assert not found or abs(sum(share for _one, share in found) - 1) < 1e-9


def test_what_is_like_the_best_source_goes_before_what_is_not() -> None:
    best = Candidate(1, source=1, place=0, words=5.0)
    like = Candidate(2, source=2, place=0, words=1.0)
    unlike = Candidate(3, source=3, place=0, words=1.1)
    order = rank([best, like, unlike], {}, alike=Alike(words={1: 4.0, 2: 3.0}))

    assert [one.id for one in order] == [1, 2, 3]


def test_common_words_are_worth_less_than_others() -> None:
    worth = query_terms("what about the server the server")

    assert worth["the"] < worth["server"]
    assert query_terms("server server")["server"] > query_terms("server")["server"]


def test_rarer_terms_are_worth_more_and_none_is_worth_less_than_nothing() -> None:
    assert rarity(1, 100) > rarity(50, 100) > rarity(100, 100) > 0
    assert rarity(500, 100) > 0


def test_only_short_queries_can_be_met_exactly() -> None:
    assert essential("the parse_config file") == ("parse_config", "pars", "config", "fil")
    assert (
        essential("why did the nightly deployment of the third server to staging fail on Monday")
        == ()
    )
    assert essential("what is it") == ()

"""The estimate: bounded, linear, and in sight of the exact count for every kind of content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests import strategies

from holdfast.core.tokens import estimate as module
from holdfast.core.tokens.counting import tokens_max
from holdfast.core.tokens.estimate import (
    WEIGHTS_COUNT,
    assumed_weights,
    estimate,
    features,
    is_weighed,
    pieces_of,
    thousandths,
)
from holdfast.core.tokens.estimate_weights import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable


@given(strategies.texts())
def test_estimate_is_zero_only_for_nothing_and_never_above_the_bytes(text: str) -> None:
    """0 for the empty text and for no other; at most one token for each byte."""
    tokens = estimate(text)
    assert (tokens == 0) == (text == "")
    assert tokens <= tokens_max(text)


@pytest.mark.parametrize("chars", [10, 2_000, 2_001, 64_000, 64_001])
def test_a_text_is_counted_once_unless_it_is_very_long(chars: int) -> None:
    """The same messages are in every request; what is remembered is bounded in characters."""
    caches = [module._estimate_short, module._estimate_long]
    for cache in caches:
        cache.cache_clear()
    text = "seven words that are in every request " * 2_000
    assert estimate(text[:chars]) == estimate(text[:chars]) == module._estimate(text[:chars])
    assert sum(cache.cache_info().hits for cache in caches) == (chars <= 64_000)
    bounds = [cache.cache_info().maxsize for cache in caches]
    assert bounds == [8_192_000 // 2_000, 8_192_000 // 64_000]


@given(strategies.texts())
def test_pieces_are_the_text(text: str) -> None:
    """Cutting loses nothing, so everything is counted once."""
    assert "".join(pieces_of(text)) == text


@given(strategies.texts(), strategies.texts())
def test_estimate_of_a_whole_is_near_its_parts(left: str, right: str) -> None:
    """Lines count by themselves: joining two texts at a line break changes next to nothing."""
    apart = estimate(left) + estimate(right)
    joined = estimate(f"{left}\n\n{right}")
    assert joined <= apart + 8
    assert joined >= apart - 8


def test_weights_fit_their_places() -> None:
    """Every place that a piece can ask for has a weight."""
    assert len(WEIGHTS) == len(assumed_weights()) == WEIGHTS_COUNT


@given(
    strategies.texts() | st.text("abcXYZé _/'(-\t", max_size=30) | st.text("абЯї漢字カのไ한 →😀")
)
@example("Не всі обов'язкові поля, ЇЖАК")
@example("すべての人間は、生まれながらにして 自由であり")
def test_a_piece_is_worth_its_weights(text: str) -> None:
    """No piece of any text asks for a place outside the table; the quick way is the same sum."""
    for piece in pieces_of(text):
        if is_weighed(piece):
            places = features(piece)
            assert all(0 <= place < WEIGHTS_COUNT for place in places)
            weight = sum(WEIGHTS[place] for place in places)
            assert thousandths(piece) == min(max(1_000, weight), 4_000 * len(piece))
        else:
            assert thousandths(piece) >= 1_000


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        # Counted once with o200k_base.
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("El perro ladra mientras la luna ilumina la calle vacía.", 14),
        ("def main(argv: list[str]) -> int:\n    return len(argv) + 1\n", 19),
        ('{"id": 123456, "name": "Ada", "tags": ["a", "b"], "ok": true}', 27),
        ("2026-11-15 20:35:29,123 ERROR [db.pool] timeout after 30s", 24),
        ("\x1b[2m10:05:00\x1b[0m \x1b[1;32mINFO\x1b[0m \x1b[1mserver\x1b[0m: up", 34),
        ("\x1b[2K\x1b[1G\x08\x08\x00", 11),
        ("d41d8cd98f00b204e9800998ecf8427e", 19),
        ("我们明天下午三点在图书馆见面，请带上你的笔记本。", 20),
        ("明日の午後三時に図書館で会いましょう。ノートを持ってきてください。", 24),
        ("내일 오후 세 시에 도서관에서 만나요. 공책을 가져오세요.", 20),
        ("Мы встретимся завтра в три часа в библиотеке.", 12),
        ("سنلتقي غدا في الساعة الثالثة في المكتبة.", 12),
    ],
)
def test_estimate_is_in_sight_of_the_exact_count(text: str, exact: int) -> None:
    """One line of each kind of content is within a third, or three tokens, of the exact count."""
    assert abs(estimate(text) - exact) <= max(3, exact / 3)


@pytest.mark.parametrize(
    ("piece", "guess"),
    [
        # Case, and what stands before a word.
        (" Word", 1_057),
        ("WORD", 1_209),
        (" HTTPServer", 1_768),
        (" IDs", 1_019),
        ("Ab", 1_000),
        ("/path", 1_053),
        ("-flag", 1_142),
        (".attr", 1_009),
        ("(call", 1_000),
        # Words of 14, 15 and 16 letters, and longer ones.
        (" counterexample", 1_965),
        (" internationally", 1_969),
        (" internationalis", 2_113),
        (" internationalizations", 2_124),
        # Endings, other letters, marks.
        (" don't", 1_142),
        (" naïve", 1_797),
        ("aé", 1_225),
        ("==", 1_009),
        ("});\n", 1_112),
        ("={=}={=}={=}=", 1_422),
        ("){{}}[]<>;:,.?!&|", 4_790),
        # What needs no weights: white space, digits, runs.
        ("\n\n", 1_000),
        ("    ", 1_000),
        ("7", 1_000),
        ("123", 1_000),
        ("a", 1_000),
        ("aaaa", 2_628),
        ("aaaaa", 2_000),
        ("aaaaaaaaa", 3_000),
        ("=" * 48, 1_000),
        ("=" * 49, 2_000),
        # What terminals are told: a token for each character, and for each number.
        ("\x1b[38;5;208m", 8_000),
        (" \x1b[0m", 5_000),
        ("\x08\x08\x08", 3_000),
        (":\x07", 2_000),
        # Other scripts, short and long.
        ("我", 1_036),
        ("我们明天", 3_443),
        ("我们明天下午三点在图书馆见面请带上你的", 15_577),
        (" встретимся", 2_225),
        (" переосвидетельствование", 5_076),
        ("سنلتقي", 2_665),
        ("도서관에서", 2_899),
        ("ましょう", 1_424),
        ("カタカナ", 3_023),
        ("ไทย", 2_024),
        # Symbols.
        ("é", 1_222),
        ("→", 1_001),
        (" \u00a0", 1_080),
        ("😀", 2_144),
        ("👍🏽", 3_443),
        ("🇩🇪", 4_150),
    ],
)
def test_a_piece_is_described_as_its_weights_were_fitted(piece: str, guess: int) -> None:
    """The measured errors (docs/tokens.md) hold for these guesses, in thousandths of a token:
    whoever describes a piece otherwise fits the weights again and writes the new ones here."""
    assert pieces_of(piece) == [piece]
    assert thousandths(piece) == guess


@pytest.mark.parametrize("character", ["a", " ", "\n", "=", "é", "字", "😀", "\u0301", "\ud800"])
def test_runs_of_one_character_are_bounded(character: str) -> None:
    """A long run is counted in proportion: twice the run, twice the tokens."""
    short, long = estimate(character * 20_000), estimate(character * 40_000)
    assert short <= tokens_max(character * 20_000)
    assert long == pytest.approx(2 * short, rel=0.01)


@pytest.fixture(scope="module")
def exact() -> Callable[[str], int]:
    splintr = pytest.importorskip("splintr", reason="NOT TESTED against o200k: no `splintr-rs`")
    tokenizer = splintr.Tokenizer.from_pretrained("o200k_base")
    return lambda text: len(tokenizer.encode(text))


STYLES = ("─│┌┬┐├┼┤└┴┘", "━┃┏┳┓┡╇┩┗┻┛", "═║╔╦╗╠╬╣╚╩╝", "─│╭┬╮├┼┤╰┴╯")
CELLS = ("name", "1,204", "ok", "src/main.py", "kept", "error", "--", "17 %", "a note on it", "")


@given(
    style=st.sampled_from(STYLES),
    widths=st.lists(st.integers(3, 40), min_size=1, max_size=6),
    cells=st.lists(st.sampled_from(CELLS), min_size=36, max_size=36),
    is_ruled=st.booleans(),
)
def test_estimate_of_drawn_tables_is_near(
    exact: Callable[[str], int], style: str, widths: list[int], cells: list[str], is_ruled: bool
) -> None:
    """Tables with lines of any style and width are neither taken for little nor for much."""
    line, side, corners = style[0], style[1], style[2:]
    rules = [tuple(corners[place : place + 3]) for place in (0, 3, 6)]
    top, middle, bottom = (
        left + cross.join(line * (width + 2) for width in widths) + right
        for left, cross, right in rules
    )
    rows = [
        side + side.join(f" {cells[row * 6 + n][:w]:<{w}} " for n, w in enumerate(widths)) + side
        for row in range(6)
    ]
    between = f"\n{middle}\n" if is_ruled else "\n"
    _check_near("\n".join((top, between.join(rows), bottom)), exact)


PROSE = {
    "hindi": (
        "भारत एक विशाल देश है जिसमें अनेक भाषाएँ बोली जाती हैं। कृपया इस फ़ाइल को खोलें और त्रुटि "
        "संदेश को ध्यान से पढ़ें, फिर समस्या का समाधान बताएं। मुझे कल सुबह दस बजे डॉक्टर से मिलना है, "
        "इसलिए मैं जल्दी उठूँगा। परीक्षण विफल हुआ क्योंकि डेटाबेस से कनेक्शन समय पर नहीं बन सका।"
    ),
    "marathi": "महाराष्ट्र हे भारतातील एक मोठे राज्य आहे आणि येथील लोक मराठी भाषा बोलतात.",
    "bengali": "বাংলাদেশ একটি নদীমাতৃক দেশ এবং এখানকার মানুষ খুব অতিথিপরায়ণ, তারা গান ভালোবাসে।",
    "tamil": "தமிழ் மொழி உலகின் மிகப் பழமையான மொழிகளில் ஒன்றாகும், அதன் இலக்கியம் மிகவும் வளமானது.",
    "telugu": "తెలుగు భాష దక్షిణ భారతదేశంలో ఎక్కువ మంది మాట్లాడే భాషలలో ఒకటి మరియు గొప్పది.",
}


@pytest.mark.parametrize("language", PROSE)
def test_estimate_of_indian_languages_is_near(language: str, exact: Callable[[str], int]) -> None:
    """Running text of the scripts of India counts about as it does in o200k."""
    _check_near(PROSE[language], exact)


def _check_near(text: str, exact: Callable[[str], int]) -> None:
    found, true = estimate(text), exact(text)
    assert 0.9 * true - 2 <= found <= 1.15 * true + 2, f"{found} for {true}: {text}"

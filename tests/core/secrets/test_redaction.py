"""Nothing secret gets out: no known value in any form, no shape, wherever it stands or is split."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.secrets.planted_secrets import (
    HARMLESS,
    IN_CONTEXT,
    PRIVATE_KEY,
    PRIVATE_KEY_BODY,
    TOKENS,
    made,
)
from tests.strategies import clean_texts, json_values, texts
from tests.support.growth import is_superlinear
from tests.support.runs import examples, is_whole

from holdfast.core.limits import NESTING_MAX
from holdfast.core.secrets.redaction import MASK, Redactor, has_secret, masks_in, without_secrets
from holdfast.core.secrets.vault import Vault
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = Redactor()
KNOWN = {"DB_PASSWORD": 'p@ss "w/örd', "PIN": "90210815", "DEPLOY": "correct horse battery"}
REGISTERED = Redactor(KNOWN)

TOKEN = st.sampled_from(sorted(TOKENS.values()))
NAMES = st.sampled_from(["A", "B", "C_KEY", "d.e"])
VALUES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=4, max_size=24)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# shapes


@pytest.mark.parametrize("kind", TOKENS)
def test_tokens_are_masked_wherever_they_stand(kind: str) -> None:
    """In prose, in quotes, behind escapes and colours, as a file name, in an address."""
    token = TOKENS[kind]
    for text in (
        token,
        f"use {token}, please",
        f"<{token}>",
        f'{{"a": "{token}"}}',
        f"line\\n{token}\\n",
        f"\x1b[32m{token}\x1b[0m",
        f"/tmp/{token}.txt",
        f"q=%20{token}",
        f"日本語{token}。",
    ):
        masked = PLAIN.text(text)
        assert token not in masked
        assert token[6:-4] not in masked
        assert "[masked: " in masked
        assert has_secret(text)


@pytest.mark.parametrize("kind", IN_CONTEXT)
def test_secrets_are_known_by_what_stands_around_them(kind: str) -> None:
    """And what stands around them stays."""
    context, secret = IN_CONTEXT[kind]
    masked = PLAIN.text(context.format(secret))
    assert secret not in masked
    assert secret[6:-4] not in masked
    assert masked[:8] == context.format(secret)[:8] or kind == "AWS secret"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    """References, samples, hashes, ids, model names and talk about secrets."""
    assert PLAIN.text(text) is text
    assert not has_secret(text)


def test_masks_say_what_they_are() -> None:
    """Enough to recognise a long key by, nothing of a short one, lines where they were."""
    token = TOKENS["GitHub"]
    assert PLAIN.text(f"a {token} b") == f"a [masked: {token[:6]}…{token[-4:]}] b"
    assert PLAIN.text("password=hunter2!") == f"password={MASK}"
    assert REGISTERED.text("pin 90210815.") == "pin [masked: PIN]."
    masked = PLAIN.text(f"one\n{PRIVATE_KEY}\ntwo")
    assert masked == "one\n[masked: private key]" + "\n" * PRIVATE_KEY.count("\n") + "\ntwo"


@pytest.mark.parametrize("shown", [PRIVATE_KEY[:300], PRIVATE_KEY[-300:], PRIVATE_KEY[40:]])
def test_private_keys_that_were_cut_are_masked_as_well(shown: str) -> None:
    """Cut at the end, at the beginning, and as JSON writes them."""
    for text in (f"{shown} and so on", json.dumps({"key": f"it is\n{shown}\nand so on"})):
        masked = PLAIN.text(text)
        assert "and so on" in masked
        assert not any(line in masked for line in PRIVATE_KEY_BODY.split("\n"))
        assert not any(line[20:40] in masked for line in PRIVATE_KEY_BODY.split("\n"))


def test_masks_are_not_masked_again_and_hide_nothing() -> None:
    """A text that calls a key masked does not get it through."""
    token = TOKENS["Anthropic"]
    assert token not in PLAIN.text(f"[masked: {token}]")
    assert PLAIN.text("password=[masked] api_key: [masked: sk-ant…wxyz]").count("masked") == 2


def test_guesses_go_around_masks_and_known_values_take_them_along() -> None:
    """Whatever a library says, nothing is masked for ever."""
    everything = Redactor(find=lambda text: [(0, len(text))])
    once = everything.text("some words [masked] and [masked: private key]")
    assert once == "[masked][masked][masked][masked: private key]"
    assert everything.text(once) is once
    assert Redactor(find=lambda text: [(0, 0), (0, 4)]).text("word [masked]") == f"{MASK} [masked]"
    assert Redactor({"X": "x[masked"}).text("ax[masked] b") == "a[masked: X] b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('password: "hunter two words"', None),
        ('password: "open sesame"', None),
        ("password: correct-horse-battery-staple", "password: [masked: correc…aple]"),
        ("password: not-required", None),
        ("password: Not-needed", f"password: {MASK}"),
        ("password: -Needed", None),
        ("password: Needed-", None),
        ("token: Not-needed", None),
        ("password: Correct-Horse-5", f"password: {MASK}"),
        ('password = "opensesame"', f'password = "{MASK}"'),
        ("password = opensesameopen", f"password = {MASK}"),
        ("token: opensesameopen", None),
        ('token: "opensesameopen"', f'token: "{MASK}"'),
        ('"token": "12345678"', f'"token": "{MASK}"'),
        ("token: 12345678", None),
        ("sk-lf-1234abcd-5678-ef90", "[masked: sk-lf-…ef90]"),
        ("password: 'it\\'s 4 quotes'", None),
        ("password: 'it\\'s4quotes' x", f"password: '{MASK}' x"),
        ("PASSWORD=$(pass show db)", None),
        ("DB_PASS=s3same", f"DB_PASS={MASK}"),
        ("bypass=s3same, tests_that_pass: 12", None),
        ("<password>s3same</password>", f"<password>{MASK}</password>"),
        ("machine x login me password s3same", f"machine x login me password {MASK}"),
        ('{"auth": "bWU6b3BlbiBzZXNhbWU4"}', '{"auth": "[masked: bWU6b3…bWU4]"}'),
        (f"AWS_SESSION_TOKEN={'aB3/' * 300}", "AWS_SESSION_TOKEN=[masked: aB3/aB…aB3/]"),
        (f"token='{'aB3/' * 300}' x", "token='[masked: aB3/aB…aB3/]' x"),
    ],
)
def test_values_of_names_are_judged_by_how_they_stand(text: str, shown: str | None) -> None:
    """In quotes a value is one for certain; bare it may be the next word."""
    assert PLAIN.text(text) == (text if shown is None else shown)


# known values


@pytest.mark.parametrize("name", KNOWN)
def test_known_values_are_masked_in_every_form(name: str) -> None:
    """As JSON, in JSON, in an address, in HTML, in base64 at any offset, in hexadecimal."""
    value = KNOWN[name]
    data = value.encode()
    forms = [
        value,
        json.dumps(value)[1:-1],
        json.dumps(json.dumps({"x": value})),
        as_json(as_json([value])),
        urllib.parse.quote(value),
        urllib.parse.quote(value, safe=""),
        urllib.parse.quote_plus(value),
        html.escape(value),
        data.hex(),
        data.hex().upper(),
        f"<secret:{name}>",
        *(base64.b64encode(b"x" * count + data + b"y" * 5).decode() for count in range(4)),
        *(base64.urlsafe_b64encode(b"?" * count + data).decode() for count in range(4)),
    ]
    for form in forms:
        masked = REGISTERED.text(f"see {form} here")
        assert f"[masked: {name}]" in masked, form
        assert value not in masked
        assert masked.startswith("see ")
        assert masked.endswith(" here")


def test_a_quote_in_a_known_value_is_no_way_out() -> None:
    """HTML writes an apostrophe in four ways."""
    for quote in ("'", "&#39;", "&#x27;", "&apos;"):
        shown = Redactor({"X": "it's <b>me</b>"}).text(f"see it{quote}s &lt;b&gt;me&lt;/b&gt; here")
        assert shown == "see [masked: X] here"


@pytest.mark.parametrize("value", ["opensesame", "pw#1", "correct horse battery"])
def test_a_known_value_that_was_cut_is_masked_from_four_characters_on(value: str) -> None:
    """A preview may end anywhere, and then says so by `…`. The mask has the name, as for the whole
    value, and nothing of the value; three characters give nothing away."""
    redactor = Redactor({"X": value})
    for length in range(1, len(value)):
        begun = value[:length].rstrip()
        text = f"say {value[:length]}… and more"
        shown = text.replace(begun, "[masked: X]") if len(begun) >= 4 else text
        assert redactor.text(text) == shown


def test_a_value_under_two_names_is_shown_by_the_first_of_them() -> None:
    """By the alphabet, whichever was registered first, to the model as to a reader."""
    for names in (("A", "B"), ("B", "A")):
        known = dict.fromkeys(names, "opensesame")
        assert Redactor(known).text("say opensesame") == "say [masked: A]"
        assert Vault(known).mask_value("say opensesame") == "say <secret:A>"


def test_known_values_that_overlap_leave_nothing_of_either() -> None:
    """The longer one gives its name."""
    both = Redactor({"LEFT": "abcdefgh", "RIGHT": "ghijkl"})
    assert both.text("<abcdefghijkl>") == "<[masked: LEFT]>"
    assert Redactor({"A": "abab"}).text("xabababy") == "x[masked: A]y"


def test_value_that_cannot_be_registered_is_refused() -> None:
    """Too short, or the words of the mask; the value itself is not in the message."""
    with pytest.raises(BadSetting, match="`PIN` has 3 characters") as error:
        Redactor({"PIN": " 123 "})
    assert "123" not in str(error.value)
    with pytest.raises(BadSetting, match="masks are made of"):
        Redactor({"X": "masked"})
    with pytest.raises(BadSetting, match="cannot be called"):
        Redactor({"no spaces": "long enough"})
    assert "horse" not in repr(REGISTERED)


@given(st.dictionaries(NAMES, VALUES, min_size=1), clean_texts(60), st.data())
def test_no_known_value_gets_out(known: dict[str, str], text: str, data: st.DataObject) -> None:
    """Whatever the values are, whatever is around them, in whatever order they were given."""
    try:
        redactor = Redactor(known)
    except BadSetting:
        return
    planted = data.draw(st.sampled_from(sorted(known.values())))
    masked = redactor.text(f"{text}{planted}{text}{planted}")
    assert not any(value in masked for value in known.values())
    assert redactor.text(masked) == masked
    assert Redactor(dict(reversed(known.items()))).text(f"{text}{planted}{text}{planted}") == masked


def test_a_text_that_was_seen_before_is_the_same_object() -> None:
    """Not its equal from last time: whether something was masked can be told by looking at it."""
    for text in ("".join(("a", " word")), "".join(("a", " word"))):
        assert PLAIN.text(text) is text


@given(texts(120))
def test_text_without_secrets_is_the_same_object(text: str) -> None:
    """And what is changed once is not changed again."""
    masked = PLAIN.text(text)
    assert PLAIN.text(masked) is masked
    assert (masked is text) is not has_secret(text)


@given(st.lists(st.one_of(TOKEN, clean_texts(12), st.sampled_from(HARMLESS)), max_size=6))
def test_masking_twice_is_masking_once(parts: list[str]) -> None:
    """However secrets, words and masks stand together."""
    once = PLAIN.text("".join(parts))
    assert PLAIN.text(once) is once
    assert without_secrets(once) is once


# split


@pytest.mark.parametrize("kind", ["Anthropic", "GitHub", "AWS id", "JSON web token", "Telegram"])
def test_key_split_anywhere_over_pieces_is_caught(kind: str) -> None:
    """Over two pieces at every place, over three at some; no piece keeps a telling part."""
    token = TOKENS[kind]
    for first in range(len(token) + 1):
        for second in {first, (first + len(token)) // 2, len(token)}:
            pieces = [f"key: {token[:first]}", token[first:second], f"{token[second:]} end"]
            for shown in (PLAIN.texts(pieces), list(PLAIN.stream(pieces))):
                joined = "".join(shown)
                assert joined == f"key: [masked: {token[:6]}…{token[-4:]}] end"
            blocks = [{"type": "text", "text": piece} for piece in pieces]
            assert token[6:-4] not in "".join(one["text"] for one in PLAIN.value(blocks))


@given(st.lists(st.sampled_from(["line of text\n", "x", *TOKENS.values(), *KNOWN.values()])))
def test_neighbours_are_masked_alone_and_together(pieces: list[str]) -> None:
    """What is a secret in one piece, or in all of them put together, is masked in both."""
    shown = REGISTERED.texts(pieces)
    assert len(shown) == len(pieces)
    for text in (*shown, "".join(shown)):
        assert REGISTERED.text(text) is text
    assert "".join(shown).count("\n") == "".join(pieces).count("\n")


# values

PLACES = st.recursive(
    st.just(None),
    lambda inner: st.one_of(
        st.tuples(st.just("key"), inner),
        st.tuples(st.just("item"), inner),
        st.tuples(st.just("field"), inner),
        st.tuples(st.just("json"), inner),
    ),
    max_leaves=6,
)


def planted(place: Any, secret: str) -> Any:
    """A value with a secret somewhere in it: as a key, in a list, in a field, in a JSON string."""
    if place is None:
        return f"file-{secret}.txt"
    kind, inner = place
    value = planted(inner, secret)
    if kind == "key":
        return {value if isinstance(value, str) else json.dumps(value): 1, "other": [value]}
    if kind == "item":
        return ["x", value, 3]
    if kind == "field":
        return {"type": "tool_use", "input": {"signature": value, "n": None}}
    return json.dumps({"arguments": value})


@given(PLACES, st.one_of(TOKEN, st.sampled_from(sorted(KNOWN.values()))), json_values())
def test_no_secret_is_left_anywhere_in_a_value(place: Any, secret: str, more: Any) -> None:
    """At any depth, in keys, in arguments that are JSON in a string."""
    masked = REGISTERED.value({"content": planted(place, secret), "more": more})
    text = as_json(masked)
    assert secret not in text
    assert json.dumps(secret)[1:-1] not in json.dumps(masked)
    assert REGISTERED.value(masked) == masked


@given(json_values())
def test_value_without_secrets_is_the_same_object(value: Any) -> None:
    """So whether something was masked can be told by looking at it."""
    assert PLAIN.value(value) is value or has_secret(as_json(value))


def test_names_of_fields_and_flags_give_secrets_away() -> None:
    """A field that is called a password holds one, and so does what follows `--token`."""
    value = {
        "password": "hunter2",
        "nested": {"apiKey": "a8f7e6d5c4b3", "max_tokens": 4096, "token_type": "bearer"},
        "argv": ["tool", "--token", "a1b2c3d4e5", "--verbose"],
        "client_secrets": ["x"],
    }
    assert PLAIN.value(value) == {
        "password": MASK,
        "nested": {"apiKey": MASK, "max_tokens": 4096, "token_type": "bearer"},
        "argv": ["tool", "--token", MASK, "--verbose"],
        "client_secrets": ["x"],
    }


def test_signatures_and_pictures_are_left_alone() -> None:
    """A provider takes them back only unchanged; by chance they hold all kinds of shapes."""
    chance = made("picture", "ABCDEFGHIJKLMNOP", 400) + "/AKIA" + "A" * 16 + "/90210815" + "B" * 80
    value = [
        {"type": "thinking", "thinking": "hm", "signature": chance},
        {"type": "reasoning", "encrypted_content": chance.replace("/", "_")},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": chance}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{chance}"}},
    ]
    assert PLAIN.value(value) is value
    assert Redactor({"OTHER": "correct horse battery"}).value(value) is value


def test_secret_in_the_place_of_a_signature_is_masked() -> None:
    """The name of a field is no way out."""
    for secret in (TOKENS["Anthropic"], "correct-horse-battery-staple-for-ever"):
        redactor = Redactor({"X": "correct-horse-battery-staple-for-ever"})
        for value in (secret, secret.ljust(90, "A")):
            assert secret not in as_json(redactor.value({"signature": value, "data": value}))


def test_keys_that_become_alike_stay_two() -> None:
    """No field is lost because its name was masked."""
    shown = REGISTERED.value({"90210815": 1, "x": 2, "<secret:PIN>": 3})
    assert shown == {"[masked: PIN]": 1, "x": 2, "[masked: PIN] (2)": 3}


def test_numbers_are_masked_where_they_are_known_values() -> None:
    """A number in JSON is a text like any other."""
    assert REGISTERED.value({"pin": 90210815, "n": 7}) == {"pin": "[masked: PIN]", "n": 7}


def test_value_that_is_too_deep_is_not_let_out() -> None:
    """What cannot be looked through is masked whole."""
    value: Any = TOKENS["GitHub"]
    for _ in range(NESTING_MAX * 3):
        value = [value]
    assert TOKENS["GitHub"] not in str(PLAIN.value(value))
    assert MASK in str(PLAIN.value(value))


# streams


@given(
    st.lists(
        st.sampled_from(["words and words\n", "x" * 70, *TOKENS.values(), *KNOWN.values(), "\n"]),
        max_size=20,
    ),
    st.integers(1, 97),
)
def test_stream_masks_what_the_whole_text_masks(parts: list[str], step: int) -> None:
    """In pieces of any size, the same text comes out."""
    text = "".join(parts)
    pieces = [text[start : start + step] for start in range(0, len(text), step)]
    assert "".join(REGISTERED.stream(pieces)) == REGISTERED.text(text)


def test_stream_of_any_length_holds_little() -> None:
    """Two megabytes go through; what is held is bounded; no key gets out; lines are kept."""
    line = f"a line with {TOKENS['GitHub']} and words\n" + "no newline here " * 300
    taken = given_out = held_most = 0

    def pieces() -> Iterator[str]:
        nonlocal taken
        for _ in range(400):
            taken += len(line)
            yield line
        yield PRIVATE_KEY

    shown = []
    for piece in REGISTERED.stream(pieces()):
        given_out += len(piece)
        held_most = max(held_most, taken - given_out - 400 * 40)
        shown.append(piece)
    text = "".join(shown)
    assert masks_in(text) == 401
    assert TOKENS["GitHub"] not in text
    assert PRIVATE_KEY_BODY[:64] not in text
    assert text.count("\n") == 400 + PRIVATE_KEY.count("\n")
    assert held_most < 300_000


@pytest.mark.parametrize("between", ["\n", " ", ", and then ", "\nwords and words\n" * 9])
def test_long_stream_parts_no_secret_from_what_gives_it_away(between: str) -> None:
    """A text of many parts, full of secrets known by their context: the same as in one piece."""
    secrets = [context.format(secret) for context, secret in IN_CONTEXT.values()]
    many = between.join([*secrets, *TOKENS.values()] * 60)
    chars = 400_000 if is_whole() else 120_000
    text = (many * (chars // len(many) + 1))[:chars]
    pieces = [text[start : start + 1_777] for start in range(0, len(text), 1_777)]
    shown = "".join(PLAIN.stream(pieces))
    assert not any(secret in shown for _context, secret in IN_CONTEXT.values())
    assert not any(token in shown for token in TOKENS.values())
    assert shown == PLAIN.text(text)


def test_stream_without_any_break_goes_on() -> None:
    """One word of a megabyte, or one key of a megabyte, does not pile up."""
    key = "sk-" + "a1" * 150_000
    before = [" " * chars for chars in (255, 256, 257)]  # as much as is looked at before a key
    for text in ("x1" * 500_000, "sk-" + "a1" * 500_000, *(spaces + key for spaces in before)):
        shown = [len(piece) for piece in PLAIN.stream([text])]
        assert max(shown) < 300_000
        assert min(shown) > 0
        assert len(shown) > 1


# hostile input

HOSTILE = {
    "starts of keys": ("", "sk-"),
    "words with them": ("", "ask-"),
    "tokens without dots": ("", "eyJ-"),
    "addresses": ("", "://a:b"),
    "users": ("://", "a:"),
    "names": ("", "password"),
    "assigned": ("", "password="),
    "spaces": ("password", " "),
    "quotes": ("", 'token="'),
    "backslashes": ("password", "\\"),
    "begins": ("", f"-----BEGIN {'PRIVATE'} KEY-----"),
    "ends": ("", f"-----END {'PRIVATE'} KEY-----"),
    "body": (f"-----BEGIN {'PRIVATE'} KEY-----", "A\n"),
    "dashes": ("", "-"),
    "flags": ("--", "a-"),
    "ids": ("", "AKIA"),
    "id and dots": ("", "AKIAAAAAAAAAAAAAAAAA."),
    "digits": ("", "1"),
    "telegram": ("", "12345678:AA"),
    "dots": ("", "SG."),
    "capitals": ("M", "MNO"),
    "cookies": ("", "cookie: a="),
    "bearers": ("", "bearer "),
    "brackets": ("", "[masked: "),
    "masks": ("", "[masked]"),
    "calls": ("password=", "a("),
    "equals": ("", "?key="),
    "calls of names": ("", "password=a("),
    "names of names": ("", "password=$"),
    "quotes that do not close": ("", "password=`a'"),
    "tags": ("", "<token>a<"),
    "capital dots": ("", "İ"),
}
"""What a text begins with, and what is repeated then."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name: str) -> None:
    """Twice the text is not four times the work; a pattern that backtracks would not come back."""
    before, unit = HOSTILE[name]

    assert not is_superlinear(lambda size: REGISTERED.text(before + unit * (size // len(unit))))


@examples(20)
@given(st.text("sk-eyJ.:/=@\"' \\n-AIzaghp_", max_size=4_000))
def test_any_mix_of_signs_comes_back(text: str) -> None:
    """Whatever is made of what patterns look for, the result is stable."""
    masked = PLAIN.text(text)
    assert PLAIN.text(masked) is masked

"""Credentials that nobody registered, in records: found as masking finds them, never shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.secrets.planted_secrets import HARMLESS, IN_CONTEXT, PRIVATE_KEY, TOKENS
from tests.strategies import clean_texts, texts
from tests.support.runs import examples

from holdfast.core.limits import FOUND_SCAN_CHARS, FOUND_VALUE_CHARS_MIN
from holdfast.core.log.records import Assistant, InjectedContext, ToolResult, User, encode
from holdfast.core.secrets.found import SecretFinding, SecretWatch, find_secrets
from holdfast.core.secrets.redaction import has_secret
from holdfast.core.secrets.vault import Vault
from holdfast.errors import BadSetting, SecretLost

if TYPE_CHECKING:
    import msgspec

RUN = "0123456789ab"
GITHUB = TOKENS["GitHub"]
PLANTED = [
    *((token, f"use {token} for it") for token in TOKENS.values()),
    *((value, template.format(value)) for template, value in IN_CONTEXT.values()),
    (PRIVATE_KEY, f"here it is\n{PRIVATE_KEY}\n"),
]


def records_with(text: str) -> list[msgspec.Struct]:
    """A text in every place where a turn can put it."""
    return [
        User(content=text),
        User(content=[{"type": "text", "text": text}]),
        User(content="see", extra={"note": text}),
        ToolResult(tool_use_id="c", name="run", content=text),
        ToolResult(tool_use_id="c", name="run", content="", details={"out": [text]}),
        Assistant(content=[{"type": "text", "text": text}]),
        Assistant(content=[{"type": "tool_use", "id": "c", "name": "f", "input": {"x": text}}]),
        InjectedContext(text=text, source="s"),
    ]


def stored(record: msgspec.Struct) -> str:
    return json.dumps(json.loads(encode(record)), ensure_ascii=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "text"), PLANTED)
def test_every_kind_is_reported_by_its_name_and_hidden_by_a_handle(value: str, text: str) -> None:
    written = json.dumps(value, ensure_ascii=False)[1:-1]
    for record in records_with(text):
        findings = SecretWatch(Vault({}), "warn").look(record)
        assert findings, record
        assert all(finding.kind and finding.is_stored for finding in findings)
        assert not any(value[-8:] in finding.kind for finding in findings)
        if len(value) < FOUND_VALUE_CHARS_MIN:
            continue
        vault = Vault({})
        hidden, reported = SecretWatch(vault, "handle", RUN).hide(record)
        assert written not in stored(hidden)
        assert f"<secret:found-{RUN}-1>" in stored(hidden)
        assert [finding for finding in reported if finding.is_stored] == []
        assert find_secrets(hidden) == []


@given(st.data())
@examples(60)
def test_hiding_can_be_taken_back(data: st.DataObject) -> None:
    """Any text around any keys: no key is left, and a tool gets every one of them back."""
    keys = data.draw(st.lists(st.sampled_from(sorted(TOKENS.values())), min_size=1, max_size=4))
    around = data.draw(st.lists(clean_texts(), min_size=len(keys), max_size=len(keys)))
    text = " ".join(part for pair in zip(around, keys, strict=True) for part in pair)
    vault = Vault({})
    record, findings = SecretWatch(vault, "handle", RUN).hide(User(content=text))
    assert isinstance(record.content, str)
    if not any(finding.is_stored for finding in findings):
        assert not any(key in record.content for key in keys)
    assert vault.resolve({"x": record.content}, "run") == {"x": text}


@given(texts())
@examples(60)
def test_masking_and_finding_agree(text: str) -> None:
    assert bool(find_secrets(User(content=text), chars=None)) <= has_secret(text)


def test_harmless_texts_are_not_found() -> None:
    assert [find_secrets(User(content=text)) for text in HARMLESS] == [[]] * len(HARMLESS)


def test_a_kind_is_reported_once_but_a_stored_value_is_never_passed_over() -> None:
    watch = SecretWatch(Vault({}), "warn")
    hidden, plain = SecretFinding("ghp_", False), SecretFinding("ghp_", True)
    assert watch.take_new([hidden, hidden]) == [hidden]
    assert watch.take_new([hidden, plain]) == [plain]
    assert watch.take_new([hidden, plain]) == []


def test_a_registered_value_is_not_found() -> None:
    watch = SecretWatch(Vault({"KEY": GITHUB}), "handle", RUN)
    record, findings = watch.hide(User(content=f"use {GITHUB}"))
    assert (record.content, findings) == ("use <secret:KEY>", [])


def test_a_warning_looks_at_the_beginning_and_a_handle_at_everything() -> None:
    record = ToolResult(tool_use_id="c", content="a b " * FOUND_SCAN_CHARS + GITHUB)
    assert SecretWatch(Vault({}), "warn").look(record) == []
    hidden, _findings = SecretWatch(Vault({}), "handle", RUN).hide(record)
    assert GITHUB not in stored(hidden)


def test_a_field_is_judged_by_its_name_only_among_the_characters_that_are_looked_at() -> None:
    """A long output is not read to its end for a warning, and neither are the fields after it."""
    named = {"password": "correct1"}
    for chars, found in (
        (FOUND_SCAN_CHARS - 100, [("password", "correct1")]),
        (FOUND_SCAN_CHARS, []),
    ):
        record = ToolResult(tool_use_id="c", content="word " * (chars // 5 + 1), details=named)
        assert find_secrets(record) == found
        assert find_secrets(record, chars=None) == [("password", "correct1")]


def test_a_token_in_the_place_of_a_picture_is_found() -> None:
    """The name of a field is no way past the watch; a picture that holds such letters is none."""
    token = TOKENS["Anthropic"]
    block = {"type": "image", "source": {"type": "base64", "data": token}}
    assert find_secrets(User(content=[block])) == [("sk-", token)]
    block = {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo+" + token}}
    assert find_secrets(User(content=[block])) == []


def test_a_short_guess_stays_and_is_reported_as_stored() -> None:
    """`root` stands in every path: a handle there would break what was said."""
    record = User(content='{"password": "root1"} in /root1/x')
    same, findings = SecretWatch(Vault({}), "handle", RUN).hide(record)
    assert same == record
    assert findings == [SecretFinding("password", True)]


def test_the_key_of_a_message_is_no_credential() -> None:
    assert find_secrets(User(content="hi", extra={"key": GITHUB})) == []


def test_a_handle_of_another_run_is_an_error_and_never_another_value() -> None:
    vault = Vault({})
    SecretWatch(vault, "handle", RUN).hide(User(content=f"use {GITHUB}"))
    assert vault.resolve({"x": [f"<secret:found-{RUN}-1>"]}, "run") == {"x": [GITHUB]}
    for handle in (f"<secret:found-{RUN}-2>", "<secret:found-ba9876543210-1>"):
        with pytest.raises(SecretLost, match=handle):
            vault.resolve({"x": [f"a {handle}"]}, "run")
    assert vault.resolve({"x": "<secret:OTHER>"}, "run") == {"x": "<secret:OTHER>"}


def test_a_name_means_its_first_value() -> None:
    vault = Vault({"KEY": "first value"})
    vault.add({"KEY": "first value", "MORE": "another value"})
    assert vault.mask_value("first value, another value") == "<secret:KEY>, <secret:MORE>"
    with pytest.raises(BadSetting, match="KEY"):
        vault.add({"KEY": "second value"})

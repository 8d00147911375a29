"""Registered values are stored as handles, and only the tools that may have them get them back."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.secrets.planted_secrets import TOKENS
from tests.strategies import json_values, records
from tests.support.runs import examples

from holdfast.core.limits import NESTING_MAX
from holdfast.core.log.records import Assistant, Header, OutputRef, ToolResult, User, encode
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.secrets.vault import Secret, Vault
from holdfast.errors import BadSetting

VALUE = 'hunter2 "quoted"\nline/two é'
VAULT = Vault(
    {"DB": VALUE, "DEPLOY": Secret("deploy-me-42", tools=("deploy",)), "DB_LONG": VALUE + "!"}
)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=12)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def test_result_is_stored_with_a_handle_and_a_later_call_runs_with_the_value() -> None:
    """The model sees the handle, the tool the value, other readers a mask."""
    result = ToolResult(tool_use_id="c1", content=f"password: {VALUE} ok", details={"env": [VALUE]})

    stored = VAULT.mask_record(result)

    assert isinstance(stored, ToolResult)
    assert stored.content == "password: <secret:DB> ok"
    assert stored.details == {"env": ["<secret:DB>"]}
    assert VAULT.resolve({"command": "login '<secret:DB>'"}, "bash") == {
        "command": f"login '{VALUE}'"
    }
    shown = Redactor(VAULT.redactor_secrets).text(stored.content)
    assert shown == "password: [masked: DB] ok"


def test_handle_is_opened_only_for_the_tools_that_may_have_it() -> None:
    """For others, and for names that nobody registered, it stays as it is."""
    arguments = {"a": ["<secret:DEPLOY>"], "<secret:NOBODY>": "<secret:deploy>"}
    assert VAULT.resolve(arguments, "bash") is arguments
    assert VAULT.resolve(arguments, "deploy") == {**arguments, "a": ["deploy-me-42"]}


def test_value_in_arguments_that_are_json_is_escaped() -> None:
    """What was JSON before is JSON after, with the value in it; plain text gets it plain."""
    stored = VAULT.mask_value(json.dumps({"p": VALUE}))
    assert stored == '{"p": "<secret:DB>"}'
    assert json.loads(VAULT.resolve(stored, "any")) == {"p": VALUE}
    nested = VAULT.mask_value(json.dumps({"a": [json.dumps({"p": VALUE})]}, indent=2))
    assert VALUE not in nested
    opened = VAULT.resolve(nested, "any")
    assert json.loads(json.loads(opened)["a"][0]) == {"p": VALUE}
    assert opened.startswith('{\n  "a": [\n')
    assert VAULT.resolve("{not json <secret:DB>", "any") == f"{{not json {VALUE}"


def test_thinking_that_held_a_value_loses_its_signature() -> None:
    """No provider takes changed thinking back; untouched thinking keeps its own."""
    untouched = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    held = {"type": "thinking", "thinking": f"it is {VALUE}", "signature": "c2ln"}
    call = {"type": "tool_use", "id": "deploy-me-42", "name": "x", "input": {"id": "deploy-me-42"}}
    stored = VAULT.mask_record(Assistant(content=[untouched, held, call]))
    assert isinstance(stored, Assistant)
    assert stored.content == [
        untouched,
        {"type": "thinking", "thinking": "it is <secret:DB>"},
        {**call, "input": {"id": "<secret:DEPLOY>"}},
    ]


def test_ids_hashes_and_shapes_stay() -> None:
    """A log that cannot be followed is of no use; a shape is a guess and is stored as it is."""
    ref = OutputRef(sha256="deploy-me-42", bytes=1)
    for record in (
        User(content=f"use {TOKENS['GitHub']}", id="deploy-me-42", parent="deploy-me-42"),
        Header(id="deploy-me-42", agent="deploy-me-42"),
        ToolResult(tool_use_id="deploy-me-42", content="x", output_ref=ref),
    ):
        assert VAULT.mask_record(record) is record


def test_value_split_over_blocks_is_sealed() -> None:
    """The handle stands where it began."""
    pieces = [{"type": "text", "text": "key dep"}, {"type": "text", "text": "loy-me-42."}]
    assert VAULT.mask_value(pieces) == [
        {"type": "text", "text": "key <secret:DEPLOY>"},
        {"type": "text", "text": "."},
    ]


def test_longer_value_goes_before_a_shorter_one_in_it() -> None:
    """And it comes back whole."""
    assert VAULT.mask_value(f"{VALUE}!") == "<secret:DB_LONG>"
    assert VAULT.resolve("<secret:DB_LONG>", "x") == f"{VALUE}!"


def test_deep_values_are_sealed_too() -> None:
    """Nothing that can be stored is too deep for it."""
    value: Any = "deploy-me-42"
    for _ in range(NESTING_MAX + 20):
        value = [value]
    assert "deploy-me-42" not in str(VAULT.mask_value(value))
    assert "<secret:" in str(VAULT.resolve(VAULT.mask_value(value), "deploy"))


def test_numbers_pictures_and_signatures_stay() -> None:
    """A short value is in many of them by chance; a long one in their place is sealed."""
    vault = Vault({"PIN": "9021", "LONG": "correct-horse-battery"})
    picture = "iVBORw9021" * 10
    value = {"n": 9021, "data": picture, "deep": [1.5, True, None]}
    assert vault.mask_value(value) is value
    assert vault.resolve({**value, "p": "<secret:PIN>"}, "x") == {**value, "p": "9021"}
    assert vault.mask_value({"data": "correct-horse-battery".rjust(80, "A")}) == {
        "data": "A" * 59 + "<secret:LONG>"
    }


def test_bad_secrets_are_refused_and_none_is_shown() -> None:
    """Neither by an error nor by what a debugger prints."""
    with pytest.raises(BadSetting, match="`A` has 3 characters"):
        Vault({"A": "abc"})
    with pytest.raises(BadSetting, match="handle of the secret"):
        Vault({"hunter2": "hunter2"})
    with pytest.raises(BadSetting, match="masks are made of"):
        Vault({"A": "secret"})
    assert repr(VAULT) == "Vault(DB, DB_LONG, DEPLOY)"
    assert "hunter" not in repr(Secret("hunter2"))
    assert not Vault({})


@given(records())
def test_record_without_values_is_the_same_object(record: Any) -> None:
    """Nothing is rewritten that need not be."""
    assert VAULT.mask_record(record) is record


@given(st.dictionaries(st.sampled_from(["A", "B", "C"]), VALUES, min_size=1), json_values())
def test_what_is_sealed_holds_no_value_and_opens_again(known: dict[str, str], more: Any) -> None:
    """Whatever the values are; and sealing twice is sealing once."""
    try:
        vault = Vault(known)
    except BadSetting:
        return
    value = {"x": ["".join(f"({one})" for one in known.values())], "more": more}
    sealed = vault.mask_value(value)
    assert not any(one in text for one in known.values() for text in sealed["x"])
    assert vault.mask_value(sealed) == sealed
    assert vault.resolve(sealed["x"], "tool") == value["x"]


@given(records(), VALUES)
def test_sealed_records_can_be_stored(record: Any, value: str) -> None:
    """With any record and any value."""
    try:
        vault = Vault({"A": value})
    except BadSetting:
        return
    encode(vault.mask_record(record))


@examples(60)
@given(value=st.text(min_size=12, max_size=40).filter(lambda text: text == text.strip()))
def test_encodings_of_a_value_are_handles_too(value: str) -> None:
    """In hexadecimal and in base64 behind any bytes; a tool gets back exactly what was there."""
    vault = Vault({"KEY": value})
    data = value.encode(errors="replace")
    for before in (b"", b"a", b"ab", b"user:"):
        code = base64.b64encode(before + data).decode()
        for text in (
            code,
            code.replace("+", "-").replace("/", "_"),
            data.hex(),
            data.hex().upper(),
        ):
            masked = vault.mask_value(f"it is {text}.")
            assert "<secret:KEY." in masked, text
            assert vault.resolve(masked, "any") == f"it is {text}."


def test_an_encoding_is_for_the_tools_of_its_value() -> None:
    vault = Vault({"KEY": Secret("correct horse battery", tools=("deploy",))})
    masked = vault.mask_value(b"correct horse battery".hex())
    assert masked == "<secret:KEY.hex>"
    assert vault.resolve(masked, "bash") == masked

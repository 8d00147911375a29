"""The terms of requests, as the proxy logged them."""

from __future__ import annotations

from holdfast.core.log.records import ModelChange, User
from holdfast.core.proxy.identity import is_proxied, newest_terms, text_of_system

TOOL = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}


def test_the_last_of_each_term_counts() -> None:
    """Only what changed is in a record, so the tools of the first still hold."""
    first = ModelChange(model="m", extra={"request": {"system": "old", "tools": [TOOL]}})
    blocks = [{"type": "text", "text": "new"}, {"type": "text", "text": "rules"}, {"type": "x"}]
    later = ModelChange(model="m", extra={"request": {"system": blocks}})
    system, tools = newest_terms([ModelChange(model="n"), later, User(content="hi"), first])
    assert system == "new\nrules"
    assert [tool.name for tool in tools] == ["read"]
    assert newest_terms([User(content="hi")]) == ("", ())
    instructed = ModelChange(model="m", extra={"request": {"instructions": "be brief"}})
    assert newest_terms([instructed])[0] == "be brief"


def test_what_is_no_text_says_nothing() -> None:
    assert [text_of_system(value) for value in (None, 7, {"text": "x"}, ["x"])] == [""] * 4


def test_a_session_of_the_proxy_is_known_by_its_chains() -> None:
    assert is_proxied([User(content="a"), User(content="b", extra={"chain": ["00"]})])
    assert not is_proxied([User(content="a")])

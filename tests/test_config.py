"""What the environment says, and what is said about it."""

from __future__ import annotations

import pytest

from holdfast import config
from holdfast.errors import BadSetting


def test_secrets_are_the_values_of_the_variables_that_are_named() -> None:
    """Spaces and empty names do not count; what is printed holds no value."""
    environ = {"HOLDFAST_SECRETS": " TOKEN, ,DB_PASSWORD,", "TOKEN": "abcd1234", "OTHER": "x"}
    settings = config.load(environ={**environ, "DB_PASSWORD": "hunter2!"})
    assert settings.secrets == {"TOKEN": "abcd1234", "DB_PASSWORD": "hunter2!"}
    assert "hunter2" not in repr(settings)
    assert config.load(environ={}).secrets == {}


def test_secret_that_is_named_and_not_there_is_refused() -> None:
    """A name that is misspelled would mask nothing, and nobody would notice."""
    with pytest.raises(BadSetting, match="`TOKNE`") as error:
        config.load(environ={"HOLDFAST_SECRETS": "TOKNE", "TOKEN": "abcd1234"})
    assert error.value.hint is not None

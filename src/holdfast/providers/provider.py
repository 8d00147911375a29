"""A provider's API as one value: everything that a folder under `providers/` supplies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.dialects.common.reading import StreamReader, TokenCounts
    from holdfast.core.dialects.common.rule import ProviderRule, Violation
    from holdfast.core.log.records import Json
    from holdfast.core.models.catalog import DialectName
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Prompt
    from holdfast.core.models.replies import Reply
    from holdfast.providers.sdk import Sdk


def _no_variant(_model: str, _url: str | None) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One wire format and the package that speaks it. Limits and windows are in the catalog."""

    dialect: DialectName
    name: str
    """As the log names the provider."""
    own_host: str = ""
    """The provider's own server, where others imitate its API; the log names those by host."""
    variant_for: Callable[[str, str | None], str] = _no_variant
    """The variant of the dialect for a model's name and the server's address, if one was given."""

    render: Callable[[Prompt, Target], Json]
    """The body of a request. The same prompt and target give the same bytes."""
    rules: tuple[ProviderRule, ...]
    """Everything that `validate` looks at."""
    validate: Callable[[object, Target], list[Violation]]
    """Return what the provider would refuse in a request of any origin. Never raises."""

    is_reply: Callable[[Json], bool]
    """Tells a response of this API, an error included, from other JSON."""
    read: Callable[[Json, Target], Reply]
    """The reply in the JSON of a response. Raises `ReplyFailed` for an error."""
    stream: Callable[[], StreamReader]
    """Puts the events of one streamed response together."""
    report_usage: Callable[[TokenCounts], Json]
    """Token counts as the provider spells them, for models that have no provider to count."""

    sdk: Sdk

"""The options of a session: one frozen value, checked before anything is made for it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar

import msgspec

from holdfast.core.flow.arguments import check_callable, shorten
from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.models.window import check_floor
from holdfast.core.secrets.found import Secrets, secrets_of
from holdfast.core.turn.options import (
    Limits,
    RunOptions,
    Summary,
    SummaryWriter,
    check_word,
)
from holdfast.core.turn.run import RunSettings
from holdfast.core.window import GivenWindow, Window, as_window
from holdfast.engine.tools import describe_tools, make_tools
from holdfast.errors import BadSetting
from holdfast.providers.known_models.lookup import price_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.core.approval_rules import ApprovalRule
    from holdfast.core.models.messages import Tool
    from holdfast.core.models.prices import Price
    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.secrets.vault import Secret
    from holdfast.engine.memory.search import Memory
    from holdfast.engine.tools import Toolbox, ToolFunction
    from holdfast.ports import AsyncModel, Model, OnDelta


T = TypeVar("T")


class SessionOptions(RunOptions, frozen=True, kw_only=True):
    """The options of a session, checked before anything is made for it."""

    tools: Sequence[Callable[..., Any] | Tool | ToolFunction] = ()
    """Functions that the model may call, or declarations of tools that the caller runs."""
    window: GivenWindow = None
    """The context window in tokens; None for the model's known window."""
    memory: Memory | None = None
    """A memory to search, once, for everything the user says."""
    secrets: Mapping[str, str | Secret] | Secrets = Secrets()
    """Values by name that are stored as handles (`<secret:NAME>`); tools get the values. A
    `Secrets` also says what becomes of values that merely look like credentials."""

    def __post_init__(self) -> None:
        for name, kinds, wanted in _KINDS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
                raise BadSetting(f"`{name}` cannot be {shorten(value)}", hint=f"pass {wanted}")
        for name, words in _WORDS.items():
            gone = _GONE.get((name, str(getattr(self, name))), "")
            check_word(name, getattr(self, name), words, gone)
        if self.memory is not None and not hasattr(self.memory, "search"):
            raise BadSetting(
                f"`memory` cannot be {shorten(self.memory)}", hint="pass a `Memory(…)`, or None"
            )
        super().__post_init__()
        if self.limits.approvals != ():
            limits = msgspec.structs.replace(self.limits, approvals=_read_approvals(self))
            msgspec.structs.force_setattr(self, "limits", limits)
        secrets_of(self.secrets)  # raises where a name or a value cannot be used


def _read_approvals(options: SessionOptions) -> tuple[ApprovalRule, ...]:
    """Return the rules that were given, checked against the tools. A session without any loads
    none of this."""
    from holdfast.core.approval_rules import check_rules
    from holdfast.engine.approval_files import approvals_from, source_of

    given = options.limits.approvals
    rules = approvals_from(given)
    if rules:
        check_rules(rules, describe_tools(make_tools(options.tools)), source_of(given))
    return rules


class OptionKeywords(TypedDict, total=False):
    """The fields of `SessionOptions` as keyword arguments of `Session.open`. None counts as not
    given: options may come out of a configuration file."""

    system: str | None
    policy: Policy | PolicyName | None
    summary: SummaryWriter | Summary | None
    notes: Literal["model", "off"] | None
    checkpoints: Literal["cuts", "turns", "off"] | None
    limits: Limits | None
    tools: Iterable[Callable[..., Any] | Tool | ToolFunction] | None
    window: GivenWindow
    memory: Memory | None
    secrets: Mapping[str, str | Secret] | Secrets | None


_KINDS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("system", str, "the system prompt as text"),
    ("window", int | Window, "the context window in tokens, for example 200000"),
)
"""Options whose mistakes would come to light only with the first request."""
_WORDS: Final = {"notes": ("model", "off"), "checkpoints": ("cuts", "turns", "off")}
_GONE: Final = {
    ("notes", "extract"): "; what the user said is found by a `memory`, without any notes, and "
    '`notes="model"` has the model write what lasts',
}
"""Hints for values that version 0.1 had: the ways that take their place."""
_GONE_OPTIONS: Final = {
    "any_owner": "pass `owner=ANY_OWNER` of `holdfast.stores`",
    "root": "pass the path or the address as `store=`",
    "blobs": "pass `store=open_store(address, blobs=…)`, of `holdfast.stores`",
    "clock": "pass `store=open_store(address, clock=…)`, of `holdfast.stores`",
    "label": "call `session.rename(label)`",
    "price": "pass `model=holdfast.model(NAME, price=…)`; a model of your own has it as `price`",
    "rules": "pass `model=holdfast.model(NAME, rules=…)`; a model of your own has them as `rules`",
    "recall": "pass `memory=Memory(…, recall=…)`",
    "found_secrets": "pass `secrets=Secrets({…}, found=…)`",
    "summary_model": "pass `summary=Summary(model=…)`",
    "background_summary": "pass `summary=Summary(ahead=True)`",
    **{name: f"pass `limits=Limits({name}=…)`" for name in Limits.__struct_fields__},
}
"""The same for options."""


def read_options(given: OptionKeywords) -> SessionOptions:
    """Build and check the options from keyword arguments."""
    unknown = given.keys() - OptionKeywords.__annotations__.keys()
    if unknown:
        raise BadSetting(
            f"a session has no option `{min(unknown)}`",
            hint=_GONE_OPTIONS.get(min(unknown))
            or f"options: {', '.join(sorted(OptionKeywords.__annotations__))}",
        )
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    values["tools"] = tuple(make_tools(values.get("tools", ())))
    return SessionOptions(**values)


def check_model(model: Any, name: str = "model") -> Any:
    """Return a model, or raise where it is something else, such as an SDK's client."""
    if all(hasattr(model, attribute) for attribute in ("target", "window", "send")):
        return model
    raise BadSetting(
        f"`{name}` cannot be {shorten(model)}: it has no `target`, `window` and `send`",
        hint="pass a name such as `anthropic:NAME`, or the result of `holdfast.model(…)`; "
        "an SDK's client goes into `holdfast.model(…, client=…)`",
    )


def find_summariser(options: SessionOptions, find: Callable[[str], T]) -> T | None:
    """Return the model that `summary` names, found by name or given; None for the session's."""
    given = options.summarising.model
    if isinstance(given, str):
        return find(given)
    found: T | None = given if given is None else check_model(given, "summary.model")
    return found


def check_on_delta(on_delta: OnDelta | None) -> OnDelta | None:
    """Return a callback for deltas, or raise where it would have to be awaited: a slow one would
    hold up the reply."""
    if on_delta is not None:
        check_callable("on_delta", on_delta)
    if inspect.iscoroutinefunction(on_delta):
        raise BadSetting(
            "`on_delta` cannot be a coroutine function: it is called and not awaited",
            hint="use `async for piece in session.stream(…)`, or pass `queue.put_nowait`",
        )
    return on_delta


def check_window(options: SessionOptions, model: Model | AsyncModel) -> None:
    """Raise where the window is below the floor, before anything is made or stored for it."""
    check_floor(*window_and_floor(options, model))


def window_and_floor(options: SessionOptions, model: Model | AsyncModel) -> tuple[Window, int]:
    given, window = options.window, model.window
    if given is not None:
        window = as_window(given)
    floor = options.limits.floor
    if floor is None:
        floor = getattr(model, "floor", WINDOW_FLOOR_TOKENS)
    return window, floor


def run_settings(
    options: SessionOptions,
    model: Model | AsyncModel,
    summariser: Model | AsyncModel | None,
    toolbox: Toolbox,
    context_tool: Tool | None,
) -> RunSettings:
    """The settings of a run with these options and models."""
    window, floor = window_and_floor(options, model)
    price: Price | None = getattr(model, "price", None)
    return RunSettings(
        target=model.target,
        window=window,
        options=options,
        tools=toolbox.tools,
        safe_to_retry=toolbox.safe_to_retry,
        gated=toolbox.approval_tools,
        context_tool=context_tool,
        floor=floor,
        price=price or price_of(model.target.model, model.target.provider),
        is_price_stated=price is not None,
        list_price=price_of,
        summary_target=summariser.target if summariser is not None else None,
        summary_window=summariser.window if summariser is not None else None,
    )

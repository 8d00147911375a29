"""Write the reference of settings, records, events and errors from the source.

python scripts/reference_pages.py          # writes four pages into docs/
python scripts/reference_pages.py --check  # fails where a page is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import get_args

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts.api_page import own_doc  # noqa: E402
from scripts.site.reference import field_table, fields_of  # noqa: E402

from holdfast import Limits, Policy, Secrets, Summary, config, errors, events  # noqa: E402
from holdfast.core.approval_rules import ApprovalRule, ArgumentTest  # noqa: E402
from holdfast.core.log.records import BY_TYPE  # noqa: E402
from holdfast.engine.session.options import SessionOptions  # noqa: E402

DOCS = ROOT / "docs"
_COMMON = BY_TYPE["user"].__bases__[0]
"""The class of what every record has."""
MADE = "`make api` writes this page from the source."


def settings_page() -> str:
    """Return the page of variables, options of a session, and thresholds."""
    table = "\n".join(re.findall(r"^\|.*\|$", config.__doc__ or "", re.MULTILINE))
    return "\n\n".join(
        [
            "# Settings",
            f"Every setting in one place. {MADE}",
            "## Variables",
            "The environment is read once, by `holdfast.config`; options of a command win. Keys of "
            "providers are read by their SDKs ([models.md](models.md)), the file of the gateway is "
            "in [gateway.md](gateway.md).",
            _joined_rows(table),
            "## Options of a session",
            "The fields of `SessionOptions`: keyword arguments of `Session.open` and "
            "`AsyncSession.open`, where None counts as not given. What they mean together: "
            "[session.md](session.md#options-of-open).",
            field_table(fields_of(SessionOptions)),
            "## Rules of approvals",
            "`Limits(approvals=…)`, a TOML file with tables `[[approvals]]`, or tables "
            "`[[agents.NAME.limits.approvals]]` of an agent: "
            "[durable-actions.md](durable-actions.md#rules). "
            f"{_prose(ApprovalRule)}",
            field_table(fields_of(ApprovalRule)),
            f"A table of `when`: {_prose(ArgumentTest)}",
            field_table(fields_of(ArgumentTest)),
            "## Limits",
            f"{_prose(Limits)} `limits=Limits(steps=…)`, or a table `limits` of an agent in the "
            "settings of `serve`.",
            field_table(fields_of(Limits)),
            "## Summaries",
            f"{_prose(Summary)} `summary=Summary(model=…)`, or a table `summary` of an agent.",
            field_table(fields_of(Summary)),
            "## Secrets",
            f"{_prose(Secrets)} `secrets=Secrets({{…}}, found=…)`.",
            field_table(fields_of(Secrets)),
            "## Thresholds",
            f"{_prose(Policy)} The numbers behind them: [defaults.md](defaults.md). As TOML for "
            "`--policy FILE`: one `name = value` a line.",
            field_table(fields_of(Policy)),
        ]
    )


def _joined_rows(table: str) -> str:
    """Return a table whose cells are in one line each: a row without a name goes on above it."""
    rows: list[list[str]] = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if rows and not cells[0]:
            rows[-1] = [
                f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)
            ]
        else:
            rows.append(["---" if set(cell) == {"-"} else cell for cell in cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def records_page() -> str:
    """Return the page of record types, each with its fields."""
    parts = [
        "# Records",
        "Every type of record that a log can hold, by the word in its field `type`. The rules for "
        "lines, the tree and the promise over versions: [format.md](format.md). Fields that a type "
        f"does not know are kept. {MADE}",
    ]
    common = [field for field in fields_of(_COMMON) if field.name != "extra"]
    parts += ["## Every record", field_table(common)]
    for kind, cls in BY_TYPE.items():
        own = [field for field in fields_of(cls) if field not in fields_of(_COMMON)]
        parts += [f"## {kind}", f"`{cls.__name__}`: {_prose(cls)}"]
        parts += [field_table(own)] if own else []
    return "\n\n".join(parts)


def events_page() -> str:
    """Return the page of events, each with its fields."""
    parts = [
        "# Events",
        "Everything that a session reports while it works. `session.on(handler, Kind)` subscribes, "
        "and gives the handler its type; when each is emitted and what `Deny` does: "
        f"[session.md](session.md#events). {MADE}",
    ]
    for cls in get_args(events.Event):
        parts += [f"## {cls.__name__}", _prose(cls)]
        if fields := fields_of(cls):
            parts.append(field_table(fields))
    return "\n\n".join(parts)


def errors_page() -> str:
    """Return the page of exceptions, with the code of each."""
    tree = (errors.__doc__ or "").split("\n\n")
    parts = [
        "# Errors",
        "Everything that Holdfast raises on purpose is a `HoldfastError`. The message says what "
        "was asked, what was found and which object; `hint` says what to do next; `code` is a "
        f"stable name for programs, also in `--json`. {MADE}",
        f"```\n{tree[1]}\n```",
    ]
    for name, cls in vars(errors).items():
        if inspect.isclass(cls) and issubclass(cls, errors.HoldfastError):
            code = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
            parts += [f"## {name}", f"`code`: `{code}`. {_prose(cls)}"]
    return "\n\n".join(parts)


def _prose(cls: type) -> str:
    return re.sub(r"\s*\n\s*", " ", own_doc(cls)) or f"A `{cls.__name__}`."


PAGES = {
    "settings.md": settings_page,
    "records.md": records_page,
    "events.md": events_page,
    "errors.md": errors_page,
}


def outdated() -> list[str]:
    """Return the pages that are not what the source says."""
    return [
        name
        for name, write in PAGES.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text("utf-8") != write() + "\n"
    ]


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` compare them."""
    if "--check" in arguments:
        return len(outdated())
    for name, write in PAGES.items():
        (DOCS / name).write_text(write() + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

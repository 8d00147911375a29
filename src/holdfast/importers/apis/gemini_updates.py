"""Updates in the files of Gemini CLI: a line may replace the whole history of a session.

After a compaction the new history begins with a summary that no earlier line has, and lacks the
messages that the summary stands for. Any other update repeats what the lines before it have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.importers.common.base import is_text, mapping, mappings, text_or_empty

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json

COMPACTION: Final = "compaction"


def read_messages(lines: list[Json]) -> Iterator[Json]:
    """The messages of a file in order, and a `compaction` for each summary: its `id`, `timestamp`,
    `summary`, and the `kept` ids."""
    seen: set[str] = set()
    shown: set[str] = set()
    """The messages that the newest history has."""
    for line in lines:
        if is_text(line.get("type")):
            yield line
            if is_text(line.get("id")):
                seen.add(line["id"])
                shown.add(line["id"])
            continue
        history = mappings(mapping(line.get("$set")).get("messages"))
        ids = [text_or_empty(message.get("id")) for message in history]
        new = [at for at, name in enumerate(ids) if name and name not in seen]
        if history and shown - set(ids) and new and history[new[0]].get("type") == "user":
            summary = history[new[0]]
            yield {
                "type": COMPACTION,
                "id": summary["id"],
                "timestamp": summary.get("timestamp"),
                "summary": _text(summary.get("parts", summary.get("content"))),
                "kept": [name for name in ids[new[0] + 1 :] if name in seen],
            }
        if history:
            shown = {name for name in ids if name}
            seen |= shown


def _text(content: object) -> str:
    if is_text(content):
        return content
    return "\n".join(text_or_empty(part.get("text")) for part in mappings(content))

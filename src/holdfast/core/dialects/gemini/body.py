"""A client's request to the Gemini API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.client_body import ClientBody, first_count, first_name
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Json

_TURN_PATH: Final = lazy_pattern(
    r".*/(?:(?:models|tunedModels)/|v1beta/(?=holdfast/))"
    r"((?:[^/:]+/)?[^/:]+):(?:streamG|g)enerateContent"
)
"""Of Gemini's own API, of the longer addresses of Vertex, and of clients that take a model's name
with a slash for the whole path, as the AI SDK does."""
_CONFIGS: Final = ("generationConfig", "generation_config")
_OUTPUT_FIELDS: Final = ("maxOutputTokens", "max_output_tokens")
_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
_STATUS: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiBody(ClientBody):
    """The address names the model; settings are an object of their own."""

    upstream = "gemini"
    items_field = "contents"
    key_header = "x-goog-api-key"
    turn_paths = ("/v1beta/models/{model:path}", "/v1beta/holdfast/{model:path}")

    def find_turn(self, path: str) -> str | None:
        found = _TURN_PATH.fullmatch(path)
        return None if found is None else found[1]

    def owns_request(self, path: str, headers: Mapping[str, str]) -> bool:
        has_key = "x-goog-api-key" in headers
        return has_key or path.startswith("/v1beta/") or self.find_turn(path) is not None

    def read_output_limit(self, body: Json) -> int | None:
        config = body.get(first_name(body, _CONFIGS))
        return first_count(config, _OUTPUT_FIELDS) if isinstance(config, dict) else None

    def limit_reply(self, body: Json, tokens: int) -> Json:
        name = first_name(body, _CONFIGS)
        given = body.get(name)
        config: Json = given if isinstance(given, dict) else {}
        return {**body, name: {**config, first_name(config, _OUTPUT_FIELDS): tokens}}

    def takes_tools(self, body: Json) -> bool:
        settings = body.get("generationConfig")
        count = settings.get("candidateCount") if isinstance(settings, dict) else None
        return count in (None, 1) and any(map(_declares, body["tools"]))

    def add_tools(self, body: Json, ours: list[Json]) -> Json:
        given = body["tools"]
        place = next(at for at, tool in enumerate(given) if _declares(tool))
        field = next(name for name in _DECLARATIONS if name in given[place])
        declared = [*given[place][field], *ours[0][_DECLARATIONS[0]]]
        changed = {**given[place], field: declared}
        return {**body, "tools": [*given[:place], changed, *given[place + 1 :]]}

    def write_error(self, status: int, message: str, code: str) -> Json:
        del code
        word = _STATUS.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": word}}


def _declares(tool: object) -> bool:
    return isinstance(tool, dict) and any(
        isinstance(tool.get(name), list) for name in _DECLARATIONS
    )

"""Embeddings from a server that speaks OpenAI's API: OpenAI itself, or one of your own.

Text leaves this machine. What is sent are passages and queries with their secrets masked.
"""

from __future__ import annotations

import base64
import json
import struct
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from holdfast.core.failures.classify import Failure, Symptoms, classify
from holdfast.core.text.cut import cut
from holdfast.errors import BadSetting, ModelError
from holdfast.providers.callable_embedder import CallableEmbedder
from holdfast.providers.failures import symptoms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from http.client import HTTPResponse

BASE_URL: Final = "https://api.openai.com/v1"
_BATCH_SIZE: Final = 64
_TIMEOUT_SECONDS: Final = 20.0
_ATTEMPTS: Final = 3
_WAIT_SECONDS: Final = 0.5
"""Before the second attempt; twice as long before each further one."""
_WAITS: Final = frozenset({"wait_and_retry", "retry_with_backoff"})
"""Remedies of failures after which the same request may work."""
_REPLY_BYTES_MAX: Final = 256 * 2**20
"""Thousands of the longest vectors: no server fills the memory."""
_ERROR_CHARS: Final = 200
"""A sentence or two of the server's own words."""


class OpenAIEmbedder(CallableEmbedder):
    """An embedding model behind `POST …/embeddings`."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = BASE_URL,
        api_key: str = "",
        dimensions: int | None = None,
        batch_size: int = _BATCH_SIZE,
        timeout: float = _TIMEOUT_SECONDS,
        attempts: int = _ATTEMPTS,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout` is in seconds, for one batch with all its `attempts`; `dimensions` asks a model
        that can for shorter vectors. A server of your own may need no key."""
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise BadSetting(
                f"`{cut(base_url, 80).text}` is not the address of a server",
                hint="give one such as http://127.0.0.1:8080/v1",
            )
        if attempts < 1 or timeout <= 0 or (dimensions is not None and dimensions < 1):
            raise BadSetting(
                "an embedding model needs at least one attempt, some time and a dimension",
                hint="leave them out for the defaults",
            )
        place = f"{address.hostname}:{address.port}" if address.port else address.hostname
        size = f"/{dimensions}" if dimensions is not None else ""
        name = f"openai:{model}@{place}{address.path.rstrip('/')}{size}"
        super().__init__(self._ask, name, batch_size=batch_size)
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._model = model
        self._key = api_key
        self._dimensions = dimensions
        self._timeout = timeout
        self._attempts = attempts
        self._sleep = sleep
        self._clock = clock

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        """Send a batch, again where that may help, and return its vectors."""
        request: dict[str, Any] = {"model": self._model, "input": list(texts)}
        if self._dimensions is not None:
            request["dimensions"] = self._dimensions
        body = json.dumps(request).encode()
        end = self._clock() + self._timeout
        attempt = 1
        while isinstance(reply := self._send(body, max(0.1, end - self._clock())), Failure):
            wait = reply.retry_after or _WAIT_SECONDS * 2 ** (attempt - 1)
            is_last = attempt >= self._attempts or self._clock() + wait >= end
            if is_last or reply.action not in _WAITS:
                raise self._error(reply)
            self._sleep(wait)
            attempt += 1
        return _vectors_in(reply, len(texts), self.name)

    def _error(self, failed: Failure) -> ModelError:
        said = cut(" ".join(failed.message.split()), _ERROR_CHARS).text
        return ModelError(
            f"the embedding model `{self.name}` did not answer ({failed.kind}): {said}",
            failure=failed,
            hint="check its address and key",
        )

    def _send(self, body: bytes, seconds: float) -> bytes | Failure:
        """Send a request once: the reply, or the class of the failure."""
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            """A key is for the server that was named."""

            def redirect_request(self, *_: Any) -> None:
                return None

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = Request(self._url, body, headers, method="POST")  # noqa: S310 - http, checked
        try:
            with build_opener(NoRedirects).open(request, timeout=seconds) as reply:
                return _read(reply)
        except HTTPError as error:
            with error:
                return classify(_symptoms(error))
        except OSError as error:
            return classify(symptoms_of(error))
        except BadSetting:
            raise
        except Exception as error:  # of http.client: a reply that is none
            return classify(symptoms_of(error))


def _read(reply: HTTPResponse) -> bytes:
    data = reply.read(_REPLY_BYTES_MAX + 1)
    if len(data) > _REPLY_BYTES_MAX:
        raise BadSetting(f"the reply has more than {_REPLY_BYTES_MAX:,} bytes")
    return data


def _symptoms(error: Any) -> Symptoms:
    """Return the facts of a refusal: its status, its words, and how long to wait."""
    found = symptoms_of(error.read(_REPLY_BYTES_MAX)[:100_000])
    try:
        waiting = float(error.headers.get("Retry-After", ""))
    except ValueError:
        waiting = None
    return Symptoms(
        status=error.code,
        code=found.code,
        type=found.type,
        message=found.message,
        retry_after=waiting if waiting is not None else found.retry_after,
    )


def _vectors_in(data: bytes, count: int, name: str) -> list[list[float]]:
    """Return the vectors of a reply in the order of the texts: lists of numbers, or base64."""
    try:
        rows = json.loads(data)["data"]
        placed = {int(row.get("index", place)): row["embedding"] for place, row in enumerate(rows)}
        return [_numbers(placed[place]) for place in range(len(rows))]
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise BadSetting(
            f"the embedding model `{name}` gave a reply without {count:,} embeddings"
        ) from error


def _numbers(embedding: Any) -> list[float]:
    if not isinstance(embedding, str):
        return list(embedding)
    data = base64.b64decode(embedding, validate=True)
    return list(struct.unpack(f"<{len(data) // 4}f", data))

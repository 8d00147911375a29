"""The methods of the Bot API that a bot needs, over HTTP. No error or log shows the token."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import httpx2

from holdfast.errors import HoldfastError
from holdfast.surfaces.telegram.updates import ALLOWED_UPDATES, BotIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from holdfast.core.log.records import Json
    from holdfast.surfaces.telegram.settings import TelegramSettings

_SECONDS: Final = 30.0
"""For an answer of the server, beyond the time that a request asks it to wait."""
_PRESS_SECONDS: Final = 5.0
"""For the press of a button, whose command waits meanwhile."""
_DESCRIPTION_CHARS: Final = 300
UNREACHED: Final = 0
"""The code of a failure without an answer."""
_HINTS: Final = {
    401: "the token is wrong or was revoked; @BotFather gives the current one",
    404: "the token is wrong, or `--api-base` is not a server of the Bot API",
    409: "stop the other program that runs this bot, or delete its webhook; one program can "
    "receive the messages of a bot",
}


class TelegramError(HoldfastError):
    """Telegram refused a request, or could not be reached."""

    def __init__(
        self,
        method: str,
        code: int,
        description: str,
        *,
        retry_after: float | None = None,
        migrated_to: int | None = None,
        may_have_worked: bool = False,
    ) -> None:
        known = f"{code} " if code else ""
        super().__init__(f"Telegram, {method}: {known}{description}", hint=_HINTS.get(code))
        self.status = code
        self.retry_after = retry_after
        self.migrated_to = migrated_to
        """The new id of a group that became a supergroup."""
        self.may_have_worked = may_have_worked
        """True where no answer came: the server may have done what was asked."""


class _TokenFilter(logging.Filter):
    """Masks the token in the lines that an HTTP client logs: it is a part of every address."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if self._token in said:
            record.msg, record.args = said.replace(self._token, "<token>"), ()
        return True


class BotApi:
    """A bot at a server of the Bot API."""

    def __init__(self, settings: TelegramSettings) -> None:
        self._token = settings.token
        self._base = settings.api_base.rstrip("/")
        self._client = httpx2.AsyncClient(follow_redirects=False)
        self._filter = _TokenFilter(settings.token)
        self._logger = logging.getLogger("httpx2")
        self._logger.addFilter(self._filter)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        self._logger.removeFilter(self._filter)

    async def me(self) -> BotIdentity:
        found = await self._call("getMe")
        number = found.get("id") if isinstance(found, dict) else None
        if not isinstance(number, int):
            raise TelegramError("getMe", UNREACHED, "the answer is not one of the Bot API")
        return BotIdentity(number, str(found.get("username", "")))

    async def updates(self, offset: int | None, seconds: int) -> list[Any]:
        """Wait for updates. An `offset` tells the server that it may forget those before it."""
        asked: Json = {"timeout": seconds, "allowed_updates": ALLOWED_UPDATES}
        if offset is not None:
            asked["offset"] = offset
        found = await self._call("getUpdates", asked, seconds=seconds + _SECONDS)
        return list(found) if isinstance(found, list) else []

    async def send(
        self,
        chat: int,
        text: str,
        entities: Sequence[Json] = (),
        *,
        thread: int | None = None,
        reply_to: int | None = None,
        buttons: Sequence[Sequence[Json]] = (),
    ) -> int:
        """Send a message, with rows of buttons below it, and return its id."""
        asked: Json = {"chat_id": chat, "text": text}
        asked |= {"entities": entities} if entities else {}
        asked |= {"message_thread_id": thread} if thread is not None else {}
        if reply_to is not None:
            asked["reply_parameters"] = {
                "message_id": reply_to,
                "allow_sending_without_reply": True,
            }
        asked |= {"reply_markup": {"inline_keyboard": buttons}} if buttons else {}
        sent = await self._call("sendMessage", asked)
        return int(sent.get("message_id", 0))

    async def show_typing(self, chat: int, thread: int | None) -> None:
        """Show for five seconds, or until the next message, that the bot is typing."""
        asked: Json = {"chat_id": chat, "action": "typing"}
        asked |= {"message_thread_id": thread} if thread is not None else {}
        await self._call("sendChatAction", asked)

    async def edit(self, chat: int, message: int, text: str, entities: Sequence[Json] = ()) -> None:
        """Give a message of the bot another text, and take its buttons away."""
        asked: Json = {"chat_id": chat, "message_id": message, "text": text}
        asked |= {"entities": entities} if entities else {}
        await self._call("editMessageText", asked)

    async def acknowledge(self, press: str, text: str = "") -> None:
        """Tell that the press of a button arrived. The app shows that it waits until then, and the
        text, if there is one, to the one who pressed it."""
        asked: Json = {"callback_query_id": press}
        asked |= {"text": text, "show_alert": True} if text else {}
        await self._call("answerCallbackQuery", asked, _PRESS_SECONDS)

    async def set_commands(self, commands: Iterable[tuple[str, str]]) -> None:
        """Set the commands that the apps offer: their names and descriptions."""
        listed = [{"command": name, "description": about[:256]} for name, about in commands]
        await self._call("setMyCommands", {"commands": listed})

    async def _call(self, method: str, asked: Json | None = None, seconds: float = _SECONDS) -> Any:
        address = f"{self._base}/bot{self._token}/{method}"
        failure = None
        try:
            response = await self._client.post(address, json=asked or {}, timeout=seconds)
        except httpx2.ConnectError as error:
            failure = TelegramError(method, UNREACHED, self._describe("cannot be reached", error))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            failure = TelegramError(
                method, UNREACHED, self._describe("did not answer", error), may_have_worked=True
            )
        if failure is not None:  # outside of the handler: the cause has the address
            raise failure
        return self._read(method, response)

    def _read(self, method: str, response: httpx2.Response) -> Any:
        try:
            body = response.json()
        except ValueError:
            body = None
        if isinstance(body, dict) and body.get("ok") is True:
            return body.get("result")
        told: Json = body if isinstance(body, dict) else {}
        more = told.get("parameters")
        parameters: Json = more if isinstance(more, dict) else {}
        description = str(told.get("description") or "the answer is not one of the Bot API")
        raise TelegramError(
            method,
            response.status_code if response.status_code != 200 else UNREACHED,
            self._mask(description),
            retry_after=parameters.get("retry_after"),
            migrated_to=parameters.get("migrate_to_chat_id"),
            may_have_worked=response.status_code >= 500 or response.status_code == 200,
        )

    def _describe(self, what: str, error: Exception) -> str:
        kind = type(error).__name__
        return self._mask(f"{what} ({kind}: {error})" if str(error) else f"{what} ({kind})")

    def _mask(self, text: str) -> str:
        return text.replace(self._token, "<token>")[:_DESCRIPTION_CHARS]

"""A server of the Bot API on this machine, which behaves as api.telegram.org does.

`tests/surfaces/telegram/test_api.py` proves it with python-telegram-bot.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections import defaultdict
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from email.message import Message
    from typing import Self

TOKEN = "123456:AAtest-token_of-the-loopback-server"
BOT = {"id": 123456, "is_bot": True, "first_name": "Loopback", "username": "loopback_bot"}
TEXT_UNITS_MAX = 4_096


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.status = status
        self.parameters = parameters


class Sent(NamedTuple):
    """A message that the server took."""

    chat: int
    text: str
    id: int
    fields: dict[str, Any]


class Fault(NamedTuple):
    """What happens to a request instead of its answer."""

    status: int
    description: str = "fault"
    parameters: dict[str, Any] | None = None
    is_done: bool = False
    """True where the server does what was asked, and the answer is lost."""


_JSON = frozenset(
    {"commands", "entities", "allowed_updates", "reply_parameters", "reply_markup", "scope"}
)
"""Parameters that are JSON in a form."""


def buttons(message: Sent) -> list[str]:
    """Return the data of the buttons below a message."""
    rows = (message.fields.get("reply_markup") or {}).get("inline_keyboard", [])
    return [button["callback_data"] for row in rows for button in row]


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class BotApiServer:
    """One bot, its chats, and the updates that wait for it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.updates: list[dict[str, Any]] = []
        """Those that the bot has not confirmed."""
        self.sent: list[Sent] = []
        self.chats: set[int] = set()
        self.blocked: set[int] = set()
        self.topics: set[int] = set()
        self.commands: list[dict[str, str]] = []
        self.actions: list[tuple[int, str]] = []
        self.calls: list[str] = []
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.callbacks: set[str] = set()
        """Presses of buttons that nobody acknowledged."""
        self.alerts: list[str] = []
        """What those were told who pressed a button."""
        self.offsets: list[int] = []
        """Those of all polls; 0 for none."""
        self._poll = 0
        self._next_update = 1_000
        self._next_message = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self._poll += 1
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # What people do

    def say(self, text: str, *, user: int = 99, chat: int | None = None, **fields: Any) -> int:
        """Send a message to the bot; returns the number of the update."""
        place = user if chat is None else chat
        person = {"id": user, "is_bot": False, "first_name": f"P{user}"}
        message = {
            "message_id": self.new_message(),
            "date": fields.pop("date", int(time.time())),
            "chat": {"id": place, "type": "private" if place > 0 else "supergroup"},
            "from": person,
            **({"text": text} if text else {}),
            **fields,
        }
        return self.push({"message": message})

    def press(self, data: str, *, user: int = 99, chat: int | None = None) -> int:
        """Press the button of the newest message that has one with this data."""
        place = user if chat is None else chat
        with self.changed:
            shown = next(
                message
                for message in reversed(self.sent)
                if message.chat == place and data in buttons(message)
            )
            query = f"press-{self.new_message()}"
            self.callbacks.add(query)
        message = {
            "message_id": shown.id,
            "date": 1_700_000_000,
            "chat": {"id": place, "type": "private" if place > 0 else "supergroup"},
            "from": BOT,
            "text": shown.text,
        }
        person = {"id": user, "is_bot": False, "first_name": f"P{user}"}
        return self.push(
            {
                "callback_query": {
                    "id": query,
                    "from": person,
                    "message": message,
                    "chat_instance": "1",
                    "data": data,
                }
            }
        )

    def push(self, update: dict[str, Any]) -> int:
        """Let the bot have an update, with the number that it has, or the next."""
        with self.changed:
            self._next_update += 1
            numbered = {"update_id": self._next_update, **update}
            for kind in ("message", "edited_message"):
                chat = update.get(kind, {}).get("chat", {}).get("id")
                if chat is not None:
                    self.chats.add(chat)
            self.updates.append(numbered)
            self.changed.notify_all()
            number: int = numbered["update_id"]
            return number

    def new_message(self) -> int:
        with self.changed:
            self._next_message += 1
            return self._next_message

    def texts(self, chat: int = 99) -> list[str]:
        with self.changed:
            return [message.text for message in self.sent if message.chat == chat]

    def wait_for(self, is_met: Any, seconds: float = 30.0) -> None:
        """Wait until a condition about the server holds."""
        with self.changed:
            assert self.changed.wait_for(is_met, seconds), (
                f"not met: sent {[message.text[:80] for message in self.sent]}, "
                f"waiting {len(self.updates)}"
            )

    def wait_for_texts(self, count: int, chat: int = 99, seconds: float = 30.0) -> list[str]:
        self.wait_for(lambda: sum(message.chat == chat for message in self.sent) >= count, seconds)
        return self.texts(chat)

    # What the bot asks for

    def answer(self, token: str, method: str, asked: dict[str, Any]) -> Any:
        if token != TOKEN:
            raise Refused(401, "Unauthorized") if ":" in token else Refused(404, "Not Found")
        call = getattr(self, f"_{re.sub('(?<!^)(?=[A-Z])', '_', method).lower()}", None)
        if call is None:
            raise Refused(404, "Not Found: method not found")
        with self.changed:
            self.calls.append(method)
            self.changed.notify_all()
            fault = self.faults[method].pop(0) if self.faults[method] else None
            if fault is not None and not fault.is_done:
                raise Refused(fault.status, fault.description, **(fault.parameters or {}))
            result = call(asked)
            self.changed.notify_all()
            if fault is not None:
                raise Refused(0, "the connection is lost")
            return result

    def _get_me(self, _asked: dict[str, Any]) -> Any:
        return {**BOT, "can_join_groups": True, "can_read_all_group_messages": False}

    def _delete_webhook(self, _asked: dict[str, Any]) -> bool:
        return True

    def _get_updates(self, asked: dict[str, Any]) -> Any:
        """Wait for updates. A poll ends the one before it, as if another program had asked."""
        offset, limit = int(asked.get("offset", 0)), int(asked.get("limit", 100))
        until = time.monotonic() + float(asked.get("timeout", 0))
        self.offsets.append(offset)
        self._poll += 1
        mine = self._poll
        self.changed.notify_all()
        if offset > 0:
            self.updates = [each for each in self.updates if each["update_id"] >= offset]
        elif offset < 0:
            self.updates = self.updates[offset:]
        while True:
            if self._poll != mine:
                raise Refused(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one "
                    "bot instance is running",
                )
            left = until - time.monotonic()
            if self.updates or left <= 0:
                return self.updates[: max(1, min(limit, 100))]
            self.changed.wait(left)

    def _send_message(self, asked: dict[str, Any]) -> Any:
        chat, text = int(asked.get("chat_id", 0)), str(asked.get("text", ""))
        thread = asked.get("message_thread_id")
        if chat in self.blocked:
            raise Refused(403, "Forbidden: bot was blocked by the user")
        if chat not in self.chats:
            raise Refused(400, "Bad Request: chat not found")
        if thread is not None and int(thread) not in self.topics:
            raise Refused(400, "Bad Request: message thread not found")
        if not text.strip():
            raise Refused(400, "Bad Request: message text is empty")
        if units(text) > TEXT_UNITS_MAX:
            raise Refused(400, "Bad Request: message is too long")
        for entity in asked.get("entities") or []:
            if entity["offset"] < 0 or entity["offset"] + entity["length"] > units(text):
                raise Refused(400, "Bad Request: ENTITY_BOUNDS_INVALID")
        for row in (asked.get("reply_markup") or {}).get("inline_keyboard", []):
            for button in row:
                if not button["text"] or not 1 <= len(button["callback_data"].encode()) <= 64:
                    raise Refused(400, "Bad Request: BUTTON_DATA_INVALID")
        self._next_message += 1
        self.sent.append(Sent(chat, text, self._next_message, asked))
        return {
            "message_id": self._next_message,
            "date": int(time.time()),
            "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup"},
            "from": BOT,
            "text": text,
        }

    def _edit_message_text(self, asked: dict[str, Any]) -> Any:
        """Give a message another text. Without `reply_markup` its buttons are taken away."""
        chat, number = int(asked.get("chat_id", 0)), int(asked.get("message_id", 0))
        places = [at for at, sent in enumerate(self.sent) if (sent.chat, sent.id) == (chat, number)]
        text = str(asked.get("text", ""))
        if not places:
            raise Refused(400, "Bad Request: message to edit not found")
        if not text.strip():
            raise Refused(400, "Bad Request: message text is empty")
        if units(text) > TEXT_UNITS_MAX:
            raise Refused(400, "Bad Request: message is too long")
        edited = Sent(chat, text, number, asked)
        before = self.sent[places[0]]
        if (before.text, buttons(before)) == (text, buttons(edited)):
            raise Refused(400, "Bad Request: message is not modified")
        self.sent[places[0]] = edited
        return {
            "message_id": number,
            "date": int(time.time()),
            "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup"},
            "from": BOT,
            "text": text,
        }

    def _send_chat_action(self, asked: dict[str, Any]) -> bool:
        chat, action = int(asked.get("chat_id", 0)), str(asked.get("action", ""))
        if chat not in self.chats:
            raise Refused(400, "Bad Request: chat not found")
        if action not in ("typing", "upload_photo", "record_voice", "upload_document"):
            raise Refused(400, "Bad Request: wrong parameter action in request")
        self.actions.append((chat, action))
        return True

    def _set_my_commands(self, asked: dict[str, Any]) -> bool:
        commands = asked.get("commands") or []
        if len(commands) > 100:
            raise Refused(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
        for command in commands:
            if not re.fullmatch("[a-z0-9_]{1,32}", command["command"]):
                raise Refused(400, "Bad Request: BOT_COMMAND_INVALID")
            if not 1 <= len(command["description"]) <= 256:
                raise Refused(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
        self.commands = commands
        return True

    def _answer_callback_query(self, asked: dict[str, Any]) -> bool:
        if asked.get("callback_query_id") not in self.callbacks:
            raise Refused(
                400,
                "Bad Request: query is too old and response timeout expired or query ID is invalid",
            )
        if len(str(asked.get("text", ""))) > 200:
            raise Refused(400, "Bad Request: MESSAGE_TOO_LONG")
        self.callbacks.discard(str(asked["callback_query_id"]))
        self.alerts += [str(asked["text"])] if asked.get("text") else []
        return True


def _handler(server: BotApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            data = self.rfile.read(length)
            parts = urlsplit(self.path)
            found = re.fullmatch(r"/bot([^/]+)/(\w+)", parts.path)
            try:
                if found is None:
                    raise Refused(404, "Not Found")
                asked = dict(parse_qsl(parts.query)) | _read_form(self.headers, data)
                result = server.answer(found[1], found[2], asked)
                status, body = 200, {"ok": True, "result": result}
            except Refused as refused:
                status = refused.status
                body = {"ok": False, "error_code": status, "description": str(refused)}
                if refused.parameters:
                    body["parameters"] = refused.parameters
            if status == 0:
                self.close_connection = True
                return
            payload = json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except OSError:
                self.close_connection = True  # the bot was killed

        def do_GET(self) -> None:
            self.do_POST()

        def handle(self) -> None:
            with contextlib.suppress(OSError):
                super().handle()

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _read_form(headers: Message, data: bytes) -> dict[str, Any]:
    """Read the parameters of a request in each of the forms that the Bot API takes."""
    kind = headers.get_content_type()
    if not data:
        return {}
    if kind == "application/json":
        asked = json.loads(data)
        assert isinstance(asked, dict)
        return asked
    if kind == "multipart/form-data":
        head = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
        form = BytesParser(policy=HTTP).parsebytes(head + data)
        fields = [
            (str(part.get_param("name", header="content-disposition")), part.get_content())
            for part in form.iter_parts()
        ]
    else:
        fields = parse_qsl(data.decode(), keep_blank_values=True)
    return {name: json.loads(value) if name in _JSON else value for name, value in fields}

"""A refund: asked for in Telegram, approved in the console, paid once; the service dies twice.

Run: python examples/refund.py
"""

import json
import os
import subprocess
import sys
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from holdfast import CallKey, tool


@tool(approval=lambda amount: amount > 50 and "a refund above 50 euros", approvers=["carl"])
def refund(amount: int, key: CallKey) -> str:
    """Give money back, once for each key, as a payment service does."""
    Path(f"ledger-{key}").write_text(f"{amount} euros")
    return f"refunded {amount} euros"


ASKED = {"message_id": 1, "text": "refund(amount=80)", "from": {"id": 42}}
UPDATE = {"update_id": 1, "message": {**ASKED, "chat": {"id": 42, "type": "private"}}}
CARL, chat = sha256(b"carls-token").hexdigest(), list[str]()


class Telegram(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}")
        method = self.path.rpartition("/")[2]
        chat.extend([given["text"]] if method == "sendMessage" else [])
        time.sleep(0.1)
        updates = [UPDATE] if given.get("offset", 0) < 2 else []
        results = {"getMe": {"id": 1}, "sendMessage": {"message_id": 9}, "getUpdates": updates}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"ok": True, "result": results.get(method, True)}).encode())


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Telegram)
    Thread(target=server.serve_forever, daemon=True).start()
    Path("serve.toml").write_text(f"""
        telegram = {{ allow = [42], api_base = "http://127.0.0.1:{server.server_port}" }}
        agents.main.tools = ["refund:refund"]
        tokens = [{{ name = "carl", owner = "*", scope = "write", sha256 = "{CARL}" }}]""")
    words = [sys.executable, "-m", "holdfast", "serve", "--config", "serve.toml", "--json"]
    more = {"PYTHONPATH": str(Path(__file__).parent), "TELEGRAM_BOT_TOKEN": "1:abcdefgh"}
    service: Any
    for life in range(3):  # killed, killed, and alive
        with subprocess.Popen([*words, "--port=0"], stdout=-1, env=os.environ | more) as service:
            url, page = json.loads(service.stdout.readline())["listening"], ""
            carl = {"Authorization": "Bearer carls-token", "Origin": url}
            while 'action="/waiting/' not in page:
                page = urlopen(Request(f"{url}/waiting", headers=carl)).read().decode()
            if life == 2:
                form = page.split('action="')[1].split('"')[0]
                urlopen(Request(url + form, b"always=false", carl)).read()
            while life == 2 and "refunded" not in chat[-1]:
                time.sleep(0.1)
            service.kill()
    print(*chat, *(entry.read_text() for entry in Path().glob("ledger-*")), sep="\n")

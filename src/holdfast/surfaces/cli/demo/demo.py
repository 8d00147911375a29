"""`demo`: replays a recorded agent session through the whole engine in a window it outgrows.

The first part runs in its own process, which is killed in the middle of a tool call; the second
part reopens the session and continues. Every figure is measured in the run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.secrets.addresses import FOLDER, address_kind
from holdfast.errors import HoldfastError, UsageError
from holdfast.stores.opening import open_store
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.demo import frames
from holdfast.surfaces.cli.demo.recording import Recording, load
from holdfast.surfaces.cli.demo.replay import KEY, Replay, Scenario, price
from holdfast.surfaces.cli.demo.report import Crash, DemoReport, report, show_report
from holdfast.surfaces.cli.demo.scene import Scene
from holdfast.surfaces.cli.demo.view import view_for

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from holdfast.surfaces.cli.demo.view import DemoView

_CODE: Final = "from holdfast.surfaces.cli.demo.replay import main; main()"
_WINDOW: Final = 24_000
_PAUSE_SECONDS: Final = 0.055
"""On a terminal."""
_EPILOG: Final = """No key, no network. On a terminal it takes about 20 seconds; --fast a few.
Another recording: python -m holdfast.testing.recorder --help"""


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="skip the pauses")
    parser.add_argument(
        "--window",
        type=int,
        default=_WINDOW,
        metavar="N",
        help="the provider's window; Holdfast is configured with twice that (%(default)s)",
    )
    parser.add_argument(
        "--keep",
        nargs="?",
        const="",
        metavar="STORE",
        help="keep the session, in an empty folder, at another address, or in a temporary folder "
        "(on a terminal: always)",
    )
    parser.add_argument(
        "--recording", metavar="FILE", help="replay another recording or session log"
    )


def _demo(args: argparse.Namespace, app: App) -> int:
    if args.window < WINDOW_FLOOR_TOKENS:
        raise UsageError(
            f"a window of {args.window:,} tokens is too small",
            hint=f"pass {WINDOW_FLOOR_TOKENS:,} or more",
        )
    recording = load(args.recording)
    is_watched = sys.stdout.isatty() and not app.out.is_json
    is_kept = args.keep is not None or is_watched
    with _place(args.keep, is_kept=is_kept) as (root, folder):
        scenario = Scenario(
            root=root,
            journal=os.path.join(folder, "tools-that-ran.txt"),
            recording=args.recording,
            stated=2 * args.window,
            real=args.window,
            pause_seconds=_PAUSE_SECONDS if is_watched and not args.fast else 0.0,
        )
        found = _run(app, scenario, recording, is_kept=is_kept)
    if app.out.is_json:
        app.out.json(found)
    else:
        show_report(app, found)
    return 0 if found.is_sound else 1


@contextmanager
def _place(keep: str | None, *, is_kept: bool) -> Iterator[tuple[str, str]]:
    """Yield the address of the session, and a folder for what is no part of it."""
    if keep and address_kind(keep) != FOLDER:
        _check_free(keep)
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
            yield keep, folder
        return
    if keep:
        if os.path.exists(keep) and os.listdir(keep):
            raise UsageError(f"`{keep}` is not empty", hint="pass an empty or new folder")
        os.makedirs(keep, exist_ok=True)
        yield os.path.abspath(keep), os.path.abspath(keep)
        return
    folder = tempfile.mkdtemp(prefix="holdfast-demo-")
    try:
        yield folder, folder
    except BaseException:
        is_kept = False
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _check_free(address: str) -> None:
    """Refuse a store that has the session already, or that another process does not see."""
    with open_store(address) as store:
        if store.caveat:
            raise UsageError(
                f"cannot keep the session in `{store.describe()}`: {store.caveat}",
                hint="pass a folder or the address of a database",
            )
        if KEY in store.keys(KEY.agent):
            raise UsageError(
                f"`{store.describe()}` has a session `{KEY}` already",
                hint=f"remove it with `holdfast rm {KEY}`, or pass another address",
            )


def _run(app: App, scenario: Scenario, recording: Recording, *, is_kept: bool) -> DemoReport:
    scene = Scene(recording.title, price(), scenario.stated, scenario.real)
    with view_for(scene, is_json=app.out.is_json) as view:
        crash = _until_killed(scenario, recording, scene, view)

        def take(frame: frames.Frame) -> None:
            scene.take(frame)
            view.show(frame)

        Replay(scenario, take).run()
    with open(scenario.journal, encoding="utf-8") as file:
        journal = file.read().splitlines()
    with open_store(scenario.root) as store:
        return report(scene, recording, store, crash, journal=journal, is_kept=is_kept)


def _until_killed(scenario: Scenario, recording: Recording, scene: Scene, view: DemoView) -> Crash:
    """Run the agent in another process and kill it while a tool runs."""
    hanging = msgspec.structs.replace(scenario, hangs=True)
    agent = subprocess.Popen(
        [sys.executable, "-c", _CODE],
        stdin=subprocess.PIPE,  # other users see the arguments of a process
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    try:
        agent.stdin.write(msgspec.json.encode(hanging))
        agent.stdin.close()
        agent.stdin = None
        for line in agent.stdout:
            frame = frames.decode(line)
            scene.take(frame)
            view.show(frame)
            if isinstance(frame, frames.ToolStartFrame) and frame.call == recording.interrupt:
                time.sleep(20 * scenario.pause_seconds)
                break
    finally:
        agent.kill()
        rest, errors = agent.communicate()
    if agent.returncode != -9:
        raise HoldfastError(
            f"the agent's process ended before it was killed, with status {agent.returncode}: "
            f"{errors.decode(errors='replace').strip()[-2_000:]}"
        )
    for line in rest.splitlines(keepends=True):
        if line.endswith(b"\n"):
            scene.take(frames.decode(line))
    return _check_crash(scenario, scene, view, agent.pid)


def _check_crash(scenario: Scenario, scene: Scene, view: DemoView, pid: int) -> Crash:
    """Compare the log with the records that the killed process had acknowledged."""
    with open_store(scenario.root) as store:
        found = {record.id for record in store.read(KEY)}
    tool = scene.tools[-1]
    tool.is_killed = True
    acknowledged = set(scene.acknowledged)
    crash = Crash(pid, tool.call, tool.tool, len(acknowledged), len(acknowledged - found))
    scene.add("bad", "crash", f"SIGKILL for process {pid} while `{tool.tool}` ran ({tool.call})")
    view.show(None)
    time.sleep(15 * scenario.pause_seconds)
    lost = f"{crash.lost} LOST" if crash.lost else "nothing lost"
    scene.add(
        "bad" if crash.lost else "good",
        "reopened",
        f"{crash.acknowledged} records were acknowledged, {lost}",
    )
    view.show(None)
    time.sleep(15 * scenario.pause_seconds)
    return crash


VERBS = {
    "demo": Verb(_add_demo, _demo, _EPILOG),
}

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
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.secrets.addresses import FOLDER, address_kind
from holdfast.core.text.typed import decode_typed
from holdfast.errors import HoldfastError, UsageError
from holdfast.stores.opening import open_store
from holdfast.surfaces.cli.command import ResultCommand, option
from holdfast.surfaces.cli.demo.recording import Recording, load
from holdfast.surfaces.cli.demo.replay import KEY, Replay, Scenario, Scene, new_scene
from holdfast.surfaces.cli.demo.report import Crash, DemoReport, report, show_report
from holdfast.surfaces.cli.demo.view import view_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.demo.view import DemoView

_CODE: Final = "from holdfast.surfaces.cli.demo.replay import main; main()"
_WINDOW: Final = 24_000
_PAUSE_SECONDS: Final = 0.055
"""On a terminal."""


class DemoCommand(ResultCommand, frozen=True, kw_only=True):
    """Runs the demo."""

    example = """No key, no network. On a terminal it takes about 20 seconds; --fast a few.
Another recording: python -m holdfast.testing.recorder --help"""
    fast: Annotated[bool, option("skip the pauses")] = False
    real: Annotated[
        int,
        Meta(ge=WINDOW_FLOOR_TOKENS),
        option(
            "the provider's window; Holdfast is configured with twice that (%(default)s)",
            "N",
            "--window",
        ),
    ] = _WINDOW
    keep: Annotated[
        str | None,
        option(
            "keep the session, in an empty folder, at another address, or in a temporary folder "
            "(on a terminal: always)",
            "STORE",
            bare="",
        ),
    ] = None
    recording: Annotated[str | None, option("replay another recording or session log", "FILE")] = (
        None
    )

    def run(self, app: App) -> DemoReport:
        recording = load(self.recording)
        is_watched = sys.stdout.isatty() and not app.out.is_json
        is_kept = self.keep is not None or is_watched
        with _place(self.keep, is_kept=is_kept) as (root, folder):
            scenario = Scenario(
                root=root,
                journal=os.path.join(folder, "tools-that-ran.txt"),
                recording=self.recording,
                stated=2 * self.real,
                real=self.real,
                pause_seconds=_PAUSE_SECONDS if is_watched and not self.fast else 0.0,
            )
            return _run(app, scenario, recording, is_kept=is_kept)

    def show(self, found: DemoReport, app: App) -> None:
        show_report(app, found)

    def status(self, found: DemoReport) -> int:
        return 0 if found.is_sound else 1


@contextmanager
def _place(keep: str | None, *, is_kept: bool) -> Iterator[tuple[str, str]]:
    """Yield the address of the session, and a folder for what is not part of it."""
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
    with view_for(new_scene(scenario), is_json=app.out.is_json) as view:
        scene, crash = _until_killed(scenario, recording, view)
        Replay(scenario, scene, view.show).run()
    with open(scenario.journal, encoding="utf-8") as file:
        journal = file.read().splitlines()
    with open_store(scenario.root) as store:
        return report(scene, recording, store, crash, journal=journal, is_kept=is_kept)


def _until_killed(scenario: Scenario, recording: Recording, view: DemoView) -> tuple[Scene, Crash]:
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
    last = b""
    try:
        agent.stdin.write(msgspec.json.encode(hanging))
        agent.stdin.close()
        agent.stdin = None
        for last in agent.stdout:
            scene = decode_typed(last, Scene)
            view.show(scene)
            if any(tool.call == recording.interrupt for tool in scene.tools):
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
    whole = [line for line in rest.splitlines(keepends=True) if line.endswith(b"\n")]
    scene = decode_typed([last, *whole][-1], Scene)
    return scene, _check_crash(scenario, scene, view, agent.pid)


def _check_crash(scenario: Scenario, scene: Scene, view: DemoView, pid: int) -> Crash:
    """Compare the log with the records that the killed process had acknowledged."""
    with open_store(scenario.root) as store:
        found = {record.id for record in store.read(KEY)}
    tool = scene.tools[-1]
    tool.is_killed = True
    acknowledged = set(scene.acknowledged)
    crash = Crash(pid, tool.call, tool.tool, len(acknowledged), len(acknowledged - found))
    scene.add("bad", "crash", f"SIGKILL for process {pid} while `{tool.tool}` ran ({tool.call})")
    view.show(scene)
    time.sleep(15 * scenario.pause_seconds)
    lost = f"{crash.lost} LOST" if crash.lost else "nothing lost"
    scene.add(
        "bad" if crash.lost else "good",
        "reopened",
        f"{crash.acknowledged} records were acknowledged, {lost}",
    )
    view.show(scene)
    time.sleep(15 * scenario.pause_seconds)
    return crash

"""The first request of each agent, as it was when its release was tried.

A recording has the shape of the request: its fields, its messages by role, size and beginning, and
the names of its tools. What differs from run to run is left out. A release that puts something else
before the user's words shows as a difference here.

`python -m tests.integrations.test_first_requests` writes the recordings of the agents that are
installed: look at the difference before you commit it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from tests.integrations.test_real_agents import (
    OTHERS,
    Agent,
    claude_settings,
    codex_options,
    gemini_settings,
    needs,
)

from holdfast.testing import Loopback

FOLDER: Final = Path(__file__).parents[1] / "support" / "first_requests"
AGENTS: Final = ("claude", "codex", "gemini", *OTHERS)
WORDS: Final = "word-alpha please"
_BEGINNING: Final = 60
_VOLATILE: Final = (
    (re.compile(r"cc_version=[\w.]+"), "cc_version=RELEASE"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b"), "ID"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"), "ID"),
    (re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"), "DAY"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"), "DAY"),
    (
        re.compile(
            r"\b(?:January|February|March|April|May|June|July|August|September|October|November"
            r"|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"
        ),
        "MONTH",
    ),
    (re.compile(r"\d+"), "0"),
)


def ask(name: str, home: Path) -> dict[str, Any]:
    """Return the shape of the request that an agent sends first with the words of a user."""
    program, agent = needs(name), Agent(home, "no summary is asked for")
    with Loopback(agent, limit=1_000_000) as loopback:
        if name == "claude":
            options, known = (
                ["-p", WORDS, "--model", "claude-sonnet-4-5"],
                claude_settings(loopback.url),
            )
        elif name == "codex":
            (home / ".codex").mkdir()
            options = ["exec", "--skip-git-repo-check", "--json", *codex_options(loopback.url)]
            options, known = [*options, WORDS], {"K": "test"}
        elif name == "gemini":
            options = ["-m", "gemini-2.5-pro", "--output-format", "json", "-p", WORDS]
            known = gemini_settings(home, loopback.url)
        else:
            options, known = OTHERS[name](home, loopback.url, WORDS, 0)
        agent.run(program, *options, **known)
        # A title or another side request has the words, too, and no tools.
        asked = [one for one in loopback.requests if WORDS in json.dumps(one.body)]
        sent = max(asked, key=lambda one: len(_tools(one.body)))
        return {"agent": name, "path": sent.path, **shape(sent.body, home)}


def shape(body: dict[str, Any], home: Path) -> dict[str, Any]:
    """Return what a request is made of, without what differs from run to run."""
    messages = body.get("messages") or body.get("input") or body.get("contents") or []
    parts = [body.get(name) for name in ("system", "instructions", "systemInstruction")]
    return {
        "fields": sorted(body),
        "system": [_text(text, home) for part in parts if part for text in _texts(part)],
        "messages": [
            {
                "role": message.get("role") or message.get("type"),
                "texts": [_text(text, home) for text in _texts(message)],
            }
            for message in messages
        ],
        "tools": sorted(_tools(body)),
    }


def _tools(body: dict[str, Any]) -> list[str]:
    found = []
    for tool in body.get("tools") or []:
        inner = tool.get("functionDeclarations") or [tool.get("function") or tool]
        found += [str(each.get("name") or each.get("type")) for each in inner]
    return found


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for each in value for text in _texts(each)]
        case dict():
            named = [value[name] for name in ("text", "content", "parts") if name in value]
            return [text for each in named for text in _texts(each)]
    return []


def _plain(text: str, home: Path) -> str:
    for written in (str(home), re.sub(r"[^A-Za-z0-9]", "-", str(home))):
        text = text.replace(written, "HOME")
    for pattern, name in _VOLATILE:
        text = pattern.sub(name, text)
    return text


def _text(text: str, home: Path) -> str:
    """The size of a text, and its beginning: the words themselves belong to their authors."""
    plain = _plain(text, home)
    if plain == WORDS:
        return plain
    digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
    begin = " ".join(plain[:_BEGINNING].split())
    return f"{begin}… ({len(plain):,} characters, {digest})"


def release_of(name: str) -> str:
    """Return the release that is installed."""
    done = subprocess.run(
        [needs(name), "--version"], capture_output=True, text=True, check=True, input=""
    )
    return str(re.findall(r"\d+\.\d+\.\d+", done.stdout + done.stderr)[-1])


def write_down(found: dict[str, Any], release: str) -> str:
    return json.dumps({"release": release, **found}, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_begins_as_it_did(tmp_path: Path, name: str) -> None:
    """Its first request has the recorded shape; another release has to be recorded again."""
    needs(name)
    file = FOLDER / f"{name}.json"
    if not file.exists():
        pytest.skip(f"`{name}` was not recorded: python -m tests.integrations.test_first_requests")
    assert write_down(ask(name, tmp_path), release_of(name)) == file.read_text()


def test_recordings_are_of_the_releases_that_are_installed() -> None:
    """`make clients` installs the releases that were recorded."""
    from scripts.newest import read_agents

    stated = read_agents(Path(__file__).parents[2])
    for file in FOLDER.glob("*.json"):
        recorded = json.loads(file.read_text())
        assert stated[file.stem] == recorded["release"], file.name


def test_what_differs_from_run_to_run_is_left_out() -> None:
    """Homes, dates, ids and versions; a text that is another shows, and the user's words stay."""
    home = Path("/tmp/a1")
    texts = [
        f"In {home}/work on Thursday, November 19, 2026, id 11111111-2222-4333-8444-555555555555.",
        f"In {home}/work on Friday, May 1, 2026, id 99999999-2222-4333-8444-aaaaaaaaaaaa.",
    ]
    made = {
        shape({"messages": [{"role": "user", "content": text}]}, home)["messages"][0]["texts"][0]
        for text in texts
    }
    assert len(made) == 1
    assert "HOME" in made.pop()
    assert _text("another", home) != _text("anothr", home)
    assert _text(WORDS, home) == WORDS


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or AGENTS:
        try:
            with tempfile.TemporaryDirectory() as folder:
                text = write_down(ask(name, Path(folder)), release_of(name))
        except pytest.skip.Exception as skipped:
            sys.stdout.write(f"{name}: {skipped}\n")
            continue
        (FOLDER / f"{name}.json").write_text(text)
        sys.stdout.write(f"{name}: recorded\n")


if __name__ == "__main__":
    main()

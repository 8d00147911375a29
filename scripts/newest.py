"""Move what is tried to the newest releases of all peers and agents.

    python scripts/newest.py            # the newest releases into the files that install them
    make peers clients                  # try them
    python scripts/newest.py --accept   # the tested ranges and the pages, from what was tried

Run by the weekly workflow, which fails with the difference where a release breaks something, and
opens a pull request otherwise. `requirements-peers.txt` has the peers, the Makefile the agents;
`engine/adapters.py` has the tested ranges, and three files of words name the agents.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT: Final = Path(__file__).parents[1]
PEERS: Final = "requirements-peers.txt"
CLIENTS: Final = "requirements-clients.txt"
RANGES: Final = "src/holdfast/engine/adapters.py"
AGENTS: Final = {
    "claude": ("@anthropic-ai/claude-code", "Claude Code"),
    "codex": ("@openai/codex", "Codex"),
    "pi": ("@mariozechner/pi-coding-agent", "pi"),
    "gemini": ("@google/gemini-cli", "Gemini CLI"),
    "qwen": ("@qwen-code/qwen-code", "Qwen Code"),
    "opencode": ("opencode-ai", "opencode"),
    "openclaw": ("openclaw", "OpenClaw"),
    "aider": ("aider-chat", "aider"),
}
"""Each agent by its command: its package (aider's is Python's), and its name in words."""
PAGES: Final = (
    "docs/importers.md",
    "docs/proxy.md",
    "tests/integrations/test_real_agents.py",
)
"""The files that say in words which releases were tried."""
_PIN: Final = re.compile(r"^([a-z0-9-]+)==(\S+)$", re.MULTILINE)
_NUMBER: Final = r"\d+(?:\.\d+)+"


def read_agents(root: Path) -> dict[str, str]:
    """Return the release of each agent that the Makefile installs."""
    text = (root / "Makefile").read_text()
    found = {}
    for name, (package, _words) in AGENTS.items():
        (found[name],) = set(re.findall(_agent_pin(name, package), text))
    return found


def _agent_pin(name: str, package: str) -> str:
    return rf"(?<![\w/-]){re.escape(package)}{'==' if name == 'aider' else '@'}({_NUMBER})"


def read_mentions(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the releases of agents that each page names."""
    found = {}
    for page in PAGES:
        text = (root / page).read_text()
        found[page] = [
            (name, release)
            for name, (_package, words) in AGENTS.items()
            for release in re.findall(_mention(words), text)
        ]
    return found


def _mention(words: str) -> str:
    """Its name and a release; in brackets is what another package brings along."""
    return rf"(?<![\w(]){re.escape(words)} ({_NUMBER})"


def write_agents(root: Path, releases: Mapping[str, str]) -> None:
    """Let the Makefile install these releases."""
    file = root / "Makefile"
    text = file.read_text()
    for name, release in releases.items():
        pattern = _agent_pin(name, AGENTS[name][0])
        for pin in re.finditer(pattern, text):
            text = text.replace(pin[0], pin[0].replace(pin[1], release))
    file.write_text(text)


def write_peers(root: Path, name: str, newest: Mapping[str, str]) -> None:
    """Let a file of requirements pin these releases."""
    file = root / name
    file.write_text(
        _PIN.sub(lambda pin: f"{pin[1]}=={newest.get(pin[1], pin[2])}", file.read_text())
    )


def accept(root: Path) -> None:
    """Write the tested ranges and the pages, from the releases that are installed and tried."""
    pins = dict(_PIN.findall((root / PEERS).read_text()))
    file = root / RANGES
    row = re.compile(r'(Integration\("\w+", ")([a-z-]+)(", "[^"]+", ")[^"]+("\))')
    file.write_text(
        row.sub(
            lambda found: (
                found[0]
                if found[2] not in pins
                else f"{found[1]}{found[2]}{found[3]}{pins[found[2]]}{found[4]}"
            ),
            file.read_text(),
        )
    )
    releases = read_agents(root)
    for page in PAGES:
        text = (root / page).read_text()
        for name, (_package, words) in AGENTS.items():
            text = re.sub(_mention(words), f"{words} {releases[name]}", text)
        (root / page).write_text(text)


# What there is


def find_newest(names: list[str]) -> dict[str, str]:
    """Return the newest releases from the index of Python packages that go together."""
    uv = ROOT / ".tools" / "bin" / "uv"
    command = [str(uv), "pip", "compile", "--quiet", "--no-annotate", "--no-header"]
    done = subprocess.run(
        [*command, "--python-version", "3.11", "-"],
        input="\n".join(names),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the newest releases do not go together:\n{done.stderr}")
    return {name: found for name, found in _PIN.findall(done.stdout) if name in names}


def find_newest_agent(name: str) -> str:
    """Return the newest release of an agent."""
    package = AGENTS[name][0]
    if name == "aider":
        return find_newest([package])[package]
    done = subprocess.run(
        ["npm", "view", package, "version"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def move(
    root: Path,
    peers: Callable[[list[str]], dict[str, str]] = find_newest,
    agent: Callable[[str], str] = find_newest_agent,
) -> None:
    """Let the newest releases be installed."""
    pins = [name for name, _release in _PIN.findall((root / PEERS).read_text())]
    write_peers(root, PEERS, peers(pins))
    write_peers(root, CLIENTS, peers(["claude-agent-sdk"]))
    write_agents(root, {name: agent(name) for name in AGENTS})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="after they were tried")
    if parser.parse_args().accept:
        accept(ROOT)
    else:
        move(ROOT)
    subprocess.run(["git", "diff", "--stat"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()

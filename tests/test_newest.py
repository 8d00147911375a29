"""What was tried is stated once: the Makefile and the pages agree, and one script moves them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from scripts.newest import (
    AGENTS,
    CLIENTS,
    PAGES,
    PEERS,
    RANGES,
    accept,
    move,
    read_agents,
    read_mentions,
)

ROOT = Path(__file__).parents[1]


def test_the_pages_name_the_agents_that_the_makefile_installs() -> None:
    """Each release that a page names is the one that `make clients` tries; each agent is named."""
    stated, named = read_agents(ROOT), read_mentions(ROOT)
    for page, found in named.items():
        for name, release in found:
            assert release == stated[name], f"{page} says {AGENTS[name][1]} {release}"
    assert {name for found in named.values() for name, _release in found} == set(AGENTS)


def test_the_script_moves_all_of_them_and_nothing_else(tmp_path: Path) -> None:
    """Newer releases go into the files that install them; accepted, into the ranges and pages. The
    rest of each file is as it was, and a second run changes nothing."""
    files = ("Makefile", PEERS, CLIENTS, RANGES, *PAGES)
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    before = {name: (tmp_path / name).read_text() for name in files}

    def run() -> dict[str, str]:
        move(tmp_path, lambda names: dict.fromkeys(names, "99.1.2"), lambda _name: "88.3.4")
        accept(tmp_path)
        return {name: (tmp_path / name).read_text() for name in files}

    after = run()
    assert read_agents(tmp_path) == dict.fromkeys(AGENTS, "88.3.4")
    assert "==99.1.2" in after[CLIENTS]
    assert len(re.findall(r"==99\.1\.2", after[PEERS])) == before[PEERS].count("==")
    integrations = re.findall(
        r'Integration\("\w+", "([a-z-]+)", "([^"]+)", "([^"]+)"', after[RANGES]
    )
    for package, lowest, newest in integrations:
        assert newest == ("99.1.2" if f"{package}==" in before[PEERS] else newest)
        assert f'"{lowest}"' in before[RANGES]
    for found in read_mentions(tmp_path).values():
        assert {release for _name, release in found} <= {"88.3.4"}
    number = re.compile(r"\d+(?:\.\d+)+")
    for name in files:
        assert number.sub("", after[name]) == number.sub("", before[name]), name
    assert run() == after

"""The container recipe and the page that says how to run a service: each step is tried."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.surfaces.http.real import ServeProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[1]
RECIPE = REPOSITORY / "deploy" / "Containerfile"
EXTRAS = re.compile(r"\[([a-z,]+)\]'")


def steps() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the recipe, each on one line."""
    text = re.sub(r"^#.*\n", "", RECIPE.read_text(), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield name, " ".join(rest.split())


def test_the_recipe_installs_what_there_is() -> None:
    """Its extras are ours, what it copies is here, and it runs as nobody's root."""
    known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    found = list(steps())
    assert {name for name, _rest in found} <= {
        *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE"),
        *("HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }
    (extras,) = [match[1] for name, rest in found if (match := EXTRAS.search(rest))]
    assert set(extras.split(",")) <= set(known["optional-dependencies"])
    for name, rest in found:
        if name == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (REPOSITORY / source).exists(), source
    users = [rest for name, rest in found if name == "USER"]
    assert users == ["10001"]
    assert all(":latest" not in rest and ":" in rest for name, rest in found if name == "FROM")


def test_what_the_recipe_copies_can_be_installed(tmp_path: Path) -> None:
    """From these files alone a wheel is built, as the recipe's `pip install` does."""
    for name, rest in steps():
        if name == "COPY" and not rest.startswith("--from"):
            *sources, _target = rest.split()
            for source in sources:
                if (REPOSITORY / source).is_dir():
                    ignore = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(REPOSITORY / source, tmp_path / source, ignore=ignore)
                else:
                    shutil.copy(REPOSITORY / source, tmp_path / source)
    uv = REPOSITORY / ".tools" / "bin" / "uv"
    if not uv.exists():
        pytest.skip("uv is not installed: make sets it up in .tools")
    done = subprocess.run(
        [str(uv), "build", "--wheel", "--quiet", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / ".tools")},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to fetch" in done.stderr:
        pytest.skip("the index of packages is not reached: hatchling is fetched to build the wheel")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("dist/*.whl"))


def test_the_container_serves_and_says_when_it_is_healthy(tmp_path: Path) -> None:
    """As it begins it refuses an address that others reach, and names what to do; with a token it
    starts. Its health check succeeds then, and fails once it is gone."""
    found = dict(steps())
    words = json.loads(found["CMD"])
    entry = json.loads(found["ENTRYPOINT"])
    assert entry == ["holdfast"]
    root = {**os.environ, "HOLDFAST_ROOT": str(tmp_path / "sessions")}
    command = [sys.executable, "-m", "holdfast"]
    refused = subprocess.run(
        [*command, *words], env=root, capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert "holdfast token new" in refused.stderr
    page = (REPOSITORY / "docs" / "operating.md").read_text()
    (line,) = re.findall(r"docker run --rm -v holdfast:/data holdfast (.*)", page)
    made = subprocess.run(
        [*command, *shlex.split(line)], env=root, capture_output=True, text=True, check=True
    )
    assert made.stdout.startswith("holdfast_")
    check = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
    assert check[0] == "python"
    with ServeProcess(root["HOLDFAST_ROOT"], "[server]\nhost = '0.0.0.0'\n", tmp_path) as server:
        healthy = [sys.executable, check[1], check[2].replace(":8484", f":{server.port}")]
        for _ in range(100):  # it loads for a while, and is not healthy yet
            status = subprocess.run(healthy, capture_output=True, check=False).returncode
            if status == 0:
                break
        assert status == 0
    assert subprocess.run(healthy, capture_output=True, check=False).returncode == 1


def test_the_steps_of_the_page_lead_to_a_service(tmp_path: Path) -> None:
    """The commands under systemd, with folders and a user of the test's and without the network:
    the settings, the doctor, the token, the server, the request."""
    page = (REPOSITORY / "docs" / "operating.md").read_text()
    block = page.split("## From nothing to a service")[1].split("```sh\n")[1].split("```")[0]
    script = block.replace("/var/lib/holdfast", f"{tmp_path}/lib").replace(
        "/etc/holdfast", f"{tmp_path}/etc"
    )
    kept = []
    for line in script.splitlines():
        if line.startswith(("python3 -m venv", "useradd", "systemctl", "install -m")):
            continue  # what takes root or the network; systemd-analyze has read the unit
        line = line.replace("-o holdfast ", "").replace("runuser -u holdfast -- ", "")
        kept.append(line.replace("/opt/holdfast/bin/holdfast", f"{sys.executable} -m holdfast"))
    *before, request = kept
    assert len(before) == 5
    environ = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-test"}
    done = subprocess.run(
        ["bash", "-euc", "\n".join(before).replace("anthropic:claude-sonnet-5-5", "offline")],
        env=environ,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    token = done.stdout.split()[-1]
    assert token.startswith("holdfast_")
    settings = (tmp_path / "etc" / "holdfast.toml").read_text()
    with ServeProcess(f"{tmp_path}/lib", settings, tmp_path) as server:
        request = request.replace(":8484", f":{server.port}")
        asked = subprocess.run(
            ["bash", "-euc", request],
            env={**environ, "TOKEN": token},
            capture_output=True,
            text=True,
            check=False,
        )
        assert json.loads(asked.stdout)["sessions"] == []

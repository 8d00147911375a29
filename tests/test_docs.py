"""The documents are true: every example runs, every command, variable and error is described."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import proxy_session, readme_picture
from tests.support import peers
from tests.support.cli import run_in_process
from tests.support.processes import COMMAND_ENVIRONMENT
from tests.support.runs import is_whole, sample

from holdfast import config, errors
from holdfast.core.log import damage
from holdfast.core.log.records import BY_TYPE
from holdfast.core.projection.policy import POLICIES, Policy
from holdfast.providers.known_models.lookup import find_model
from holdfast.surfaces.cli.help import words_by_command

REPOSITORY = Path(__file__).parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def fences(page: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(page.read_text("utf-8")) if name == language]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if fences(page, language)]


def text_of_docs() -> str:
    return "\n".join(page.read_text("utf-8") for page in PAGES)


def test_python_examples_of_the_readme_run(tmp_path: Path) -> None:
    """The first examples run one after the other in a process of their own."""
    program = "\n".join(fences(PAGES[0], "python"))

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page", pages_with("python")[1:], ids=lambda page: page.relative_to(REPOSITORY).as_posix()
)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python examples of a page run one after the other, as a reader would type them."""
    if page.parent.name == "adapters":
        peers.needs(page.stem)  # a page is named after the package that it is about
    monkeypatch.chdir(tmp_path)
    program = "\n".join(fences(page, "python"))

    exec(compile(program, page.name, "exec", dont_inherit=True), {"__name__": "__main__"})


def test_page_of_an_adapter_begins_with_five_lines_and_ends_with_what_it_does_not_do() -> None:
    pages = [page for page in PAGES if page.parent.name == "adapters"]
    assert len(pages) > 7
    for page in pages:
        first = [line for line in fences(page, "python")[0].splitlines() if line.strip()]
        assert len(first) <= 5, page.name
        headings = re.findall(r"^## (.+)", page.read_text("utf-8"), re.MULTILINE)
        assert headings[-1] == "What it does not do", page.name


def commands_of(page: Path) -> list[str]:
    return [
        line.removeprefix("$ ")
        for body in fences(page, "console")
        for line in body.splitlines()
        if line.startswith("$ ")
    ]


def verbs_in(command: str) -> list[str]:
    return re.findall(r"\bholdfast (?:--json )?(\w+)", command)


def first_examples() -> set[tuple[Path, str]]:
    """The first command line of the docs that uses a command of ours, for each of them."""
    known: set[str] = set()
    found = set()
    for page in pages_with("console"):
        for command in commands_of(page):
            if not known.issuperset(verbs_in(command)):
                found.add((page, command))
                known.update(verbs_in(command))
    return found


FIRST = set(sample(sorted(first_examples()), share=1 / 10))
RUN_ELSEWHERE = {"holdfast demo --fast --json"}
"""Commands that take long, and that `tests/surfaces/cli/demo` runs as they are."""
IN_PROCESS = re.compile(r"(?:(?P<input>[^|>]*[^|> ]) \| )?holdfast (?P<arguments>[^|><$]*)")
"""A command that needs no shell, but for what is piped into it."""


@pytest.mark.parametrize("page", pages_with("console"), ids=lambda page: page.name)
def test_console_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The commands of a page succeed one after the other in an empty folder.

    The first example of each command is a process of its own, as a reader's would be (in the
    ordinary run, of some); what can do without a shell is called in this process otherwise.
    """
    monkeypatch.chdir(tmp_path)
    shim = tmp_path / "bin" / "holdfast"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    shim.chmod(0o755)

    def bash(command: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            env={"PATH": f"{shim.parent}:/usr/bin:/bin", **COMMAND_ENVIRONMENT},
            capture_output=True,
        )

    for command in commands_of(page):
        if command in RUN_ELSEWHERE and not is_whole():
            continue
        plain = IN_PROCESS.fullmatch(command)
        if plain is None or (page, command) in FIRST:
            done = bash(command)
            assert done.returncode == 0, f"{command}\n{done.stdout!r}\n{done.stderr!r}"
        else:
            stdin = bash(plain["input"]).stdout if plain["input"] else b""
            result = run_in_process(shlex.split(plain["arguments"]), capfd, stdin)
            assert result.status == 0, f"{command}\n{result.out}\n{result.err}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link points at a file that is there."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_reached_from_the_readme() -> None:
    """A reader who follows links finds every page; the index names every page of its folder."""
    reached, ahead = set[Path](), [PAGES[0]]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        targets = re.findall(r"\]\((?!https?:)([^)#]+\.md)[^)]*\)", page.read_text("utf-8"))
        found = {(page.parent / target).resolve() for target in targets}
        ahead += [path for path in found if path not in reached and path in PAGES]
    assert set(PAGES) - reached == set()


def test_the_recorded_session_shows_both_commands() -> None:
    """`python scripts/proxy_session.py` records it with the real agent. Its lines are those of a
    terminal, and none of them tells where it was recorded."""
    picture = proxy_session.PICTURE.read_text("utf-8")
    assert "$ holdfast wrap claude -p" in picture
    assert "$ holdfast context proxy-" in picture
    assert "records summarised" in picture
    assert "/tmp/" not in picture
    assert "\x1b" not in picture
    drawn = proxy_session.draw([("a <b>", "\x1b[1;31mred\x1b[0m & plain")])
    assert "$ a &lt;b&gt;" in drawn
    assert '<tspan class="bold">red</tspan> &amp; plain' in drawn


def test_the_picture_of_the_readme_shows_what_was_measured() -> None:
    """`python scripts/readme_picture.py` makes it from the benchmark page."""
    page = (REPOSITORY / "docs" / "benchmarks" / "unseen.md").read_text("utf-8")
    assert readme_picture.WIDE.read_text("utf-8") == readme_picture.draw(page)
    assert readme_picture.NARROW.read_text("utf-8") == readme_picture.draw(page, is_narrow=True)


@pytest.mark.parametrize(("screen", "shown"), [(390, 0), (600, 0), (601, 1), (1280, 1)])
def test_the_picture_of_the_readme_can_be_read(screen: int, shown: int) -> None:
    """On a phone the README shows a picture of its own; no text in it is below 8 pixels there,
    and on a phone none is below 12."""
    readme = PAGES[0].read_text("utf-8")
    widest = re.findall(r'media="\(max-width: (\d+)px\)"', readme)
    assert widest == ["600"]
    source = re.findall(r'\bsrc(?:set)?="([^"]+)"', readme)[shown]
    picture = (REPOSITORY / source).read_text("utf-8")
    width = int(re.findall(r'viewBox="0 0 (\d+) ', picture)[0])
    sizes = [int(size) for size in re.findall(r"(\d+)px", picture.split("@media")[0])]
    scale = min(screen - 32, 850) / width
    assert min(sizes) * scale >= (12 if screen == 390 else 8)


def test_no_example_uses_a_deprecated_model() -> None:
    """Models in programs of the README and the quickstart are in the catalog, and not on the way
    out."""
    for page in (PAGES[0], REPOSITORY / "docs" / "quickstart.md"):
        named = re.findall(r"\b(?:claude|gpt|gemini)-[a-z0-9.-]*\d[a-z0-9.-]*", page.read_text())
        for name in named:
            found = find_model(name)
            assert found is not None, f"{page.name}: {name}"
            assert not found.model.deprecated, f"{page.name}: {name}"


def test_every_command_has_a_section() -> None:
    """The page about the command line describes each command."""
    page = (REPOSITORY / "docs" / "cli.md").read_text("utf-8")

    for name in words_by_command():
        assert f"## holdfast {name}" in page


COMMAND = re.compile(r"(?<![\w./-])holdfast ([a-z]+)((?:[^\S\n][^`\n|]*)?)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def test_every_command_of_the_docs_has_the_options_that_it_is_given() -> None:
    """In fences and in the running text, those behind the figures of the README included.

    A command that is run through another (`wrap`) has options of its own.
    """
    options = {name: found.options for name, found in words_by_command().items()}
    wrong, seen = [], set()
    for page in PAGES:
        for code in re.findall(r"```.*?```|`[^`\n]+`", page.read_text("utf-8"), re.DOTALL):
            for name, rest in COMMAND.findall(code):
                if name == "wrap" or name not in options:
                    continue
                given = set(OPTION.findall(re.sub(r'"[^"]*"', "", rest)))
                seen |= {(name, option) for option in given}
                unknown = given - set(options[name]) - {"--help", "--version"}
                wrong += [(page.name, name, option) for option in sorted(unknown)]
    assert wrong == []
    assert ("simulate", "--idle") in seen
    assert ("simulate", "--calls") in seen


def test_every_figure_of_the_readme_has_its_command() -> None:
    """The page behind the picture names a command of the product that shows the same figures."""
    page = (REPOSITORY / "docs" / "benchmarks" / "policies.md").read_text("utf-8")
    (command,) = re.findall(r"`(holdfast simulate [^`]+)`", page)
    for figure in ("--window 200k", "--static 18k", "--output 0", "--calls 40", "compact,holdfast"):
        assert figure in command
    assert "200k window" in (REPOSITORY / "README.md").read_text("utf-8")


def test_every_target_of_make_that_is_named_is_there() -> None:
    """In the docs, and in the workflows of public CI, which build the site and check it."""
    known = set(
        re.findall(r"^([a-z][a-z-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    )
    workflows = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
    named: dict[str, str] = {}
    for page in (*PAGES, REPOSITORY / "CONTRIBUTING.md", *workflows):
        text = page.read_text("utf-8")
        found = re.findall(
            r"`make ([a-z][a-z-]*)|^make ([a-z][a-z-]*)|run: make ([a-z-]+)", text, re.M
        )
        named |= {"".join(groups): page.name for groups in found}
    assert {name: page for name, page in named.items() if name not in known} == {}
    run = "\n".join(page.read_text("utf-8") for page in workflows)
    for target in ("test", "nightly", "package", "pyright", "site", "site-check"):
        assert f"run: make {target}\n" in run


def test_every_variable_is_described() -> None:
    """The environment variables that are read are in the docs and in the table of config.py."""
    source = inspect.getsource(config)
    read = set(re.findall(r'environ\.get\("([A-Z_]+)"', source)) - {"TERM"}

    ours = {
        f"HOLDFAST_{name}" for name in ("ROOT", "BLOBS", "AGENT", "MODEL", "EMBEDDER", "SECRETS")
    }
    assert read == {*ours, "FASTEMBED_CACHE_PATH", "NO_COLOR", "TELEGRAM_BOT_TOKEN", "TZ"}
    assert all(f"`{name}`" in text_of_docs() for name in read)
    assert all(f"`{name}`" in (config.__doc__ or "") for name in read)


def test_every_error_is_described_and_drawn() -> None:
    """Each exception is in the tree of errors.py, and each public one in the docs."""
    raised = [
        name
        for name, one in vars(errors).items()
        if inspect.isclass(one) and issubclass(one, errors.HoldfastError)
    ]

    assert len(raised) > 10
    for name in raised:
        assert name not in errors.__all__ or f"`{name}`" in text_of_docs(), name
        assert name in (errors.__doc__ or ""), name


def test_every_record_type_and_finding_is_described() -> None:
    """The format page lists the record types, the durability page the kinds of damage."""
    format_page = (REPOSITORY / "docs" / "format.md").read_text("utf-8")
    durability_page = (REPOSITORY / "docs" / "durability.md").read_text("utf-8")

    assert all(f"| `{kind}` |" in format_page for kind in BY_TYPE)
    assert all(f"`{kind}`" in durability_page for kind in damage.MEANING)


def test_every_field_that_a_feature_adds_is_described() -> None:
    """Constants whose docstring calls them a field or a type of records are on the format page."""
    format_page = (REPOSITORY / "docs" / "format.md").read_text("utf-8")
    stated = re.compile(r'^\w+: Final = "(\w+)"\n"""The (?:field|type) of ', re.MULTILINE)
    shipped = [
        path
        for path in (REPOSITORY / "src" / "holdfast").rglob("*.py")
        if "testing" not in path.parts  # its fields number the appends of a crash test
    ]
    names = {name for path in shipped for name in stated.findall(path.read_text("utf-8"))}

    assert len(names) > 10
    assert {name for name in names if f"`{name}`" not in format_page} == set()


def test_the_page_of_defaults_has_the_values_of_the_policies() -> None:
    """Each threshold is a row with the value of each named policy; 1 stands for never."""
    page = (REPOSITORY / "docs" / "defaults.md").read_text("utf-8")
    rows = re.findall(
        r"^\| `(\w+)` \| ([\d.]+)[^|]*\| ([\d.]+)[^|]*\| ([\d.]+)", page, re.MULTILINE
    )
    stated = {name: tuple(map(float, values)) for name, *values in rows}
    names = ("thrifty", "balanced", "faithful")
    thresholds = [name for name in Policy.__struct_fields__ if name not in ("allow", "deny")]
    assert len(thresholds) <= 6
    assert stated == {
        name: tuple(float(getattr(POLICIES[policy], name)) for policy in names)
        for name in thresholds
    }

"""The test of a module is found by its path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import holdfast

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKAGE = Path(holdfast.__file__).parent
TESTS = Path(__file__).parent

OTHER_FOLDERS = frozenset(
    (
        "corpus",  # logs of every format version, read by stores/test_corpus.py
        "doors",  # what every door offers, held by surfaces/test_goldens.py
        "lives",  # random lives of every surface against an enforcing provider
        "simulation",  # crashes and kills over stores and engine together
        "support",  # what tests share
        "typing",  # a user's program, for type checkers
    )
)
"""Folders that mirror no package, each with its reason."""

ACROSS = frozenset(
    (
        *("test_architecture", "test_docs", "test_examples", "test_layout", "test_public_api"),
        *("test_startup", "test_closed_unions", "test_names", "test_promises", "test_linear"),
        *("test_clocks", "test_declared_types", "test_unhashable", "test_word_lists"),
        *("test_demo_postgres", "test_site", "test_contributing", "test_deploy", "test_newest"),
        *("test_typescript_client", "test_glossary"),
        *("engine/test_every_prefix", "engine/test_output_attacks", "engine/test_stranger"),
        *("engine/test_owners", "engine/test_whose", "engine/memory/test_superseded_hits"),
        "engine/simulation/test_played_once",
        *("engine/session/test_asking", "engine/session/test_local_weights"),
        *("engine/session/test_offloading", "engine/session/test_reports"),
        *("engine/session/test_note_sources", "engine/session/test_unknown_blocks"),
        *("engine/session/test_real_checkpoints", "engine/session/test_real_clients"),
        *("engine/session/test_secret_handles", "engine/session/test_surface"),
        *("engine/session/test_refused_content", "engine/session/test_refused_words"),
        *("engine/session/test_refused_anything", "integrations/test_refused_media"),
        "importers/test_fields",
        *("importers/test_detection", "importers/test_real_transcripts"),
        *("core/narrative/test_renamed_tools", "core/projection/test_opaque_compactions"),
        "core/projection/test_data_uris",
        "surfaces/test_facts_agree",
        *("surfaces/test_goldens", "surfaces/test_declared_once"),
        *("importers/test_same_conversation", "importers/agents/test_trees"),
        *("importers/agents/test_compactions", "engine/session/test_sent"),
        *("integrations/test_real_agents", "integrations/test_outside_suites"),
        "integrations/test_proxy_clients",
        "integrations/test_first_requests",
        *(
            "integrations/test_round_trips",
            "integrations/test_appends",
            "integrations/test_approvals",
        ),
        *("integrations/test_foreign_records", "integrations/test_shared_sessions"),
        "integrations/test_lives",
        *("importers/apis/test_lists_of_messages", "importers/test_runs_and_dialogues"),
        *("stores/test_conformance", "stores/test_corpus", "stores/test_safety"),
        *("stores/test_power_cut", "stores/test_read_errors"),
        "stores/test_damage",
        "stores/test_first_release",
        *("stores/jsonl/test_bounded_memory", "stores/jsonl/test_damaged_logs"),
        *("stores/jsonl/test_faulty_disk", "stores/jsonl/test_headers"),
        "stores/jsonl/test_many_writers",
        *(
            "surfaces/test_leaks",
            "surfaces/test_memory_audit",
            "surfaces/test_owners_commands",
            "surfaces/test_any_log",
            "surfaces/test_every_number",
            "surfaces/test_every_store",
            "surfaces/test_parity",
            "surfaces/cli/test_cli",
            "surfaces/cli/chat/test_terminal",
            "surfaces/console/test_browser",
            "surfaces/mcp/test_conformance",
            *("surfaces/proxy/test_faults", "surfaces/proxy/test_kills"),
            "surfaces/proxy/test_gemini_clients",
            *("surfaces/http/test_owners", "surfaces/http/test_bad_input"),
            *("surfaces/http/test_kills", "surfaces/http/test_schema"),
            "surfaces/http/test_budgets",
        ),
    )
)
"""Tests of what several modules of their folder do together."""


def folders_without_package(folders: Iterable[str], packages: frozenset[str]) -> list[str]:
    return sorted(
        folder
        for folder in folders
        if folder not in packages and folder.split("/")[0] not in OTHER_FOLDERS
    )


def names_without_module(tests: Iterable[str], modules: frozenset[str]) -> list[str]:
    """Tests that are named neither `test_MODULE` nor `test_MODULE_ASPECT` in its package."""
    return sorted(test for test in tests if not modules & set(modules_named_by(test)))


def modules_named_by(test: str) -> list[str]:
    """Modules that a test may be about: `a/test_b_c` is about `a/b_c` or about `a/b`."""
    folder, _, name = test.rpartition("/")
    words = name.removeprefix("test_").split("_")
    prefix = f"{folder}/" if folder else ""
    return [prefix + "_".join(words[:count]) for count in range(1, len(words) + 1)]


def relative(root: Path, paths: Iterable[Path]) -> frozenset[str]:
    names = (path.relative_to(root).with_suffix("") for path in paths)
    return frozenset(name.as_posix() for name in names if "__pycache__" not in name.parts)


PACKAGES = relative(PACKAGE, (path for path in PACKAGE.rglob("*") if path.is_dir()))
MODULES = relative(PACKAGE, PACKAGE.rglob("*.py")) | PACKAGES
FOLDERS = relative(TESTS, (path for path in TESTS.rglob("*") if path.is_dir()))
NAMES = frozenset(
    name
    for name in relative(TESTS, TESTS.rglob("test_*.py"))
    if name.split("/")[0] not in OTHER_FOLDERS
)


def test_every_folder_is_a_package() -> None:
    """`tests/a/b/` is about `holdfast/a/b/`."""
    assert folders_without_package(FOLDERS, PACKAGES) == []


def test_every_test_is_named_after_its_module() -> None:
    """Or it is listed here as a test of several; a name that is no longer needed goes."""
    assert names_without_module(NAMES - ACROSS, MODULES) == []
    assert sorted(ACROSS - NAMES) == [], "listed, but not there"
    assert sorted(ACROSS - set(names_without_module(ACROSS, MODULES))) == [], "listed needlessly"


def test_misplaced_tests_are_seen() -> None:
    """The checks above see a folder and a file in the wrong place."""
    packages, modules = frozenset({"core", "core/log"}), frozenset({"core/log/tree", "core/log"})
    assert folders_without_package(["core", "core/lag", "support"], packages) == ["core/lag"]
    found = names_without_module(
        ["core/log/test_tree", "core/log/test_tree_depth", "core/test_log", "core/test_tree"],
        modules,
    )
    assert found == ["core/test_tree"]

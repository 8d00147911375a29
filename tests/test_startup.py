"""What starting costs, counted in modules and patterns rather than in milliseconds."""

from __future__ import annotations

import subprocess
import sys

_IMPORT_ALL = """
import importlib, pkgutil, re, sys
compiled = []
compile_pattern = re._compiler.compile

def spy(pattern, flags=0):
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] in ("re", "functools", "holdfast.core.text.lazy_pattern"):
        frame = frame.f_back
    if frame.f_globals["__name__"].startswith("holdfast"):
        compiled.append(f"{frame.f_globals['__name__']}:{frame.f_lineno}")
    return compile_pattern(pattern, flags)

re._compiler.compile = spy
import holdfast
for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def _output(script: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return run.stdout


def test_no_pattern_is_compiled_at_import() -> None:
    assert _output(_IMPORT_ALL + "print(*compiled, sep='\\n')").split() == []


def test_the_spy_sees_a_pattern_that_is_used() -> None:
    use = "from holdfast.core.log import ids; ids.check_record_id('a'); print(*compiled)"
    assert _output(_IMPORT_ALL + use).startswith("holdfast.core.log.ids:")


def test_every_declared_pattern_compiles() -> None:
    """A pattern that is compiled late must not fail late."""
    count = """
import gc
patterns = [found for found in gc.get_objects() if type(found).__name__ == "_LazyPattern"]
print(len([pattern.search for pattern in patterns]))
"""
    assert int(_output(_IMPORT_ALL + count)) > 200

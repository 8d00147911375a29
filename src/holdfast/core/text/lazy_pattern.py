"""Regular expressions that are compiled when they are first used.

The modules declare hundreds of patterns, and one process uses few of them. Compiling all of them
at import cost more than everything else that `import holdfast` does.
"""

import re
from functools import cached_property
from typing import Any, AnyStr, cast


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a stand-in for `re.compile(pattern, flags)` that compiles on first use.

    It has the attributes and methods of the compiled pattern, at the same speed after the first
    use. It is no instance of `re.Pattern`: call its methods, not the functions of `re`.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    @cached_property
    def _compile(self) -> re.Pattern[Any]:
        return re.compile(self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `copy` and `pickle` probe for these on an empty instance
            raise AttributeError(name)
        value = getattr(self._compile, name)
        setattr(self, name, value)
        return value

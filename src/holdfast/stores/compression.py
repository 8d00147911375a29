"""Zstandard, from the standard library where it has it.

Imported by the functions that need it: most processes neither write nor read a blob.
"""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]

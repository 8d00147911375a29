"""Stands in for Kingfisher in processes that tests start, as if it were not installed.

It takes 0.7 s of CPU to load its rules, in every process. The tests themselves use the real one,
and so do the processes of the nightly run.
"""

raise ImportError("left out of processes that tests start; see tests/support/processes.py")

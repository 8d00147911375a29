"""Blocking calls of a store, awaited."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.integrations.common.home import read_in_thread, write_in_thread


def test_calls_run_in_other_threads() -> None:
    async def main() -> None:
        here = threading.get_ident()
        assert await read_in_thread(threading.get_ident) != here
        assert await write_in_thread(threading.get_ident) != here

    asyncio.run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_cancelled_write_ends_first_and_says_what_became_of_it(fails: bool) -> None:
    async def main() -> None:
        begun, go_on = threading.Event(), threading.Event()
        done = []

        def write() -> None:
            begun.set()
            go_on.wait(60)
            if fails:
                raise OSError("the disk is full")
            done.append(1)

        task = asyncio.create_task(write_in_thread(write))
        await asyncio.to_thread(begun.wait, 60)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        assert done == ([] if fails else [1])
        (note,) = cancelled.value.__notes__
        assert note == (
            "the write failed, and stored nothing: the disk is full"
            if fails
            else "the write was committed"
        )

    asyncio.run(main())

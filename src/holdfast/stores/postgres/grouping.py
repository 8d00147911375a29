"""Group commit: appends that wait at the same time share one transaction, and so one flush.

No append waits for others to come. The first ones are sent alone; those that come while they are
under way are sent together afterwards, by one of their threads. Each has its own answer. Where the
server ends the transaction, nothing of it was stored, and each append is sent again by itself: so
one that fails does not take others with it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    Parameters = tuple[Any, ...]
    Row = tuple[Any, ...]

GROUP_MAX: Final = 128
"""Appends in one transaction: it holds the locks of their sessions until it is done."""

LEADERS_MAX: Final = 2
"""Transactions under way at once: while one waits for its flush, the next is prepared."""

SendGroup = Callable[["Sequence[Parameters]"], "list[Row]"]
"""Runs statements in one transaction, and returns the answer of each."""


class _Waiting:
    """An append that waits for its answer, or for its turn to send."""

    def __init__(self, order: Any, parameters: Parameters) -> None:
        self.order = order
        self.parameters = parameters
        self.wake: threading.Event | None = None
        """Set where it does not lead from the start."""
        self.answer: Row | None = None
        self.error: BaseException = InterruptedError("the thread that sends was interrupted")
        self.is_alone = False
        self.is_leader = False


class GroupCommit:
    """Sends the appends of many threads."""

    def __init__(self, send: SendGroup) -> None:
        self._send = send
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._leaders = 0

    def run(self, order: Any, parameters: Parameters) -> Row | BaseException:
        """Return the answer to an append; or what went wrong when it was sent with others, so that
        it must be sent by itself.

        `order` is the place of its lock: transactions take locks in one order, so that none waits
        for another that waits for it. Raises what went wrong when it was sent alone.
        """
        if self._pid != os.getpid():
            self._reset()  # what waited in a parent process is sent there
        mine = _Waiting(order, parameters)
        with self._mutex:
            self._queue.append(mine)
            mine.is_leader = self._leaders < LEADERS_MAX
            self._leaders += mine.is_leader
            if not mine.is_leader:
                mine.wake = threading.Event()
        if mine.wake is not None:
            self._wait(mine, mine.wake)
        if mine.is_leader:
            self._lead(mine)
        if mine.answer is not None:
            return mine.answer
        if mine.is_alone:
            raise mine.error
        return mine.error

    def _wait(self, mine: _Waiting, wake: threading.Event) -> None:
        try:
            wake.wait()
        except BaseException:  # interrupted: nobody waits for a leader that has gone
            with self._mutex:
                if mine in self._queue:
                    self._queue.remove(mine)
            if mine.is_leader:
                self._hand_over()
            raise

    def _lead(self, mine: _Waiting) -> None:
        """Send everything that waits, then let the next one lead."""
        with self._mutex:
            others = [item for item in self._queue if item is not mine and not item.is_leader]
            group = [mine, *others[: GROUP_MAX - 1]]
            taken = set(map(id, group))
            self._queue = deque(item for item in self._queue if id(item) not in taken)
        group.sort(key=lambda waiting: waiting.order)  # stable: one session's keep their order
        try:
            answers = self._send([waiting.parameters for waiting in group])
            for waiting, answer in zip(group, answers, strict=True):
                waiting.answer = answer
        except Exception as error:
            mine.is_alone = len(group) == 1
            for waiting in group:
                waiting.error = error
        finally:
            for waiting in group:
                if waiting is not mine and waiting.wake is not None:
                    waiting.wake.set()
            self._hand_over()

    def _hand_over(self) -> None:
        with self._mutex:
            following = next((item for item in self._queue if not item.is_leader), None)
            if following is None:
                self._leaders -= 1
                return
            following.is_leader = True
        if following.wake is not None:
            following.wake.set()

"""Says where applications are, if loading them takes long: a call that blocks stops all of them."""

import _thread
import sys
import time
from types import FrameType

from . import blame

# SECONDS is after how long a load that blocks is reported, WORKING_SECONDS one that computes.
SECONDS, WORKING_SECONDS = 5, 30
# IDLE_SECONDS of processor time in a second: a thread that uses less is blocked.
IDLE_SECONDS = 0.01

_start, _sleep, _frames, _used = _thread.start_new_thread, time.sleep, sys._current_frames, time.process_time
_ident = _thread.get_ident


class Watched:
    """Watches the thread that makes it, until done() is called."""

    def __init__(self) -> None:
        self._thread = _ident()
        self._done = False
        _start(self._watch, ())

    def done(self) -> None:
        self._done = True

    def _watch(self) -> None:
        _sleep(SECONDS - 1)
        for seconds in range(SECONDS, WORKING_SECONDS + 1):
            before = _used()
            _sleep(1)
            if self._done:
                return
            if _used() - before < IDLE_SECONDS or seconds == WORKING_SECONDS:
                told = report(_frames().get(self._thread), seconds)
                print(f"holdfast_ryu warns: {told}", file=sys.__stderr__, flush=True)
                return


def report(frame: FrameType | None, seconds: int) -> str:
    """One line about a frame that has taken long."""
    while frame is not None and not blame.theirs(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return f"the applications have been loading for {seconds} s"
    code = frame.f_code
    return (
        f"{code.co_filename}, line {frame.f_lineno}, in {code.co_name}: the applications have been loading for"
        f" {seconds} s, and this call has not returned: one that waits belongs in a green thread (hub.spawn)"
    )

"""When results are written."""

from typing import Any, cast

import pytest

from holdfast_ryu import session, wire


class Written:
    """In place of a connection: the numbers of the results of each frame."""

    def __init__(self) -> None:
        self.frames: list[list[int]] = []

    def write(self, frame: bytes) -> None:
        self.frames.append([result.number for result in wire.decode_results(frame[5:])])


def test_results_of_a_slow_application_do_not_wait_for_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(session, "_real_time", lambda: now)

    def execute(entry: wire.Input) -> wire.Result:
        nonlocal now
        now += 0.2
        return wire.Result(entry.number, None, [], [], [], [])

    written = Written()
    batch = [wire.Input(number, 0, wire.Tick()) for number in range(1, 8)]
    session.answer(cast(Any, written), batch, execute)
    assert written.frames == [[1, 2, 3], [4, 5, 6], [7]]

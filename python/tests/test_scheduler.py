"""Green threads and what hub makes of them, in virtual time."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast_ryu import hub
from holdfast_ryu.clock import clock
from holdfast_ryu.scheduler import YIELDS, Foreign, scheduler

SECOND = 10**9


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Collects what threads raise; at the end of a test none is left."""
    raised: list[Any] = []
    monkeypatch.setattr(scheduler, "failed", lambda _, error: raised.append(error))
    yield raised
    for thread in list(scheduler.threads):
        thread.kill()
    scheduler.run()
    assert not scheduler.threads


def passes(seconds: float) -> None:
    """An input after so many seconds."""
    scheduler.input += 1
    clock.advance(clock.now_ns + round(seconds * SECOND))
    scheduler.ring()
    scheduler.run()


def started(*functions: Callable[[], Any]) -> list[Any]:
    threads = [hub.spawn(function) for function in functions]
    scheduler.run()
    return threads


def test_first_come_first_served() -> None:
    order: list[int] = []

    def work(number: int) -> None:
        for _ in range(2):
            order.append(number)
            hub.sleep(0)

    for number in range(3):
        hub.spawn(work, number)
    scheduler.run()
    assert order == [0, 1, 2, 0, 1, 2]


def test_sleepers_wake_by_time_then_by_age() -> None:
    order: list[str] = []
    hub.spawn_after(2, order.append, "late")
    hub.spawn_after(1, order.append, "first")
    hub.spawn_after(1, order.append, "second")
    assert scheduler.next_ns() == clock.now_ns + SECOND
    passes(0.5)
    assert order == []
    passes(2)
    assert order == ["first", "second", "late"]


def test_who_polls_waits_for_time() -> None:
    polls = 0

    def poll() -> None:
        nonlocal polls
        while True:
            polls += 1
            hub.sleep(0)

    started(poll)
    assert polls == YIELDS + 1, "else the input would never end"
    passes(1)
    assert polls == 2 * (YIELDS + 1)


@pytest.mark.parametrize("bound", [None, 0, 2])
def test_queue(bound: int | None) -> None:
    queue = hub.Queue(bound)
    got: list[int] = []

    def produce() -> None:
        for number in range(10):
            queue.put(number)

    def consume() -> None:
        while len(got) < 10:
            got.append(queue.get())

    started(produce)
    assert queue.qsize() == (bound or 10)
    assert queue.full() == bool(bound)
    started(consume)
    assert got == list(range(10)) and queue.empty()
    with pytest.raises(hub.QueueEmpty):
        queue.get_nowait()


def test_waits_that_time_out() -> None:
    ended: list[Any] = []

    def get() -> None:
        try:
            hub.Queue().get(timeout=1)
        except hub.QueueEmpty:
            ended.append("queue")

    full = hub.Queue(1)
    full.put(1)

    def put() -> None:
        try:
            full.put(2, timeout=1)
        except hub.QueueFull:
            ended.append("full")

    def acquire() -> None:
        ended.append(hub.Semaphore(0).acquire(timeout=1))

    def event() -> None:
        ended.append(hub.Event().wait(timeout=1))

    started(get, put, acquire, event)
    assert ended == []
    passes(1)
    assert ended == ["queue", "full", False, False]
    assert scheduler.next_ns() is None


def test_event_is_for_all_and_a_timeout_in_time_for_nobody() -> None:
    event = hub.Event()
    seen: list[bool] = []
    started(*[lambda: seen.append(event.wait(5))] * 3)
    passes(1)
    event.set()
    scheduler.run()
    assert seen == [True] * 3 and event.is_set()
    event.clear()
    passes(10)
    assert seen == [True] * 3 and not event.is_set()


def test_semaphore_is_handed_on() -> None:
    semaphore = hub.BoundedSemaphore(1)
    order: list[int] = []

    def work(number: int) -> None:
        with semaphore:
            order.append(number)
            hub.sleep(1)

    for number in range(3):
        hub.spawn(work, number)
    scheduler.run()
    assert order == [0] and semaphore.locked() and not semaphore.acquire(blocking=False)
    passes(1)
    passes(1)
    assert order == [0, 1, 2]
    passes(1)
    with pytest.raises(ValueError):
        semaphore.release()


def test_timeout_block(fresh: list[Any]) -> None:
    seen: list[str] = []

    def own() -> None:
        try:
            with hub.Timeout(1):
                hub.sleep(5)
        except hub.Timeout as error:
            seen.append(f"own {error}")

    def silent() -> None:
        with hub.Timeout(1, False):
            hub.sleep(5)
        seen.append("silent")

    def other() -> None:
        with hub.Timeout(1, KeyError("late")):
            hub.sleep(5)

    def in_time() -> None:
        with hub.Timeout(2):
            hub.sleep(0.5)
        hub.sleep(5)
        seen.append("in time")

    started(own, silent, other, in_time)
    for _ in range(12):
        passes(0.5)
    assert seen == ["own 1 seconds", "silent", "in time"]
    assert [repr(error) for error in fresh] == ["KeyError('late')"]


def test_what_came_is_not_lost_to_a_timeout(fresh: list[Any]) -> None:
    queue = hub.Queue()
    got: list[Any] = []

    def consume() -> None:
        with hub.Timeout(1, False):
            got.append(queue.get())
            got.append(queue.get())

    started(consume)
    hub.spawn_after(1, queue.put, "just in time")
    passes(2)  # the timeout is older, and so rings first: it wins
    assert got == [] and queue.qsize() == 1
    started(consume)
    queue.put("again")
    clock.advance(clock.now_ns + SECOND)
    scheduler.ring()
    scheduler.run()
    assert got == ["just in time", "again"] and not fresh


def test_kill_and_join(fresh: list[Any]) -> None:
    seen: list[str] = []

    def sleeper() -> str:
        try:
            hub.sleep(100)
        finally:
            seen.append("killed")
        return "never"

    (sleeping,) = started(sleeper)
    unborn = hub.spawn(seen.append, "unborn")
    later = hub.spawn_after(1, seen.append, "later")
    done = hub.spawn(lambda: "value")
    done.link(lambda thread: seen.append(thread.value))
    hub.spawn(lambda: (hub.joinall([sleeping, unborn, later, done]), seen.append("joined")))
    unborn.kill()
    hub.kill(sleeping)
    later.cancel()
    later.cancel()
    scheduler.run()
    assert seen == ["value", "killed", "joined"] or seen == ["killed", "value", "joined"]
    passes(5)
    assert "later" not in seen and not fresh
    assert done.wait() == "value" and done.dead and not done.is_alive()


def test_callback_that_raises_is_a_failure(fresh: list[Any]) -> None:
    told: list[Any] = []
    done = hub.spawn(lambda: None)
    done.link(lambda _: 1 / 0)
    done.link(told.append)
    scheduler.run()
    assert told == [done] and [type(error) for error in fresh] == [ZeroDivisionError]
    fresh.clear()


def test_hub_event() -> None:
    event = hub.HubEvent()
    seen: list[Any] = []
    started(lambda: seen.append(event.wait()), lambda: seen.append(event.wait()))
    event.send("news")
    scheduler.run()
    assert seen == ["news"] * 2 and event.ready()


def test_waiting_is_for_green_threads() -> None:
    with pytest.raises(Foreign):
        hub.sleep(1)
    raised: list[Exception] = []

    def foreign() -> None:
        hub.sleep(0.001)  # really
        try:
            hub.Queue().get()
        except Foreign as error:
            raised.append(error)

    thread = threading.Thread(target=foreign)
    thread.start()
    thread.join()
    assert len(raised) == 1


def test_cancelled_timers_are_forgotten() -> None:
    event = hub.Event()
    event.set()

    def wait() -> None:
        for _ in range(10_000):
            with hub.Timeout(3600):
                event.wait()

    started(wait)
    assert len(scheduler._timers) <= 1_024


def test_sockets_are_refused() -> None:
    for call in (hub.listen, hub.connect, hub.StreamServer, hub.StreamClient):
        with pytest.raises(hub.NoSocket, match="not in the log"):
            call(("127.0.0.1", 0))


def test_clock_moves_with_each_reading() -> None:
    one, other = clock.read(), clock.read()
    assert other == one + 1_000
    clock.advance(one)
    assert clock.now_ns == other, "never back"

"""Green threads in virtual time, in an order that inputs alone decide.

The greenlet of the host calls run(), which returns when every thread waits: that an input is done is
this plain fact. Threads are resumed first come, first served; timers by time, then by age.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from .clock import Clock, clock

# THREADS bounds the green threads alive: an application that starts more than it ends fails.
THREADS = 65_536
# YIELDS is how often a thread may yield within one input. One that polls, with sleep(0) in a loop, then
# waits for virtual time, so that the input ends.
YIELDS = 1_000
YIELD_SECONDS = 0.001
# FOREIGN owns what threads of the operating system send.
FOREIGN = "?"
# FOREVER_SECONDS is the longest that a timer runs; a wait without end is one of years.
FOREVER_SECONDS = 3e8


class Foreign(RuntimeError):
    """A wait by something that is not a green thread: an operating system's thread of an application."""


class Timer:
    """A callback at a virtual time."""

    __slots__ = ("callback", "due_ns")

    def __init__(self, due_ns: int, callback: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class GreenThread(greenlet):  # type: ignore[misc]  # of C
    """A thread of an application; its owner answers for what it sends and raises.

    Its __dict__ has what applications set.
    """

    __slots__ = (
        "scheduler", "owner", "value", "start_timer", "timer", "parked", "resumed", "pending", "yields", "target",
        "arguments", "_serial", "_joiners", "_links",
    )

    def __init__(
        self, scheduler: "Scheduler", function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        super().__init__(parent=scheduler.main)
        self.scheduler = scheduler
        self.owner = scheduler.owner()
        self.value: Any = None
        self.start_timer: Timer | None = None
        self.timer: Timer | None = None  # of the last wait
        self.parked = False
        self.resumed: Any = True  # with what: True, False after a timeout, or an error to raise
        self.pending: BaseException | None = None  # to raise where it waits next
        self.yields = (0, 0)  # in which input, how often
        self._serial = scheduler.serial()
        self.target = function
        self.arguments = (args, kwargs)
        self._joiners: list[GreenThread] = []
        self._links: list[Callable[[], None]] = []

    def __hash__(self) -> int:
        return self._serial  # not the address, which differs from process to process

    def __eq__(self, other: object) -> bool:
        return self is other

    def run(self) -> None:
        args, kwargs = self.arguments
        try:
            if not self.ended:
                self.value = self.target(*args, **kwargs)
        except GreenletExit:
            pass
        except BaseException as error:
            self.scheduler.failed(self.owner, error)
        finally:
            self._end()

    def _end(self) -> None:
        self.scheduler.threads.pop(self, None)
        for joiner in self._joiners:
            self.scheduler.wake(joiner)
        for callback in self._links:
            try:
                callback()
            except BaseException as error:  # else it would end the host
                self.scheduler.failed(self.owner, error)
        self._joiners, self._links = [], []

    @property
    def ended(self) -> bool:
        return self not in self.scheduler.threads

    @property
    def awaited(self) -> bool:
        """Whether something is to be told of its end."""
        return bool(self._joiners or self._links)

    def is_alive(self) -> bool:
        return not self.ended

    def wait(self, timeout: float | None = None) -> Any:
        """Waits for the thread's end and returns what its function did."""
        if not self.ended:
            waiting = self.scheduler.current()
            self._joiners.append(waiting)
            try:
                self.scheduler.park(timeout)
            finally:
                if waiting in self._joiners:
                    self._joiners.remove(waiting)
        return self.value

    join = wait

    def link(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Calls function with the thread, when it has ended."""
        if self.ended:
            function(self, *args, **kwargs)
        else:
            self._links.append(lambda: function(self, *args, **kwargs))

    def cancel(self) -> None:
        """Ends the thread if it has not begun."""
        if not self:
            self.kill()

    def kill(self, *_: Any) -> None:
        """Raises GreenletExit in the thread; one that has not begun never will."""
        if self.ended:
            return
        if self is getcurrent():
            raise GreenletExit
        if self:
            self.scheduler.throw(self, GreenletExit())
            return
        if self.start_timer is not None:
            self.start_timer.cancel()
        self._end()


class Scheduler:
    """All green threads of the process."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.main = getcurrent()
        self.threads: dict[GreenThread, None] = {}
        self.input = 0
        self.failed: Callable[[str, BaseException], None] = lambda _owner, error: None
        self._ready: deque[GreenThread] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._prune_at = 1_024
        self._abandoned: dict[GreenThread, None] = {}
        self.last_serial = 0

    def serial(self) -> int:
        """A number that no other call gets, the same in every process."""
        self.last_serial += 1
        return self.last_serial

    def owner(self) -> str:
        """The application on whose behalf code runs now.

        "" in the host itself, FOREIGN in a thread of the operating system.
        """
        current = getcurrent()
        if type(current) is GreenThread:
            return current.owner
        return "" if current is self.main else FOREIGN

    def current(self) -> GreenThread:
        current = getcurrent()
        if type(current) is not GreenThread:
            raise Foreign(
                "only a green thread can wait here: start it with hub.spawn, not as a thread of the operating system"
            )
        return current

    def spawn(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> GreenThread:
        thread = self._add(function, args, kwargs)
        self._ready.append(thread)
        return thread

    def spawn_after(self, seconds: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> GreenThread:
        thread = self._add(function, args, kwargs)
        thread.start_timer = self.after(seconds, lambda: self._ready.append(thread))
        return thread

    def _add(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> GreenThread:
        if len(self.threads) >= THREADS:
            raise RuntimeError(f"{THREADS} green threads are alive: an application starts them without end")
        thread = GreenThread(self, function, args, kwargs)
        self.threads[thread] = None
        return thread

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Calls back when seconds have passed: by a later input, never by this one."""
        if len(self._timers) >= self._prune_at:
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._prune_at = max(1_024, 2 * len(self._timers))
        timer = Timer(self.clock.now_ns + max(1, round(min(seconds, FOREVER_SECONDS) * 1e9)), callback)
        heapq.heappush(self._timers, (timer.due_ns, self.serial(), timer))
        return timer

    def park(self, timeout: float | None = None) -> bool:
        """Suspends the current thread until it is woken, or timeout seconds have passed: then False."""
        thread = self.current()
        if thread.pending is not None:
            error, thread.pending = thread.pending, None
            raise error
        timer = None
        thread.parked = True
        if timeout is not None:
            if timeout > 0 or self._polls(thread):
                timer = self.after(timeout if timeout > 0 else YIELD_SECONDS, lambda: self.wake(thread, False))
            else:
                self.wake(thread, False)
        thread.timer = timer
        self.main.switch()
        if timer is not None:
            timer.callback = None
        resumed = thread.resumed
        if isinstance(resumed, BaseException):
            raise resumed
        return bool(resumed)

    def _polls(self, thread: GreenThread) -> bool:
        which, count = thread.yields
        thread.yields = (self.input, count + 1 if which == self.input else 1)
        return thread.yields[1] > YIELDS

    def wake(self, thread: GreenThread, value: bool = True) -> None:
        """Makes a parked thread ready to run; one that is ready gets no second wake."""
        if thread.parked:
            thread.parked = False
            thread.resumed = value
            self._ready.append(thread)

    def throw(self, thread: GreenThread, error: BaseException) -> None:
        """Raises error where the thread waits.

        A thread that is ready first gets what it waited for. The error is raised where it waits next.
        """
        if thread.parked:
            thread.parked = False
            thread.resumed = error
            self._ready.append(thread)
        else:
            thread.pending = error

    def run(self) -> None:
        """Runs threads until all of them wait. Only the host calls it."""
        ready = self._ready
        while ready:
            thread = ready.popleft()
            if not thread.dead:
                thread.switch()

    def ring(self) -> None:
        """Calls back whatever is due; what that starts runs with run()."""
        now_ns = self.clock.now_ns
        due = []
        while self._timers and self._timers[0][0] <= now_ns:
            due.append(heapq.heappop(self._timers)[2])
        for timer in due:
            if timer.callback is not None:
                timer.callback()

    def abandon(self, keep: Iterable[GreenThread]) -> None:
        """Forgets all threads but those to keep, and all timers."""
        self._ready.clear()
        self._timers.clear()
        self._abandoned = self.threads  # a thread that nobody refers to would run on, to its end
        self.threads = dict.fromkeys(keep)

    def due(self, thread: GreenThread) -> tuple[int, int] | None:
        """When a thread that waits is woken by time, and the number of that timer."""
        return next(((at_ns, serial) for at_ns, serial, timer in self._timers if timer is thread.timer), None)

    def set_due(self, threads: dict[GreenThread, tuple[int, int] | None]) -> None:
        """Gives threads that wait the times and numbers that due() has returned, and forgets all other timers."""
        self._timers = []
        for thread, due in threads.items():
            if thread.timer is not None and due is not None:
                thread.timer.due_ns = due[0]
                heapq.heappush(self._timers, (*due, thread.timer))

    def running_timers(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def next_ns(self) -> int | None:
        """When the next timer is due."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None


scheduler = Scheduler(clock)

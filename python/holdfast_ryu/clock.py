"""Virtual time: it moves when an input is executed, and by a microsecond with each reading.

Without that microsecond two readings within one input would be equal, and applications that divide by
what lies between them, or wait for the clock in a loop, would fail as they never do elsewhere.
"""

READING_NS = 1_000


class Clock:
    """Nanoseconds since 1970, never going back."""

    __slots__ = ("now_ns", "start_ns")

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns
        self.start_ns = now_ns

    def begin(self, now_ns: int) -> None:
        """Sets where time begins: once, before anything is executed."""
        self.now_ns = self.start_ns = now_ns

    def advance(self, to_ns: int) -> None:
        """Moves time to to_ns, unless it is there already."""
        if to_ns > self.now_ns:
            self.now_ns = to_ns

    def read(self) -> int:
        """What an application gets when it asks for the time of day."""
        self.now_ns += READING_NS
        return self.now_ns

    def read_monotonic(self) -> int:
        """The same, since the beginning."""
        return self.read() - self.start_ns


clock = Clock()

"""What an input brings about: commands, answers, failures, log lines."""

import traceback
from collections.abc import Callable
from typing import NamedTuple

# COMMANDS and COMMAND_BYTES bound what one application sends because of one input; beyond, it fails.
COMMANDS = 16_384
COMMAND_BYTES = 2 << 20
# LINES bounds the log lines of one input, LINE_CHARS the length of one; a last line tells how many are missing.
LINES = 1_000
LINE_CHARS = 4_096
# FAILURES bounds those of one input that are told, TRACE_CHARS the end of a traceback that is.
FAILURES = 100
TRACE_CHARS = 16_384
# ANSWERS_BYTES bounds the answers of one input, since the result is one frame. Those beyond become refusals.
ANSWERS_BYTES = 32 << 20


class TooMuch(RuntimeError):
    """An application sends or answers more than there is room for."""


class Command(NamedTuple):
    owner: str
    datapath_id: int
    message: bytes


class Answer(NamedTuple):
    request_id: int
    status: int
    headers: list[tuple[str, str]]
    body: bytes


def refusal(request_id: int, status: int, text: str) -> Answer:
    """An answer that is the host's own."""
    return Answer(request_id, status, [("Content-Type", "text/plain; charset=UTF-8")], text.encode())


class Failure(NamedTuple):
    owner: str
    trace: str


class Line(NamedTuple):
    level: int
    logger: str
    text: str


class Taken(NamedTuple):
    """All that one input brought about."""

    commands: list[Command]
    answers: list[Answer]
    failures: list[Failure]
    lines: list[Line]


class Outcome:
    """Of the input that is executed now. The framework and applications add to it, the host takes it."""

    def __init__(self) -> None:
        self.stir: Callable[[], None] = lambda: None  # asks for an input
        self._clear()

    def _clear(self) -> None:
        self._commands: list[Command] = []
        self._settled: list[Command] = []  # no failure drops them any more
        self._sent: dict[str, tuple[int, int]] = {}
        self._failed: set[str] = set()
        self._lost_lines = 0
        self.answers: list[Answer] = []
        self.failures: list[Failure] = []
        self.lines: list[Line] = []

    def send(self, owner: str, datapath_id: int, message: bytes) -> None:
        count, size = self._sent.get(owner, (0, 0))
        count, size = count + 1, size + len(message)
        if count > COMMANDS or size > COMMAND_BYTES:
            raise TooMuch(
                f"{owner} sends {count} messages of {size} bytes in all because of one input: at most {COMMANDS} of"
                f" {COMMAND_BYTES}"
            )
        self._sent[owner] = (count, size)
        self._commands.append(Command(owner, datapath_id, message))

    def fail(self, owner: str, error: BaseException) -> None:
        self._failed.add(owner)
        if len(self.failures) < FAILURES:
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            self.failures.append(Failure(owner, trace[-TRACE_CHARS:]))

    def log(self, level: int, logger: str, text: str) -> None:
        if len(self.lines) < LINES:
            self.lines.append(Line(level, logger, text[:LINE_CHARS]))
        else:
            self._lost_lines += 1

    def settle(self) -> None:
        """Ends what timers have brought about, so that a failure on the input that follows them does not undo it.

        The commands of an application that has failed are dropped.
        """
        self._settled += [command for command in self._commands if command.owner not in self._failed]
        self._commands.clear()
        self._failed.clear()

    def take(self) -> Taken:
        """Ends the input, likewise."""
        self.settle()
        commands, answers, failures, lines = self._settled, _that_fit(self.answers), self.failures, self.lines
        if self._lost_lines:
            lines.append(Line(30, "holdfast", f"{self._lost_lines} more lines of this input were dropped"))
        self._clear()
        return Taken(commands, answers, failures, lines)


def _that_fit(answers: list[Answer]) -> list[Answer]:
    out, left = [], ANSWERS_BYTES
    for answer in answers:
        size = len(answer.body) + sum(len(name) + len(value) for name, value in answer.headers)
        if size > left:
            answer = refusal(answer.request_id, 503, f"the answers of an input have at most {ANSWERS_BYTES} bytes\n")
        else:
            left -= size
        out.append(answer)
    return out


outcome = Outcome()

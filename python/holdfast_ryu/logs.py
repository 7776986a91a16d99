"""Log records and printed lines of applications become lines of the input that caused them."""

import io
import logging
import sys

from .outcome import LINE_CHARS, outcome
from .scheduler import scheduler


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
        except Exception as error:  # arguments that do not fit their format: no reason to fail an input
            text = f"a record that cannot be formatted: {type(error).__name__}"
        outcome.log(record.levelno, record.name, text)


class _Printed(io.TextIOBase):
    """sys.stdout and sys.stderr of applications."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            outcome.log(self._level, scheduler.owner(), line)
        self._rest = self._rest[:LINE_CHARS]
        return len(text)


def install(level: int) -> None:
    """Records what is at least of this level."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # nobody asks which line it was; finding out costs more than all the rest
    root = logging.getLogger()
    root.handlers = [_Handler()]
    root.setLevel(level)
    logging.captureWarnings(True)
    sys.stdout = _Printed(logging.INFO)
    sys.stderr = _Printed(logging.WARNING)

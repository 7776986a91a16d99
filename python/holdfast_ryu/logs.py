"""Log records and printed lines of applications become lines of the input that caused them."""

import io
import logging
import sys
import warnings

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
        self.rest = ""  # a line that is not ended yet

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            outcome.log(self._level, scheduler.owner(), line)
        self.rest = self.rest[:LINE_CHARS]
        return len(text)


_printed = _Printed(logging.INFO), _Printed(logging.WARNING)


def install(level: int) -> None:
    """Records what is at least of this level."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # nobody asks which line it was; finding out costs more than all the rest
    root = logging.getLogger()
    root.handlers = [_Handler()]
    root.setLevel(level)
    logging.captureWarnings(True)
    warnings.simplefilter("always", append=True)  # else what was said once would be state, in every module
    sys.stdout, sys.stderr = _printed


def state() -> tuple[list[str], dict[str, int]]:
    """The printed lines that are not ended yet, and the loggers' levels."""
    loggers = logging.getLogger().manager.loggerDict
    return [printed.rest for printed in _printed], {
        name: logger.level for name, logger in loggers.items() if isinstance(logger, logging.Logger)
    }


def set_state(state: tuple[list[str], dict[str, int]]) -> None:
    rests, levels = state
    for printed, rest in zip(_printed, rests, strict=True):
        printed.rest = rest
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)

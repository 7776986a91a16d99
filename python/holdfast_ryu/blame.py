"""Says why applications cannot be loaded: in one line, and as a traceback without the frames of the framework."""

import os
import sys
import traceback

# _NOT_THEIRS are folders whose frames do not say where an application is wrong.
_NOT_THEIRS = (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.__file__))


class LoadError(RuntimeError):
    """Applications that cannot be hosted. The first line says why."""


def reason(error: BaseException) -> str:
    """Returns one line: the place in the application, the error, and the remedy if it is known."""
    if isinstance(error, LoadError):
        return str(error).strip().split("\n", 1)[0]
    error = _root(error)
    message = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return f"{_place(error)}{type(error).__name__}: {message}{_remedy(error)}"


def trace(error: BaseException) -> str:
    """Returns the traceback. It leaves out frames that are not the application's, unless all of them are."""
    if isinstance(error, LoadError):
        return "" if error.__cause__ is None else trace(error.__cause__)
    error = _root(error)
    told = traceback.TracebackException.from_exception(error)
    stack = [frame for frame in told.stack if theirs(frame.filename)]
    if stack or isinstance(error, SyntaxError):
        told.stack = traceback.StackSummary.from_list(stack)
        told.__cause__ = told.__context__ = None
    return "".join(told.format()).strip()


def _root(error: BaseException) -> BaseException:
    """The framework takes a file with a mistake in its syntax for a module, and finds none."""
    return error.__context__ if isinstance(error.__context__, SyntaxError) else error


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: "
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if theirs(frame.filename):
            where = "" if frame.name == "<module>" else f", in {frame.name}"
            return f"{frame.filename}, line {frame.lineno}{where}: "
    return ""


def theirs(file: str) -> bool:
    """Whether a file is an application's, and not one of a library."""
    path = os.path.abspath(file)
    return not file.startswith("<") and "site-packages" not in path and not path.startswith(_NOT_THEIRS)


def _remedy(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f" (install it for {sys.executable}, or put the folder that has it on PYTHONPATH)"
    return ""

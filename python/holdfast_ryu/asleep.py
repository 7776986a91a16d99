"""Green threads that sleep, as a checkpoint keeps them: where each function on the stack is, and its local variables.

A thread goes on in another process by doing again the line in which each of its functions waits: the function is
called, its variables are set, and it is made to jump to that line, as a debugger does. So the line must begin a
statement and do nothing twice that counts, and no loop or context manager may be open that lives on the stack of the
interpreter (`for`, `with`). Threads that do periodic work, `while True: work(); hub.sleep(10)`, are of that kind.
"""

import ast
import dis
import functools
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import hub
from .scheduler import YIELDS, GreenThread, Scheduler, scheduler

_HOST = __package__.partition(".")[0]
# WAITS are the functions of the host in which a thread may wait, with who calls them.
_WAITS = {Scheduler.park.__code__, hub.sleep.__code__, hub.WSGIServer.serve_forever.__code__}
# _CHANGES begin the names of instructions that a line must not have before it waits.
_CHANGES = ("STORE_", "DELETE_", "IMPORT_", "YIELD_", "SEND", "FOR_ITER")
# _HARMLESS begin the names of functions that a line may call before it waits: they change nothing that is not undone.
_HARMLESS = {"abs", "float", "int", "len", "math", "max", "min", "random", "round", "time"}
_GENERATOR = 0x20 | 0x80 | 0x200  # in co_flags, with coroutines


class Awake(Exception):
    """A thread that cannot be kept, and why, if that is to be added to where it waits."""


class Unfit(RuntimeError):
    """A thread that does not come to where it slept."""


@dataclass
class Frame:
    """A function on the stack: its code by file, name and line, the line in which it waits, and its variables."""

    code: tuple[str, str, int]
    line: int
    variables: dict[str, Any]


@dataclass
class Sleeper:
    """A green thread that sleeps until due_ns, or forever. The outermost function is the first."""

    serial: int
    owner: str
    target: Any
    arguments: tuple[Any, Any]
    frames: list[Frame]
    due: tuple[int, int] | None  # and the number of its timer
    yields: tuple[int, int]
    attributes: dict[str, Any]

    @property
    def where(self) -> str:
        """The innermost function, in the form `function (file:line)`."""
        if not self.frames:
            return "the host"
        file, name, _ = self.frames[-1].code
        return f"{name} ({os.path.basename(file)}:{self.frames[-1].line})"


def _named(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_name, code.co_firstlineno


def keep(thread: GreenThread) -> Sleeper:
    """Describes a thread that sleeps, or raises Awake."""
    if not thread or not thread.parked or thread.pending is not None:
        raise Awake
    if thread.awaited:
        raise Awake(", and another one waits for its end")
    stack = []
    frame = thread.gr_frame
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    while stack and stack[-1].f_globals.get("__name__", "").partition(".")[0] == _HOST:
        if stack[-1].f_code in _WAITS:
            break
        stack.pop()
    while stack and stack[0].f_code in _WAITS:
        stack.pop(0)
    for frame in stack:
        _check(frame)
    frames = [_frame(frame) for frame in reversed(stack)]
    due = scheduler.due(thread)
    return Sleeper(
        hash(thread), thread.owner, thread.target, thread.arguments, frames, due, thread.yields, thread.__dict__
    )


def _frame(frame: types.FrameType) -> Frame:
    code = frame.f_code
    own = {*code.co_varnames, *code.co_cellvars}  # others are of functions around it
    return Frame(_named(code), frame.f_lineno, {name: value for name, value in frame.f_locals.items() if name in own})


def _check(frame: types.FrameType) -> None:
    """Raises Awake unless the function can be made to jump to where it waits."""
    code, at = frame.f_code, frame.f_lasti
    if code.co_flags & _GENERATOR or frame.f_globals.get("__name__", "").partition(".")[0] == _HOST:
        raise Awake
    if frame.f_lineno in _inner_lines(code.co_filename):
        raise Awake(", within a statement of several lines")
    line, called = 0, False
    for instruction in dis.get_instructions(code):
        if instruction.offset >= at:
            break
        if instruction.starts_line:
            line = _line(instruction)
        if instruction.opname == "FOR_ITER" and at < instruction.argval:
            raise Awake(", within `for`")
        if instruction.opname in ("SETUP_WITH", "SETUP_FINALLY") and at < instruction.argval:  # until Python 3.10
            raise Awake(", within `with` or `try`")
        if line == frame.f_lineno and instruction.opname.startswith(_CHANGES):
            raise Awake(", and its line does more before that")
        called = called or line == frame.f_lineno and instruction.opname.startswith("CALL")
    if called and _lines_of_calls(code.co_filename).count(frame.f_lineno) > 1:
        raise Awake(", and its line calls something else before that")
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        if entry.depth and entry.start <= at < entry.end:
            raise Awake(", within `with` or `except`")


@functools.lru_cache(maxsize=64)
def _inner_lines(file: str) -> frozenset[int]:
    """The lines of a file that begin within a statement, part of which is on the stack. Python 3.10 crashes there."""
    lines: set[int] = set()
    for node in _nodes(file):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Match):
            body = getattr(node, "body", None)
            lines.update(range(node.lineno + 1, body[0].lineno if body else (node.end_lineno or 0) + 1))
    return frozenset(lines)


@functools.lru_cache(maxsize=64)
def _lines_of_calls(file: str) -> list[int]:
    """The line of each call in a file that is not harmless."""
    calls = [node for node in _nodes(file) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if ast.unparse(call.func).partition(".")[0] not in _HARMLESS]


def _nodes(file: str) -> Iterable[ast.AST]:
    try:
        return ast.walk(ast.parse("".join(linecache.getlines(file))))
    except SyntaxError:
        return ()


def _line(instruction: Any) -> int:
    """The line that begins with an instruction: Python 3.13 has it elsewhere."""
    return int(getattr(instruction, "line_number", None) or instruction.starts_line)


def resume(sleepers: list[Sleeper], find: Callable[[int], GreenThread]) -> None:
    """Has threads, which it finds by number, go to where the sleepers are.

    What they do on the way, the caller undoes.
    """
    due = {}
    for sleeper in sleepers:
        thread = find(sleeper.serial)
        due[thread] = sleeper.due
        thread.owner, thread.arguments = sleeper.owner, sleeper.arguments
        thread.target = walk = _Walk(sleeper)
        thread.yields = (scheduler.input, YIELDS)  # a sleep of 0 waits, too
        thread.__dict__.update(sleeper.attributes)
        scheduler.threads[thread] = None
        failed, scheduler.failed = scheduler.failed, walk.fail
        try:
            thread.switch()
        finally:
            sys.settrace(None)
            scheduler.failed = failed
        if walk.error or walk.ahead or not thread.parked:
            raise Unfit(
                f"a green thread of {sleeper.owner} does not come to where it slept, in {sleeper.where}:"
                f" {walk.error or 'it goes another way'}"
            )
        thread.target, thread.yields = sleeper.target, sleeper.yields
    scheduler.set_due(due)


class _Walk:
    """The function of a thread that is to go to where a sleeper is."""

    def __init__(self, sleeper: Sleeper) -> None:
        self._target = sleeper.target
        self.ahead = list(sleeper.frames)
        self.error: BaseException | None = None

    def fail(self, _owner: str, error: BaseException) -> None:
        self.error = error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.ahead:
            sys.settrace(self._called)
        return self._target(*args, **kwargs)

    def _called(self, frame: types.FrameType, _event: str, _argument: Any) -> Any:
        """Is told of each call, and sets the variables where it is the next function on the way."""
        if not self.ahead or _named(frame.f_code) != self.ahead[0].code:
            return None
        step = self.ahead.pop(0)
        frame.f_locals.update(step.variables)

        def jump(frame: types.FrameType, event: str, _argument: Any) -> Any:
            """Is told when the first line is about to be executed."""
            if event != "line":
                return jump
            frame.f_lineno = step.line  # type: ignore[misc]  # a trace function may
            if not self.ahead:
                sys.settrace(None)
            return None

        return jump

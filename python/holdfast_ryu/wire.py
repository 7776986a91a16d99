"""The bytes between Holdfast and a host: docs/design/ryu.md has the layout.

Numbers are big-endian. A string is its length and its bytes, a list its count and its elements;
lengths and counts have 32 bits.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from .outcome import Answer, Command, Failure, Line

VERSION = 1
# FRAME_BYTES bounds one frame, without its own length.
FRAME_BYTES = 64 << 20

HELLO, READY, INPUTS, RESULTS, FATAL, CHECKPOINT, CHECKPOINTED, STIRRED = range(1, 9)
UP, DOWN, MESSAGE, TIMER, REQUEST, FILES = range(1, 7)

_FRAME = struct.Struct(">IB")
_HELLO = struct.Struct(">HQqB")
_INPUT = struct.Struct(">QqB")
_RESULT = struct.Struct(">QqIIII")
_MESSAGE = struct.Struct(">QI")
_INPUT_MESSAGE = struct.Struct(">QqBQI")
_U8, _U16, _U32, _U64, _I64 = (struct.Struct(">" + kind) for kind in "BHIQq")


class Malformed(ValueError):
    """Bytes that are not of this protocol."""


class Reader:
    """Takes values off the front of a frame."""

    __slots__ = ("_at", "_buf")

    def __init__(self, buf: bytes) -> None:
        self._buf = buf
        self._at = 0

    def take(self, form: struct.Struct) -> tuple[int, ...]:
        try:
            values = form.unpack_from(self._buf, self._at)
        except struct.error as error:
            raise Malformed(f"frame of {len(self._buf)} bytes ends within a value at {self._at}") from error
        self._at += form.size
        return values

    def number(self, form: struct.Struct) -> int:
        return self.take(form)[0]

    def blob(self) -> bytes:
        return self.raw(self.number(_U32))

    def raw(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._buf):
            raise Malformed(f"frame of {len(self._buf)} bytes ends within a string at {self._at}")
        out = self._buf[self._at : end]
        self._at = end
        return out

    def string(self) -> str:
        return self.blob().decode("utf-8", "surrogateescape")

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self.number(_U32))]

    def message(self) -> "Input | None":
        """An input with a message of a switch, as most are, if that is next."""
        start = self._at + _INPUT_MESSAGE.size
        if start > len(self._buf):
            return None
        number, time_ns, kind, datapath_id, size = _INPUT_MESSAGE.unpack_from(self._buf, self._at)
        end = start + size
        if kind != MESSAGE or end > len(self._buf):
            return None
        self._at = end
        return Input(number, time_ns, Message(datapath_id, self._buf[start:end]))

    def end(self) -> None:
        if self._at != len(self._buf):
            raise Malformed(f"{len(self._buf) - self._at} bytes too many in a frame")


@dataclass(frozen=True)
class Hello:
    """The identity of a host.

    All hosts of one log get the same, except for where they begin: after input `number`, with its state.
    """

    seed: int
    time_ns: int
    log_level: int
    cluster: str
    apps: list[str]
    options: list[str]
    number: int = 0
    state: bytes = b""
    version: int = VERSION


@dataclass(frozen=True)
class Up:
    datapath_id: int
    features: bytes
    ports: bytes


@dataclass(frozen=True)
class Down:
    datapath_id: int


class Message:
    """A message of a switch. Not a dataclass: there are many."""

    __slots__ = ("datapath_id", "message")

    def __init__(self, datapath_id: int, message: bytes) -> None:
        self.datapath_id = datapath_id
        self.message = message


@dataclass(frozen=True)
class Tick:
    """Nothing but time."""


@dataclass(frozen=True)
class Request:
    request_id: int
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True)
class Files:
    """Configuration files: their contents by path, None for a file that does not exist.

    If it is the first, it counts only for a host that has none.
    """

    request_id: int
    first: bool
    contents: dict[str, bytes | None]


Event = Up | Down | Message | Tick | Request | Files


class Input:
    """An event with its number and time."""

    __slots__ = ("event", "number", "time_ns")

    def __init__(self, number: int, time_ns: int, event: Event) -> None:
        self.number = number
        self.time_ns = time_ns
        self.event = event


@dataclass(frozen=True)
class Ready:
    python: str
    framework: str
    apps: list[str]
    wake_ns: int | None
    lines: list[Line]


class Result(NamedTuple):
    """Not a dataclass: there are many."""

    number: int
    wake_ns: int | None
    commands: list[Command]
    answers: list[Answer]
    failures: list[Failure]
    lines: list[Line]


@dataclass(frozen=True)
class Checkpointed:
    """The state after input number, or why there is none."""

    number: int
    state: bytes
    reason: str


def frame(kind: int, body: bytes) -> bytes:
    return _FRAME.pack(len(body) + 1, kind) + body


def _bytes(value: bytes) -> bytes:
    return _U32.pack(len(value)) + value


def _string(value: str) -> bytes:
    try:
        return _bytes(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # half a character, as only an application makes it
        return _bytes(value.encode("utf-8", "backslashreplace"))


def _strings(values: list[str]) -> bytes:
    return _U32.pack(len(values)) + b"".join(map(_string, values))


def _headers(values: list[tuple[str, str]]) -> bytes:
    return _U32.pack(len(values)) + b"".join(_string(name) + _string(value) for name, value in values)


def _wake(wake_ns: int | None) -> int:
    return -1 if wake_ns is None else wake_ns


def _lines(lines: list[Line]) -> bytes:
    return b"".join(
        _U8.pack(max(0, min(line.level, 255))) + _string(line.logger) + _string(line.text) for line in lines
    )


def encode_hello(hello: Hello) -> bytes:
    fixed = _HELLO.pack(hello.version, hello.seed, hello.time_ns, hello.log_level)
    begin = _U64.pack(hello.number) + _bytes(hello.state)
    return frame(HELLO, fixed + _string(hello.cluster) + _strings(hello.apps) + _strings(hello.options) + begin)


def decode_hello(body: bytes) -> Hello:
    reader = Reader(body)
    version, seed, time_ns, level = reader.take(_HELLO)
    if version != VERSION:
        raise Malformed(
            f"Holdfast speaks version {version} of this protocol, holdfast-ryu {VERSION}: install the one of the same"
            " release"
        )
    hello = Hello(
        seed, time_ns, level, reader.string(), reader.strings(), reader.strings(), reader.number(_U64), reader.blob()
    )
    reader.end()
    if hello.number and not hello.state:
        raise Malformed(f"a host is to begin after input {hello.number} without the state that it left")
    return hello


def encode_ready(ready: Ready) -> bytes:
    fixed = _U16.pack(VERSION) + _I64.pack(_wake(ready.wake_ns))
    words = _string(ready.python) + _string(ready.framework) + _strings(ready.apps)
    return frame(READY, fixed + words + _U32.pack(len(ready.lines)) + _lines(ready.lines))


def encode_fatal(text: str) -> bytes:
    return frame(FATAL, _string(text))


def encode_checkpointed(done: Checkpointed) -> bytes:
    return frame(CHECKPOINTED, _U64.pack(done.number) + _bytes(done.state) + _string(done.reason))


def encode_inputs(inputs: list[Input]) -> bytes:
    out = [_U32.pack(len(inputs))]
    for entry in inputs:
        kind, body = _encode_event(entry.event)
        out += _INPUT.pack(entry.number, entry.time_ns, kind), body
    return frame(INPUTS, b"".join(out))


def _encode_event(event: Event) -> tuple[int, bytes]:
    match event:
        case Message():
            return MESSAGE, _MESSAGE.pack(event.datapath_id, len(event.message)) + event.message
        case Up():
            return UP, _U64.pack(event.datapath_id) + _bytes(event.features) + _bytes(event.ports)
        case Down():
            return DOWN, _U64.pack(event.datapath_id)
        case Request():
            words = _string(event.method) + _string(event.path) + _headers(event.headers)
            return REQUEST, _U64.pack(event.request_id) + words + _bytes(event.body)
        case Files():
            out = [_U64.pack(event.request_id), bytes([event.first]), _U32.pack(len(event.contents))]
            for path, content in event.contents.items():
                out.append(_string(path) + bytes([content is None]) + _bytes(content or b""))
            return FILES, b"".join(out)
    return TIMER, b""


def decode_inputs(body: bytes) -> list[Input]:
    reader = Reader(body)
    inputs = []
    for _ in range(reader.number(_U32)):
        inputs.append(reader.message() or _decode_input(reader))
    reader.end()
    return inputs


def _decode_input(reader: Reader) -> Input:
    number, time_ns, kind = reader.take(_INPUT)
    return Input(number, time_ns, _decode_event(kind, reader))


def _decode_event(kind: int, reader: Reader) -> Event:
    if kind == MESSAGE:
        datapath_id, size = reader.take(_MESSAGE)
        return Message(datapath_id, reader.raw(size))
    if kind == TIMER:
        return Tick()
    if kind == UP:
        return Up(reader.number(_U64), reader.blob(), reader.blob())
    if kind == DOWN:
        return Down(reader.number(_U64))
    if kind == REQUEST:
        request_id, method, path = reader.number(_U64), reader.string(), reader.string()
        headers = [(reader.string(), reader.string()) for _ in range(reader.number(_U32))]
        return Request(request_id, method, path, headers, reader.blob())
    if kind == FILES:
        request_id, first, contents = reader.number(_U64), reader.number(_U8) != 0, {}
        for _ in range(reader.number(_U32)):
            path, missing, content = reader.string(), reader.number(_U8), reader.blob()
            contents[path] = None if missing else content
        return Files(request_id, first, contents)
    raise Malformed(f"input of kind {kind}")


def encode_result(result: Result) -> bytes:
    """The bytes of one result; a RESULTS frame is a count and so many of them."""
    commands = [
        _MESSAGE.pack(command.datapath_id, len(command.message)) + command.message for command in result.commands
    ]
    counts = len(commands), len(result.answers), len(result.failures), len(result.lines)
    out = [_RESULT.pack(result.number, _wake(result.wake_ns), *counts), *commands]
    if not any(counts[1:]):
        return b"".join(out)
    for answer in result.answers:
        out.append(
            _U64.pack(answer.request_id) + _U16.pack(answer.status) + _headers(answer.headers) + _bytes(answer.body)
        )
    for failure in result.failures:
        out.append(_string(failure.owner) + _string(failure.trace))
    out.append(_lines(result.lines))
    return b"".join(out)


def encode_results(results: list[bytes]) -> bytes:
    return frame(RESULTS, _U32.pack(len(results)) + b"".join(results))


def decode_results(body: bytes) -> list[Result]:
    """For tests and benchmarks: in Holdfast it is Go that reads these."""
    reader = Reader(body)
    results = []
    for _ in range(reader.number(_U32)):
        number, wake_ns, commands, answers, failures, lines = reader.take(_RESULT)
        results.append(
            Result(
                number,
                None if wake_ns < 0 else wake_ns,
                [_decode_command(reader) for _ in range(commands)],
                [_decode_answer(reader) for _ in range(answers)],
                [Failure(reader.string(), reader.string()) for _ in range(failures)],
                [Line(reader.number(_U8), reader.string(), reader.string()) for _ in range(lines)],
            )
        )
    reader.end()
    return results


def _decode_command(reader: Reader) -> Command:
    datapath_id, size = reader.take(_MESSAGE)
    return Command("", datapath_id, reader.raw(size))


def _decode_answer(reader: Reader) -> Answer:
    request_id, status = reader.number(_U64), reader.number(_U16)
    headers = [(reader.string(), reader.string()) for _ in range(reader.number(_U32))]
    return Answer(request_id, status, headers, reader.blob())


def decode_ready(body: bytes) -> Ready:
    """For tests and benchmarks, like decode_results."""
    reader = Reader(body)
    reader.number(_U16)
    wake_ns = reader.number(_I64)
    python, framework, apps = reader.string(), reader.string(), reader.strings()
    lines = [Line(reader.number(_U8), reader.string(), reader.string()) for _ in range(reader.number(_U32))]
    return Ready(python, framework, apps, None if wake_ns < 0 else wake_ns, lines)


def decode_checkpointed(body: bytes) -> Checkpointed:
    """For tests, like decode_results."""
    reader = Reader(body)
    done = Checkpointed(reader.number(_U64), reader.blob(), reader.string())
    reader.end()
    return done

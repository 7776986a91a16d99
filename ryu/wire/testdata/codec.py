"""The host's own codec, for a test that compares it with Go's.

codec.py show: reads frames, and prints the contents of each. codec.py make: prints random frames, and their contents.
Both print a list of values per line: numbers are decimal, bytes and strings hexadecimal after an x, lists in brackets.
"""

import random
import sys

from holdfast_ryu import wire
from holdfast_ryu.outcome import Answer, Command, Failure, Line


def text(value):
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return "x" + value.hex()
    return "[" + " ".join(map(text, value)) + "]"


def said(kind, body):
    if kind == wire.HELLO:
        hello = wire.decode_hello(body)
        return (
            hello.seed,
            hello.time_ns,
            hello.log_level,
            hello.cluster,
            hello.apps,
            hello.options,
            hello.number,
            hello.state,
        )
    if kind == wire.INPUTS:
        return [[entry.number, entry.time_ns, *event(entry.event)] for entry in wire.decode_inputs(body)]
    if kind == wire.CHECKPOINT and not body:
        return []
    raise SystemExit(f"a frame of type {kind}")


def event(value):
    match value:
        case wire.Up():
            return "up", value.datapath_id, value.features, value.ports
        case wire.Down():
            return "down", value.datapath_id
        case wire.Message():
            return "message", value.datapath_id, value.message
        case wire.Request():
            return "request", value.request_id, value.method, value.path, value.headers, value.body
        case wire.Files():
            contents = [(path, int(content is None), content or b"") for path, content in value.contents.items()]
            return "files", value.request_id, int(value.first), contents
    return ("timer",)


def show():
    stream = sys.stdin.buffer
    while header := stream.read(4):
        frame = stream.read(int.from_bytes(header, "big"))
        print(text(said(frame[0], frame[1:])))


chance = random.Random(7)


def number(bits):
    return chance.getrandbits(chance.choice([1, bits // 2, bits]))


def wake():
    return chance.choice([None, number(62)])


def blob():
    return chance.randbytes(chance.choice([0, 1, 30]))


def string():
    return chance.choice(["", "plain", "\u00e9\u4e16 \U0001f600", "not text \udcff", "line\n"])


def several(what):
    return [what() for _ in range(chance.randrange(4))]


def headers():
    return several(lambda: (string(), string()))


def line():
    return Line(number(8), string(), string())


def result():
    commands = several(lambda: Command("", number(64), blob()))
    answers = several(lambda: Answer(number(64), number(16), headers(), blob()))
    return wire.Result(
        number(64), wake(), commands, answers, several(lambda: Failure(string(), string())), several(line)
    )


def ready():
    value = wire.Ready(string(), string(), several(string), wake(), several(line))
    return wire.encode_ready(value), [
        -1 if value.wake_ns is None else value.wake_ns,
        value.python,
        value.framework,
        value.apps,
        value.lines,
    ]


def results():
    values = [result(), *several(result)]
    shown = []
    for value in values:
        commands = [command[1:] for command in value.commands]
        shown.append(
            [
                value.number,
                -1 if value.wake_ns is None else value.wake_ns,
                commands,
                value.answers,
                value.failures,
                value.lines,
            ]
        )
    return wire.encode_results([wire.encode_result(value) for value in values]), shown


def fatal():
    value = string()
    return wire.encode_fatal(value), [value]


def checkpointed():
    value = wire.Checkpointed(number(64), blob(), string())
    return wire.encode_checkpointed(value), [value.number, value.state, value.reason]


def make():
    for _ in range(200):
        for frame, shown in ready(), results(), fatal(), checkpointed():
            print(frame.hex(), text(shown))


{"show": show, "make": make}[sys.argv[1]]()

"""The bytes between Holdfast and a host."""

import random

import pytest

from holdfast_ryu import wire
from holdfast_ryu.outcome import Answer, Command, Failure, Line

EVENTS = [
    wire.Up(1, b"features", b"ports"),
    wire.Down(2**64 - 1),
    wire.Message(3, b"message"),
    wire.Message(3, b""),
    wire.Tick(),
    wire.Request(4, "POST", "/ä?b=c", [("A", "b"), ("A", "c")], b"\0body"),
    wire.Files(5, True, {"/etc/a": b"\0content", "/etc/ä": None}),
]


def body(frame: bytes) -> bytes:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[5:]


def inputs() -> bytes:
    return body(wire.encode_inputs([wire.Input(number, number * 10, event) for number, event in enumerate(EVENTS, 1)]))


def test_inputs() -> None:
    for number, entry in enumerate(wire.decode_inputs(inputs()), 1):
        assert (entry.number, entry.time_ns) == (number, number * 10)
        expected = EVENTS[number - 1]
        if isinstance(entry.event, wire.Message):
            assert isinstance(expected, wire.Message)
            assert (entry.event.datapath_id, entry.event.message) == (expected.datapath_id, expected.message)
        else:
            assert entry.event == expected


def test_hello_and_ready() -> None:
    hello = wire.Hello(2**64 - 1, 5, 20, "here", ["a", "b"], ["--observe-links"])
    assert wire.decode_hello(body(wire.encode_hello(hello))) == hello
    ready = wire.Ready("3", "4", ["A"], None, [Line(20, "a", "text")])
    assert wire.decode_ready(body(wire.encode_ready(ready))) == ready
    with pytest.raises(wire.Malformed, match="version 2"):
        wire.decode_hello(body(wire.encode_hello(wire.Hello(1, 5, 20, "", [], [], version=2))))


def test_hello_with_a_state() -> None:
    hello = wire.Hello(1, 5, 20, "here", ["a"], [], number=2**64 - 1, state=b"\0state")
    whole = body(wire.encode_hello(hello))
    assert wire.decode_hello(whole) == hello
    assert whole.endswith(b"\xff" * 8 + b"\0\0\0\6\0state"), "the last two fields"
    assert body(wire.encode_hello(wire.Hello(1, 5, 20, "", [], []))).endswith(bytes(12)), "fresh"
    with pytest.raises(wire.Malformed, match="after input 3 without the state"):
        wire.decode_hello(body(wire.encode_hello(wire.Hello(1, 5, 20, "", [], [], number=3))))


def test_checkpointed() -> None:
    for done in (wire.Checkpointed(9, b"state", ""), wire.Checkpointed(0, b"", "why not")):
        assert wire.decode_checkpointed(body(wire.encode_checkpointed(done))) == done
    assert (
        wire.encode_checkpointed(wire.Checkpointed(1, b"s", "r"))
        == b"\0\0\0\x13\7" + bytes(7) + b"\1\0\0\0\1s\0\0\0\1r"
    )


def test_results() -> None:
    result = wire.Result(
        9,
        77,
        [Command("", 1, b"command")],
        [Answer(3, 200, [("A", "b")], b"x")],
        [Failure("App", "trace")],
        [Line(30, "l", "t\udcff")],
    )
    empty = wire.Result(10, None, [], [], [], [])
    assert wire.decode_results(body(wire.encode_results([wire.encode_result(result), wire.encode_result(empty)]))) == [
        result,
        empty,
    ]


def test_damaged_frames_are_malformed() -> None:
    whole = inputs()
    generator = random.Random(1)
    for cut in range(len(whole)):
        with pytest.raises(wire.Malformed):
            wire.decode_inputs(whole[:cut])
    with pytest.raises(wire.Malformed):
        wire.decode_inputs(whole + b"x")
    for _ in range(2_000):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            wire.decode_inputs(bytes(damaged))
        except wire.Malformed:
            pass

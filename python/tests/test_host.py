"""Hosts as processes: failures, waits, timers, and what differs between processes."""

import json
import struct
from pathlib import Path

import openflow
import pytest
from hosting import SECOND, Died, Hosted

from holdfast_ryu import wire

APPS = Path(__file__).parent / "apps"

# How many messages of which size: at the bounds, and beyond.
BOUNDS = [(16_384, 8), (16_385, 8), (64, 32_768), (65, 32_768)]


def up(datapath_id: int, count: int = 5) -> wire.Up:
    return wire.Up(datapath_id, openflow.features(datapath_id), openflow.ports(datapath_id, count))


def packet(port: int, datapath_id: int = 1) -> wire.Message:
    return wire.Message(datapath_id, openflow.packet_in(port, openflow.arp(openflow.host(port))))


def app(name: str) -> str:
    return str(APPS / f"{name}.py")


def texts(result: wire.Result) -> list[str]:
    return [line.text for line in result.lines]


def test_failing_application_loses_its_commands_of_that_input(ryu: Path) -> None:
    with Hosted(app("failing"), "ryu.app.simple_switch_13", path=[ryu]) as host:
        host.one(up(1))
        good, bad, after = host.batch([packet(1), packet(2), packet(1)])
        assert sorted(openflow.kind(command.message) for command in good.commands) == [
            openflow.PACKET_OUT,
            openflow.BARRIER_REQUEST,
        ]
        assert [openflow.kind(command.message) for command in bad.commands] == [
            openflow.PACKET_OUT
        ], "only the other application's command is left"
        assert [failure.owner for failure in bad.failures] == ["Failing"]
        assert (
            "packet_in" in bad.failures[0].trace
            and "ValueError: no packets from port 2, please" in bad.failures[0].trace
        )
        assert not good.failures and not after.failures
        assert "seen 3" in texts(after), "its state is what it was when it raised"
        assert len(after.commands) == 2


def test_failing_application_keeps_what_its_timers_have_sent(ryu: Path) -> None:
    with Hosted(app("failing"), path=[ryu]) as host:
        host.batch([up(1), packet(6)])
        both = host.batch([packet(2)], SECOND)[0]
        assert both.failures and [openflow.kind(command.message) for command in both.commands] == [
            openflow.BARRIER_REQUEST
        ]


def test_failures_of_all_kinds(ryu: Path) -> None:
    with Hosted(app("failing"), path=[ryu]) as host:
        host.one(up(1))
        background, endless, leaving, after = host.batch([packet(3), packet(4), packet(5), packet(1)])
        assert "KeyError: 'in the background'" in background.failures[0].trace
        assert background.commands == []
        assert "TooMuch" in endless.failures[0].trace and endless.commands == []
        assert "SystemExit: enough" in leaving.failures[0].trace
        assert len(after.commands) == 1 and not after.failures


def test_an_input_causes_a_bounded_number_of_messages_and_bytes() -> None:
    with Hosted(app("flooding")) as host:
        host.one(up(1))
        results = host.batch(wire.Request(1, "POST", f"/flood/{count}/{size}", [], b"") for count, size in BOUNDS)
        assert [len(result.commands) for result in results] == [16_384, 0, 64, 0]
        assert sum(len(command.message) for command in results[2].commands) == 2 << 20
        for result in (results[1], results[3]):
            assert [answer.status for answer in result.answers] == [500]
            assert "at most 16384 of 2097152" in result.failures[0].trace


def test_garbage_from_a_switch_is_not_the_end(ryu: Path) -> None:
    truncated = openflow.message(openflow.PACKET_IN, bytes(5))
    with Hosted("ryu.app.simple_switch_13", path=[ryu]) as host:
        host.one(up(1))
        for garbage in (
            truncated,
            b"",
            b"\x04",
            openflow.message(99),
            openflow.message(openflow.PORT_STATUS),
            bytes(64),
        ):
            assert host.one(wire.Message(1, garbage)).commands == []
        for features, ports in (
            (b"", b""),
            (b"garbage", openflow.ports(2)),
            (openflow.features(2), b"\4\x13\0\1garbage"),
            (bytes(32), bytes(80)),
        ):
            host.batch([wire.Up(2, features, ports), packet(1, 2), wire.Down(2)])
        assert len(host.one(packet(1)).commands) == 1


def test_switch_that_goes_and_returns(ryu: Path) -> None:
    with Hosted("ryu.app.simple_switch_13", path=[ryu]) as host:
        assert [openflow.kind(command.message) for command in host.one(up(1)).commands] == [openflow.FLOW_MOD]
        assert host.one(wire.Down(1)).commands == []
        assert host.one(packet(1)).commands == [], "a message of a switch that is not up"
        assert host.one(wire.Down(1)).commands == []
        assert len(host.one(up(1)).commands) == 1
        assert len(host.one(up(1)).commands) == 1, "up without down: a new epoch"
        assert len(host.one(packet(1)).commands) == 1


def test_timers_ring_in_virtual_time() -> None:
    with Hosted(app("waiting")) as host:
        began = host.now_ns
        assert host.wake_ns is not None and host.wake_ns - began == 2 * 10**9
        early = host.batch([wire.Tick()], 10**9)[0]
        assert texts(early) == []
        assert [texts(result) for result in host.passes(5.5)] == [["beat 1"], ["beat 2"], ["beat 3"]]
        late = host.batch([wire.Tick()], 3600 * 10**9)[0]
        assert texts(late) == ["beat 4"], "a long pause wakes a sleeper once"


def test_threads_of_modules_and_contexts_send() -> None:
    with Hosted(app("polling")) as host:
        host.one(up(1))
        assert [len(result.commands) for result in host.passes(2)] == [2, 2]


def test_application_waits_for_a_switch() -> None:
    with Hosted(app("waiting")) as host:
        request, barrier = host.one(up(1)).commands
        assert (
            openflow.kind(request.message) == openflow.MULTIPART_REQUEST
            and openflow.kind(barrier.message) == openflow.BARRIER_REQUEST
        )
        description = struct.pack(">HH4x256s256s256s32s256s", 0, 0, b"Acme", b"", b"", b"", b"")
        between = host.one(
            wire.Message(1, openflow.message(openflow.MULTIPART_REPLY, description, openflow.xid(request.message)))
        )
        assert texts(between) == [], "it waits for the barrier too"
        done = host.one(wire.Message(1, openflow.message(openflow.BARRIER_REPLY, xid=openflow.xid(barrier.message))))
        assert "made by Acme" in " ".join(texts(done))


def test_request_is_answered_by_a_later_input() -> None:
    with Hosted(app("waiting")) as host:
        host.one(up(1))
        asked = host.one(wire.Request(77, "POST", "/barrier", [], b""))
        assert asked.answers == []
        (barrier,) = asked.commands
        slept, other = host.batch(
            [
                wire.Request(78, "GET", "/sleep/1.5?a=b%20c", [("X-Thing", "1")], b""),
                wire.Request(79, "GET", "/nothing", [], b""),
            ]
        )
        assert slept.answers == [] and [(answer.request_id, answer.status) for answer in other.answers] == [(79, 404)]
        done = host.one(wire.Message(1, openflow.message(openflow.BARRIER_REPLY, xid=openflow.xid(barrier.message))))
        assert [(answer.request_id, answer.status) for answer in done.answers] == [(77, 200)]
        assert done.answers[0].body.startswith(b"barrier ")
        answers = [answer for result in host.passes(2) for answer in result.answers]
        assert [(answer.request_id, answer.body) for answer in answers] == [
            (78, b'{"slept":"1.5","query":{"a":"b c"}}')
        ]
        assert ("Content-Type", "application/json") in answers[0].headers


def test_request_that_raises() -> None:
    with Hosted(app("waiting")) as host:
        host.one(up(1))
        failed = host.one(wire.Request(1, "GET", "/fail", [], b""))
        assert [(answer.request_id, answer.status) for answer in failed.answers] == [(1, 500)]
        assert [failure.owner for failure in failed.failures] == ["Waiting"]
        assert failed.commands == []


def test_requests_have_a_bound() -> None:
    with Hosted(app("waiting")) as host:
        results = host.batch(wire.Request(number, "GET", "/sleep/5", [], b"") for number in range(1_025))
        assert [answer.status for result in results for answer in result.answers] == [503]
        assert len([answer for result in host.passes(8) for answer in result.answers]) == 1_024


def test_request_that_is_never_answered() -> None:
    with Hosted(app("waiting")) as host:
        host.batch(wire.Request(number, "GET", "/sleep/100000", [], b"") for number in range(1_024))
        assert host.one(wire.Request(2_000, "GET", "/sleep/1", [], b"")).answers[0].status == 503
        host.passes(120)
        late = host.one(wire.Request(2_001, "GET", "/sleep/1", [], b""))
        assert late.answers == [] and late.failures == [] and "1024 handlers" in late.lines[-1].text
        assert [answer.status for result in host.passes(2) for answer in result.answers] == [200]


def world(seed: int = 7) -> list[wire.Result]:
    with Hosted(app("worldly"), seed=seed) as host:
        ready = [wire.Result(0, None, [], [], [], host.ready.lines)]
        return ready + host.batch(
            [*(up(number) for number in range(1, 9)), *(packet(1, number) for number in range(1, 9))]
        )


def test_processes_see_the_same_world() -> None:
    one, other = world(), world()
    assert not any(result.failures for result in one)
    assert one == other
    assert len(list(one[-1].commands)) == 8
    assert "2023-11-14 22:13:20 UTC" in one[0].lines[-2].text or "2023-11-14 22:13:20 UTC" in str(one[0].lines)
    seeded = world(seed=8)
    assert seeded[-1].commands != one[-1].commands, "another log has another seed"


def test_pools_of_threads_do_not_depend_on_the_machine() -> None:
    with Hosted(app("worldly")) as host:
        assert "threads of a pool 5" in [line.text for line in host.ready.lines]


def test_what_the_host_does_not_hide_differs() -> None:
    def run() -> list[wire.Command]:
        with Hosted(app("prying")) as host:
            return list(host.batch([up(1), packet(1)])[1].commands)

    assert run() != run(), "reading /proc is not caught here: digests of commands tell"


def test_constructor_may_sleep() -> None:
    with Hosted(app("constructing")) as host:
        assert "slept 3" in [line.text for line in host.ready.lines]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("broken", r"^/.*/broken.py, line \d+, in __init__: RuntimeError: not today\n"),
        ("stuck", "a constructor waits"),
        ("nowhere", "No module named"),
        ("mistyped", r"^/.*/mistyped.py, line 1: SyntaxError: "),
    ],
)
def test_what_cannot_be_loaded(name: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "mistyped.py").write_text("x = (\n")
    where = APPS / f"{name}.py"
    with pytest.raises(Died, match=complaint):
        Hosted(str(where if where.exists() else tmp_path / f"{name}.py"))


def test_inputs_are_dense() -> None:
    with Hosted(app("waiting")) as host:
        host._number = 5
        with pytest.raises(Died, match="input 6 after 0"):
            host.one(wire.Tick())


def test_options_of_ryu_manager(ryu: Path) -> None:
    with pytest.raises(Died, match=r"^\S+: error: unrecognized arguments: --nonsense\n"):
        Hosted("ryu.app.simple_switch_13", path=[ryu], options=["--nonsense"])


def test_odd_requests() -> None:
    with Hosted(app("waiting")) as host:
        odd = [
            wire.Request(1, "", "", [], b""),
            wire.Request(2, "GET", "/\udcff%zz?&&=", [("\udcff", "\n")], b"\0"),
            wire.Request(3, "GET", "/sleep/x", [], b""),
            wire.Request(4, "GET", "/nothing", [("Host", "controller:" + "9" * 5_000)], b""),
        ]
        statuses = [answer.status for result in host.batch(odd) for answer in result.answers]
        assert len(statuses) == 4 and all(status >= 400 for status in statuses)


def test_requests_in_utf8() -> None:
    with Hosted(app("waiting")) as host:
        host.one(wire.Request(1, "GET", "/sleep/1?a=é&b=%E2%82%AC", [], b""))
        (answer,) = [answer for result in host.passes(2) for answer in result.answers]
        assert json.loads(answer.body)["query"] == {"a": "é", "b": "€"}


def test_application_that_closes_a_switch() -> None:
    with Hosted(app("closing")) as host:
        host.one(up(1))
        assert "Closing closed switch 0000000000000001" in texts(host.one(packet(1)))[-1]
        assert host.one(packet(1)).commands == []
        assert len(host.batch([up(1), packet(2)])[1].commands) == 1


def test_a_closed_switch_connects_again() -> None:
    with Hosted(app("closing")) as host:
        host.one(up(1))
        host.one(wire.Message(1, openflow.port_status(1, 3, 1)))  # deleted
        for seconds in (1, 2, 4, 8, 8):
            host.one(packet(1))
            host.now_ns += seconds * SECOND - 1_500_000
            assert not host.one(packet(2)).commands, f"closed for {seconds} s"
            assert len(host.one(packet(2)).commands) == 1
        host.now_ns += 60 * SECOND
        host.one(packet(1))
        host.now_ns += SECOND
        assert len(host.one(packet(2)).commands) == 1, "the pause begins anew"


def test_a_closed_switch_connects_again_in_a_quiet_network() -> None:
    with Hosted(app("closing")) as host:
        host.batch([up(1), packet(1)])
        wake_ns, after = host.wake_ns, host.checkpoint()
        assert len(host.passes(1.5)) == 1 and host.wake_ns is None
    with Hosted(app("closing"), after=after, now_ns=host.now_ns) as host:
        assert wake_ns is not None and host.wake_ns == wake_ns


def test_application_that_tries_everything() -> None:
    """Nothing that an application says or sends ends the host."""
    with Hosted(app("wild")) as host:
        host.one(up(1))
        results = host.batch(packet(port) for port in range(1, 12))
        failed = [number for number, result in enumerate(results, 1) if result.failures]
        assert failed == [4, 6, 7]
        assert all(len(failure.trace) <= 16_384 for failure in results[6].failures) and len(results[6].failures) == 100
        assert [answer.status for answer in host.one(wire.Request(1, "GET", "/wild/status", [], b"")).answers] == [500]
        assert [answer.status for answer in host.one(wire.Request(2, "GET", "/wild/header", [], b"")).answers] == [200]
        assert [answer.status for answer in host.one(wire.Request(3, "GET", "/wild/long", [], b"")).answers] == [500]
        assert len(host.one(packet(12)).commands) == 2


def test_threads_are_green() -> None:
    """What they send belongs to an input, and is the same in every process."""

    def run() -> list[wire.Result]:
        with Hosted(app("threaded")) as host:
            return host.batch([up(1), packet(1), packet(2)]) + host.passes(10)

    results = run()
    said = [text for result in results for text in texts(result)]
    assert said == ["worker 0 has sent", "worker 1 has sent", "squares [0, 1, 4, 9]", "all sent", "five seconds"]
    assert sum(len(result.commands) for result in results) == 4
    assert all(not result.failures for result in results)
    assert [wire.encode_result(result) for result in run()] == [wire.encode_result(result) for result in results]


def test_application_that_sleeps_in_a_handler() -> None:
    with Hosted(app("sleepy")) as host:
        host.one(up(1))
        count = 65_536 + 128 + 10
        results = host.batch((packet(1) for _ in range(count)), step_ns=1_000)
        refused = [result for result in results if result.failures]
        assert 1 <= len(refused) <= 10 and "does not take its events" in refused[0].failures[0].trace
        assert refused[-1] is results[-1]
        woken = host.passes(10)
        assert sum(len(result.lines) for result in woken) >= 1_000, "all that waited is taken then"
        assert "seen" in texts(host.one(packet(1)))[-1]


@pytest.mark.parametrize("name", ["dated", "named"])
def test_application_that_checks_its_surroundings(name: str) -> None:
    with Hosted(app(name)) as host:
        assert host.ready.apps[0] == name.capitalize()
        assert not host.one(up(1)).failures

"""A host that goes on from a checkpoint does what one does that has executed all inputs itself."""

import random
import re
from pathlib import Path

import openflow
import pytest
from hosting import BEGIN, Died, Hosted

from holdfast_ryu import wire

APPS = Path(__file__).parent / "apps"
STEP_NS = 40_000_000
INPUTS = 240
TABLE = "/simpleswitch/mactable/0000000000000001"
REQUESTS = [
    wire.Request(1, "GET", TABLE, [], b""),
    wire.Request(2, "PUT", TABLE, [], b'{"mac": "00:00:00:00:09:09", "port": 2}'),
    wire.Request(3, "GET", "/stations", [], b""),
    wire.Request(4, "GET", "/firewall/rules/all", [], b""),
    wire.Request(5, "PUT", "/firewall/module/enable/0000000000000001", [], b""),
    wire.Request(6, "POST", "/firewall/rules/0000000000000001", [], b'{"nw_src": "10.0.0.1/32", "nw_proto": "ICMP"}'),
    wire.Request(7, "GET", "/stats/switches", [], b""),
]


def app(name: str) -> str:
    return str(APPS / f"{name}.py")


def up(switch: int) -> wire.Up:
    return wire.Up(switch, openflow.features(switch), openflow.ports(switch, 4))


def traffic(seed: int) -> list[wire.Event]:
    """Switches that come and go, packets of few hosts, requests, garbage."""
    chance = random.Random(seed)
    events: list[wire.Event] = [up(1), up(2)]
    while len(events) < INPUTS:
        switch, port = chance.randint(1, 4), chance.randint(1, 4)
        source, target = (openflow.host(chance.randint(1, 40)) for _ in range(2))
        match chance.randrange(20):
            case 0:
                events.append(wire.Down(switch))
            case 1:
                events.append(up(switch))
            case 2:
                events.append(chance.choice(REQUESTS))
            case 3:
                events.append(wire.Message(switch, chance.randbytes(12)))
            case 4:
                events.append(wire.Message(switch, openflow.port_status(switch, port, chance.randrange(3))))
            case 5:
                events.append(wire.Tick())
            case _:
                events.append(wire.Message(switch, openflow.packet_in(port, openflow.arp(source, target))))
    return events


def straight(apps: list[str], ryu: Path, events: list[wire.Event]) -> list[wire.Result]:
    with Hosted(*apps, path=[ryu]) as host:
        return host.batch(events, STEP_NS)


def resumed(apps: list[str], ryu: Path, after: wire.Checkpointed) -> Hosted:
    return Hosted(*apps, path=[ryu], after=after, now_ns=BEGIN + after.number * STEP_NS)


@pytest.mark.parametrize(
    "apps",
    [
        ["ryu.app.simple_switch_13"],
        ["ryu.app.simple_switch_rest_13", "ryu.app.ofctl_rest"],
        [app("keeping")],
        ["ryu.app.rest_firewall"],
        [app("closing"), "ryu.app.simple_switch_13"],
        ["ryu.app.simple_monitor_13"],
    ],
    ids=["switch", "rest", "keeping", "firewall", "closing", "monitor"],
)
def test_goes_on_as_if_it_had_executed_all(ryu: Path, apps: list[str]) -> None:
    events = traffic(len(Path(apps[0]).name))  # wherever the repository lies
    expected = straight(apps, ryu, events)
    assert sum(len(result.commands) for result in expected) > 20
    chance = random.Random(1)
    with Hosted(*apps, path=[ryu]) as host:
        done = 0
        for cut in sorted(chance.sample(range(40, INPUTS), 2)):
            assert same(
                host.batch(events[done:cut], STEP_NS), expected[done:cut]
            ), "taking a checkpoint changes nothing"
            after = host.checkpoint()
            assert (after.number, after.reason) == (cut, "") and after.state
            with resumed(apps, ryu, after) as other:
                half = (cut + INPUTS) // 2
                assert same(other.batch(events[cut:half], STEP_NS), expected[cut:half])
                second = other.checkpoint()  # of a host that began with one
                assert same(other.batch(events[half:], STEP_NS), expected[half:])
            with resumed(apps, ryu, second) as third:
                assert same(third.batch(events[half:], STEP_NS), expected[half:])
            done = cut


def test_state_of_modules_is_kept_wherever_they_are_installed(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    (folder / "ryu" / "app").mkdir(parents=True)
    (folder / "kept").mkdir()
    source = (APPS / "keeping.py").read_text()
    events = traffic(1)
    for file, name in (("ryu/app/of_ryu.py", "ryu.app.of_ryu"), ("kept/main.py", "kept.main")):
        (folder / file).write_text(source)
        expected = straight([name], folder, events)
        with Hosted(name, path=[folder]) as host:
            host.batch(events[:100], STEP_NS)
            after = host.checkpoint()
        assert after.reason == ""
        with resumed([name], folder, after) as other:
            assert same(other.batch(events[100:], STEP_NS), expected[100:])


def same(left: list[wire.Result], right: list[wire.Result]) -> bool:
    for one, other in zip(left, right, strict=True):
        for mine, wanted in zip(one.lines, other.lines, strict=False):
            assert mine == wanted, f"input {one.number}"
        assert one == other
    return True


def refused(app_name: str, ryu: Path, *events: wire.Event) -> str:
    with Hosted(app_name, path=[ryu]) as host:
        host.batch(events, STEP_NS)
        done = host.checkpoint()
        assert done.state == b"" and done.number == len(events)
        return done.reason


def packet(port: int) -> wire.Message:
    return wire.Message(1, openflow.packet_in(port, openflow.arp(openflow.host(port))))


@pytest.mark.parametrize(
    ("name", "events", "reason"),
    [
        (app("waiting"), [wire.Request(1, "GET", "/sleep/5", [], b"")], r"waiting: a request waits in sleep"),
        (app("sleepy"), [up(1), packet(1)], r"sleepy: a handler waits in packet_in \(sleepy.py:\d+\)"),
        (app("unkept"), [up(1), packet(1)], r"unkept: self.file: TypeError: .*TextIOWrapper"),
        (app("unkept"), [up(1), packet(2)], r"unkept: self.function: .*<lambda>"),
        (app("unkept"), [up(1), packet(3)], r"unkept: LOCKS: a lock is held"),
        (app("unkept"), [up(1), packet(4)], r"unkept: a green thread is to start Unkept.later"),
        (app("unkept"), [up(1), packet(5)], r"a timer runs that no green thread waits for"),
        (app("unkept"), [up(1), packet(6)], r"unkept: Unkept.shared: TypeError: .*generator"),
        (app("unkept"), [up(1), packet(7)], r"unkept: self.error: TypeError: Fussy.__init__\(\) missing"),
        (app("unkept"), [up(1), packet(8)], r"unkept: a green thread waits in wait \(threading.py:\d+\)"),
        (
            app("unkept"),
            [wire.Request(1, "GET", "/wait", [], b"")],
            r"unkept: a request waits in wait \(unkept.py:\d+\)",
        ),
        (app("unkept"), [up(1), packet(9)], r"routes were added"),
        (app("unkept"), [up(1), packet(10)], r"unkept: self.chain: RecursionError"),
        (app("unkept"), [up(1), packet(11), packet(1)], r"unkept: its event loop has ended"),
    ],
)
def test_what_cannot_be_kept_is_named(ryu: Path, name: str, events: list[wire.Event], reason: str) -> None:
    said = refused(name, ryu, *events)
    assert re.match(reason, said), said


def test_before_the_first_input(ryu: Path) -> None:
    with Hosted(app("keeping"), path=[ryu]) as host:
        assert host.checkpoint().reason == ""
    events = traffic(1)
    expected = straight(["ryu.app.simple_switch_13"], ryu, events)
    with Hosted("ryu.app.simple_switch_13", path=[ryu]) as host:
        after = host.checkpoint()
    assert after.number == 0 and after.state
    with resumed(["ryu.app.simple_switch_13"], ryu, after) as other:
        assert same(other.batch(events, STEP_NS), expected)


def test_a_checkpoint_of_something_else(ryu: Path) -> None:
    with Hosted("ryu.app.simple_switch_13", path=[ryu]) as host:
        host.batch(traffic(1), STEP_NS)
        after = host.checkpoint()
    with pytest.raises(Died, match="a checkpoint after input 240 of .*SimpleSwitch13.*: wanted is 240 of .*Keeping"):
        resumed([app("keeping")], ryu, after)
    with pytest.raises(Died, match="wanted is 7 of"):
        resumed(["ryu.app.simple_switch_13"], ryu, wire.Checkpointed(7, after.state, ""))
    with pytest.raises(Died, match="without the state"):
        resumed(["ryu.app.simple_switch_13"], ryu, wire.Checkpointed(7, b"", ""))
    with pytest.raises(Died):
        resumed(["ryu.app.simple_switch_13"], ryu, wire.Checkpointed(240, after.state[:-100], ""))

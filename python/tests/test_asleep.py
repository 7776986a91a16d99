"""Green threads that sleep go on from a checkpoint."""

import re
import sys
from pathlib import Path

import openflow
import pytest
from hosting import BEGIN, Hosted

from holdfast_ryu import wire

APP = str(Path(__file__).parent / "apps" / "sleeping.py")
STEP_NS = 100_000_000


def up(switch: int) -> wire.Up:
    return wire.Up(switch, openflow.features(switch), openflow.ports(switch, 24))


def packet(port: int) -> wire.Message:
    return wire.Message(1, openflow.packet_in(port, openflow.arp(openflow.host(port), openflow.host(port % 3 + 1))))


def goes_on(events: list[wire.Event], *apps: str, cuts: list[int], files: tuple[str, ...] = ()) -> list[wire.Result]:
    """Checks that hosts that begin at the cuts, each after the one before, do what one does that executes all."""
    with Hosted(*apps, files=files) as host:
        expected = host.batch(events, STEP_NS)
    with Hosted(*apps, files=files) as host:
        host.batch(events[: cuts[0]], STEP_NS)
        after = host.checkpoint()
        assert (after.number, after.reason) == (cuts[0], "") and after.state
        assert host.batch(events[cuts[0] :], STEP_NS) == expected[cuts[0] :], "taking a checkpoint changes nothing"
    for cut, following in zip(cuts, [*cuts[1:], len(events)], strict=True):
        with Hosted(*apps, files=files, after=after, now_ns=BEGIN + cut * STEP_NS) as host:
            for result, wanted in zip(host.batch(events[cut:following], STEP_NS), expected[cut:following], strict=True):
                assert result == wanted
            after = host.checkpoint()
            assert after.state, after.reason
            for result, wanted in zip(host.batch(events[following:], STEP_NS), expected[following:], strict=True):
                assert result == wanted
    return expected


def test_threads_go_on() -> None:
    results = goes_on([up(1), *[wire.Tick()] * 99], APP, cuts=[1, 2, 37, 61, 62])
    said = [line.text for result in results for line in result.lines]
    for name in ("a", "b", "phases", "deep", "waits", "ends", *(["tries"] if sys.version_info >= (3, 11) else [])):
        assert any(re.match(rf"{name} \d", text) for text in said), name


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        (1, r"sleeping: a green thread waits in in_for \(sleeping.py:\d+\), within `for`"),
        (2, r"sleeping: a green thread waits in in_with \(sleeping.py:\d+\), within `with` or `\w+`"),
        (3, r"sleeping: a green thread waits in in_a_line \(sleeping.py:\d+\), and its line does more before that"),
        (4, r"sleeping: a green thread waits in steps \(sleeping.py:\d+\)"),
        (5, r"sleeping: a green thread waits in in_a_queue \(sleeping.py:\d+\)"),
        (6, r"sleeping: a green thread waits in \w+ .*"),
        (7, r"sleeping: what a green thread knows in with_a_lock \(sleeping.py:\d+\): a lock is held"),
        (8, r"sleeping: a green thread waits in in_several \(sleeping.py:\d+\), within a statement of several lines"),
        (9, r"sleeping: a green thread waits in after_a_call \(sleeping.py:\d+\), and its line calls something .*"),
    ],
)
def test_what_does_not_sleep_so_is_named(way: int, reason: str) -> None:
    with Hosted(APP) as host:
        host.batch([up(1), packet(way)])
        after = host.checkpoint()
        assert not after.state and re.fullmatch(reason, after.reason), after.reason


@pytest.mark.parametrize("apps", [["faucet.faucet"], ["faucet.faucet", "faucet.gauge"]], ids=["alone", "and gauge"])
def test_faucet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apps: list[str]) -> None:
    example = Path(sys.prefix, "etc", "faucet")
    if not example.is_dir():
        pytest.skip("needs faucet")
    contents = {str(tmp_path / name): (example / name).read_bytes() for name in ("faucet.yaml", "acls.yaml")}
    gauge = (example / "gauge.yaml").read_text().replace("/etc/faucet", str(tmp_path))
    contents[str(tmp_path / "gauge.yaml")] = gauge.replace("interval: 10", "interval: 3").encode()
    for name, value in (("LOG", "STDOUT"), ("EXCEPTION_LOG", "STDERR"), ("CONFIG", None)):
        for app in ("faucet", "gauge"):
            monkeypatch.setenv(f"{app.upper()}_{name}", value or str(tmp_path / f"{app}.yaml"))
    events: list[wire.Event] = [wire.Files(1, True, contents), up(1), up(2), *[wire.Tick()] * 20]
    for number in range(60):
        events += [packet(number % 3 + 1), wire.Tick()]
        if number % 20 == 0:
            events.append(wire.Request(number, "GET", "/metrics", [], b""))
            events.append(wire.Request(number, "GET", "/port/9303/metrics", [], b""))
    events.insert(90, wire.Files(2, False, contents | {str(tmp_path / "acls.yaml"): b"acls: {}\n"}))
    results = goes_on(events, *apps, cuts=[1, 60, 100], files=tuple(contents))
    assert sum(len(result.commands) for result in results) > 200
    assert all(not result.failures for result in results)
    answers = {len(result.answers[0].body) for result in results if result.answers and result.answers[0].body}
    assert len(answers) > 3, "metrics of two applications, which change"

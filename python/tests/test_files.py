"""Configuration files that come from the log."""

from pathlib import Path

from hosting import BEGIN, Hosted

from holdfast_ryu import wire

APP = str(Path(__file__).parent / "apps" / "configured.py")
NAME = "/etc/holdfast-test/app.yaml"


def give(host: Hosted, first: bool, content: bytes | None) -> list[str]:
    result = host.one(wire.Files(7, first, {NAME: content}))
    assert [(answer.request_id, answer.status) for answer in result.answers] == [(7, 200)] and not result.failures
    return [line.text for line in result.lines]


def test_reload() -> None:
    begin = BEGIN / 1e9
    with Hosted(APP, files=[NAME]) as host:
        assert f"none: {NAME}, False" in [line.text for line in host.ready.lines]
        assert not host.checkpoint().state, "start() waits for the files"
        assert give(host, True, b"a: 1") == ["start: a: 1"]
        assert give(host, True, b"a: 2") == [], "the first of a later leader"
        assert give(host, False, b"a: 30") == [f"a: 30, 5 bytes, since {begin + 0.003:.3f}"]
        after = host.checkpoint()
        assert after.state, after.reason
        assert give(host, False, b"a: 30") == [f"a: 30, 5 bytes, since {begin + 0.003:.3f}"], "the same, read again"
        assert give(host, False, None) == [f"none: {NAME}, False"]
    with Hosted(APP, files=[NAME], after=after, now_ns=BEGIN + 10**9) as host:
        assert give(host, True, b"a: 4") == [], "a checkpoint has the files"
        assert give(host, False, b"a: 30") == [f"a: 30, 5 bytes, since {begin + 0.003:.3f}"]


def test_start_learns_that_there_is_no_file() -> None:
    with Hosted(APP, files=[NAME]) as host:
        assert give(host, True, None) == ["start: no file"]

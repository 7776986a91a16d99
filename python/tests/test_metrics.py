"""Metrics of applications that share a process."""

from pathlib import Path

import pytest
from hosting import Hosted

from holdfast_ryu import wire

APPS = Path(__file__).parent / "apps"


def get(host: Hosted, path: str, headers: list[tuple[str, str]] | None = None) -> str:
    (answer,) = host.one(wire.Request(1, "GET", path, headers or [], b"")).answers
    assert answer.status == 200
    return answer.body.decode()


def test_each_application_has_its_own() -> None:
    pytest.importorskip("prometheus_client")
    with Hosted("metering", "metering_too", path=[APPS], files=["/etc/holdfast-test/none"]) as host:
        for first in (True, False):
            assert not host.one(wire.Files(1, first, {})).failures
        one, other = "\nreloads 2.0\n", "\nreloads 20.0\n"
        assert one in get(host, "/metrics")
        assert one in get(host, "/port/9302/metrics")
        assert other in get(host, "/port/9303/metrics")
        assert other in get(host, "/metrics", [("Host", "controller:9303")])
        assert one in get(host, "/port/9304/metrics"), "no such port: the first"
        assert "reloads" not in get(host, "/port/9303/metrics?nothing")
        assert "\n# TYPE reloads gauge\nreloads 20.0\n" in get(host, "/port/9303/metrics?reloads")
        assert "process_" not in get(host, "/metrics"), "that is of this process"

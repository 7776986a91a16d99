"""What an application may not do to the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import openflow
import pytest
from hosting import Hosted
from network import Network

from holdfast_ryu import wire
from holdfast_ryu.limits import FILE_BYTES, KEPT

APPS = Path(__file__).parent / "apps"
# INIT is a process 1 that says so when it is harmed, and ends with its child.
REMEDIES = "raise an exception instead", "beside Holdfast", "`ryu: user`", "outside of Holdfast"
TRAP = "trap 'echo harmed >&2' TERM HUP; \"$@\" & wait"
INIT = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", TRAP, "sh"]


def calls() -> list[str]:
    """The names of the calls in the application, which only a host can import."""
    lines = (APPS / "reaching.py").read_text().splitlines()
    return [line.strip().split('"')[1] for line in lines if line.startswith('    "')]


def test_calls_are_refused() -> None:
    """In a process namespace: a call that is not refused harms nothing but the namespace."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    names = calls()
    with Hosted(str(APPS / "reaching.py"), under=INIT) as host:
        host.one(wire.Up(1, openflow.features(1), openflow.ports(1, len(names))))
        for number, name in enumerate(names, 1):
            result = host.one(wire.Message(1, openflow.packet_in(number, openflow.arp(openflow.host(1)))))
            assert len(result.failures) == 1, (name, result)
            assert result.failures[0].owner == "Reaching"
            last = result.failures[0].trace.strip().splitlines()[-1]
            assert f"Reaching called {name.partition(' of multi')[0].partition(',')[0]}: " in last, name
            assert any(remedy in last for remedy in REMEDIES), last
            assert not result.commands and not result.lines, "what it sent for the input is dropped"
        assert "harmed" not in host.close()


def test_limits() -> None:
    with Hosted(str(APPS / "greening.py")) as host:
        status = Path(f"/proc/{host.process.pid}/status").read_text()
        assert "NoNewPrivs:\t1\n" in status
        limits = Path(f"/proc/{host.process.pid}/limits").read_text()
        found = {line[:13]: line.split()[-3:-1] for line in limits.splitlines()}
        rights = int(status.partition("CapPrm:\t")[2].partition("\n")[0], 16)
        assert not rights & ~sum(1 << number for number in KEPT), f"{rights:x}"
        assert found["Max file size"] == [str(FILE_BYTES)] * 2 and found["Max core file"] == ["0", "0"]


def test_addresses_are_those_of_every_process() -> None:
    """Until Python 3.12 the hash of None is its address."""
    allowed = "import ctypes, sys; sys.exit(ctypes.CDLL(None).personality(0x40000) == -1)"
    if subprocess.run([sys.executable, "-c", allowed]).returncode:
        pytest.skip("needs a system that allows personality(2)")
    with Hosted(str(APPS / "greening.py")) as host:
        assert int(Path(f"/proc/{host.process.pid}/personality").read_text(), 16) & 0x40000


def test_eventlet_is_the_hub() -> None:
    with Hosted(str(APPS / "greening.py")) as host:
        network = Network(host, 1, 1)
        network.passes(5)
        answer = network.request("GET", "/metrics")
        assert (answer.status, answer.body) == (200, b"/metrics [(0, 1.5), (1, 1.5), (2, 3.0)]")

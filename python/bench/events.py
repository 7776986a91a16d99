"""Prints as JSON how many events per second a host and os-ken itself execute.

The application is simple_switch_13, with 1000 hosts at 4 ports.

Each event is a PACKET_IN that the application answers with FLOW_MOD and PACKET_OUT.
Needs the sources of Ryu, which the tests download.
"""

import argparse
import json
import os
import random
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]

import openflow
from conftest import fetched
from hosting import BEGIN, Hosted
from plain import Plain

from holdfast_ryu import wire

HOSTS = 1_000
PORTS = 4
ECHO = bytes.fromhex("0800450000540000400040010000c0a80001c0a800020800f7ff0001") + bytes(58)


def talk(events: int) -> list[wire.Message]:
    """All hosts are heard once, then they talk to each other."""
    chance = random.Random(1)
    heard = [packet_in(number, openflow.BROADCAST) for number in range(HOSTS)]
    return heard + [packet_in(chance.randrange(HOSTS), openflow.host(chance.randrange(HOSTS))) for _ in range(events)]


def frames(events: int, batch: int) -> list[bytes]:
    """The inputs, encoded."""
    numbered = [wire.Input(number, BEGIN + number * 100_000, event) for number, event in enumerate(talk(events), 2)]
    return [wire.encode_inputs(numbered[start : start + batch]) for start in range(0, len(numbered), batch)]


def packet_in(source: int, target: str) -> wire.Message:
    frame = openflow.address(target) + openflow.address(openflow.host(source)) + ECHO
    return wire.Message(1, openflow.packet_in(source % PORTS + 1, frame))


def measure(events: int, batch: int, slow: bool) -> dict[str, float]:
    """Runs a host, after a warm-up of all hosts once."""
    with Hosted("ryu.app.simple_switch_13", path=[fetched()], slow=slow, level=30) as host:
        host.one(wire.Up(1, openflow.features(1), openflow.ports(1, PORTS)))
        prepared = frames(events, batch)
        warm = HOSTS // batch
        exchange(host, prepared[:warm])
        cpu, began = cpu_seconds(host.process.pid), time.perf_counter()
        done = exchange(host, prepared[warm:])
        wall, cpu = time.perf_counter() - began, cpu_seconds(host.process.pid) - cpu
    return {"batch": batch, "events_per_s": round(done / wall), "cpu_us_per_event": round(cpu / done * 1e6, 1)}


def measure_plain(events: int) -> dict[str, float]:
    """The same on os-ken with eventlet and its own server; the warm-up is answered by PACKET_OUTs alone."""
    with Plain("ryu.app.simple_switch_13", fetched(), PORTS) as plain:
        made = [event.message for event in talk(events)]
        receive_packet_outs(plain, made[:HOSTS])
        cpu, began = cpu_seconds(plain.process.pid), time.perf_counter()
        receive_packet_outs(plain, made[HOSTS:])
        wall, cpu = time.perf_counter() - began, cpu_seconds(plain.process.pid) - cpu
    return {"events_per_s": round(events / wall), "cpu_us_per_event": round(cpu / events * 1e6, 1)}


def receive_packet_outs(plain: Plain, made: list[bytes]) -> None:
    """Sends all, while reading as many PACKET_OUTs."""
    writer = threading.Thread(target=plain.send, args=(b"".join(made),))
    writer.start()
    done = 0
    while done < len(made):
        done += openflow.kind(plain.receive()) == openflow.PACKET_OUT
    writer.join()


def exchange(host: Hosted, prepared: list[bytes]) -> int:
    """Writes all frames while reading as many results."""
    writer = threading.Thread(target=lambda: [host.session.write(frame) for frame in prepared])
    writer.start()
    wanted = sum(int.from_bytes(frame[5:9], "big") for frame in prepared)
    done = 0
    while done < wanted:
        done += int.from_bytes(host.frame(wire.RESULTS)[:4], "big")
    writer.join()
    return done


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--events", type=int, default=20_000)
    events = arguments.parse_args().events
    report = {
        "python": sys.version.split()[0],
        "fast": measure(events, 250, slow=False),
        "fast_one_by_one": measure(events, 1, slow=False),
        "slow": measure(events, 250, slow=True),
        "plain": measure_plain(events),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

"""Every application of Ryu 4.34, and what docs/applications.md says of it."""

import os
import re
from pathlib import Path

import openflow
import pytest
from hosting import Died, Hosted
from network import Network

from holdfast_ryu import wire

DOCS = Path(__file__).parents[2] / "docs" / "applications.md"
ROW = re.compile(r"^\| `(ryu\.app\.[\w.]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
LINE = [((1, 1), (2, 2)), ((2, 1), (3, 2))]
# LIBRARIES are modules without an application in them.
LIBRARIES = {"conf_switch_key", "wsgi", "ofctl.api", "ofctl.event", "ofctl.exception"}
# REQUESTS are what is asked of those with a REST interface.
REQUESTS = {
    "gui_topology.gui_topology": "/v1.0/topology/switches",
    "ofctl_rest": "/stats/switches",
    "rest_conf_switch": "/v1.0/conf/switches",
    "rest_firewall": "/firewall/module/status",
    "rest_qos": "/qos/queue/status/all",
    "rest_router": "/router/all",
    "rest_topology": "/v1.0/topology/links",
    "simple_switch_rest_13": "/simpleswitch/mactable/0000000000000001",
}
TABLE = {name: (cluster, alone) for name, cluster, alone in ROW.findall(DOCS.read_text())}
EACH = pytest.mark.skipif(os.environ.get("HOLDFAST_MATRIX") != "all", reason="HOLDFAST_MATRIX=all tries each")


def test_table_is_complete(ryu: Path) -> None:
    files = sorted((ryu / "ryu" / "app").rglob("*.py"))
    names = {".".join(file.relative_to(ryu / "ryu" / "app").with_suffix("").parts) for file in files}
    assert set(TABLE) == {f"ryu.app.{name}" for name in names if "__init__" not in name} - {
        f"ryu.app.{name}" for name in LIBRARIES
    }
    said = [word for row in TABLE.values() for word in row]
    assert all(re.match(r"works(;|$)|works with `|refused: |fails: ", word) for word in said), said


@EACH
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("alone", [False, True], ids=["cluster", "run"])
def test_application(ryu: Path, name: str, alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RYU_BMP_OUTPUT_FILE", str(tmp_path / "bmp"))
    monkeypatch.setenv("RYU_BMP_FAILED_DUMP", str(tmp_path / "dump"))
    verdict = TABLE[name][alone]
    apps = [name, *re.findall(r"with `(ryu\.app\.\w+)`", verdict)]
    if verdict.startswith("works"):
        try_out(ryu, apps, alone)
        return
    with pytest.raises((Died, AssertionError)) as failed:
        try_out(ryu, apps, alone)
    assert verdict.partition(": ")[2].replace("`", "") in str(failed.value)


def try_out(ryu: Path, apps: list[str], alone: bool) -> None:
    """Three switches in a line, two hosts, half a minute, and a request."""
    with Hosted(*apps, path=[ryu], options=["--observe-links"], alone=alone) as host:
        network = Network(host, 3, 3, LINE)
        for switch in (1, 2):
            network.frame(switch, 3, openflow.arp(openflow.host(switch)))
        network.passes(30)
        network.run(wire.Message(3, openflow.port_status(3, 2, 1)))
        path = REQUESTS.get(apps[0].removeprefix("ryu.app."))
        if path is not None:
            answer = network.request("GET", path)
            assert answer.status == 200, answer
        if apps[0] == "ryu.app.rest_vtep":
            speaker = b'{"dpid": 1, "as_number": 65000, "router_id": "10.0.0.1"}'
            answer = network.request("POST", "/vtep/speakers", speaker)
            assert answer.status == 200, answer
        network.run(wire.Down(2))
        network.passes(5)

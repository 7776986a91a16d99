"""The client of the store, and what it makes of controllers that fail, refuse, or have closed its connection."""

import asyncio
import ssl
import subprocess
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from storing import LAST, Controller

from holdfast import api, store

TOKENS = ["holdfast-one", "holdfast-two"]

Kind = type[store.Client] | type[store.AsyncClient]


@pytest.fixture(params=[store.Client, store.AsyncClient])
def kind(request: pytest.FixtureRequest) -> Kind:
    client: Kind = request.param
    return client


def done(result: Any) -> Any:
    """What a method of either client returns."""
    return asyncio.run(result) if isinstance(result, Coroutine) else result


@pytest.fixture(scope="session")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[store.TLS, dict[str, ssl.SSLContext]]:
    """The files of a client, and what servers with a certificate of each role have."""
    folder: Path = tmp_path_factory.mktemp("pki")
    servers, authorities = {}, b""
    for role in "controller", "agent":
        cert, key = folder / f"{role}.pem", folder / f"{role}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-subj", f"/CN={role}", "-addext", f"subjectAltName=URI:holdfast://{role}/c1",
                        "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
        servers[role] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        servers[role].load_cert_chain(cert, key)
        authorities += cert.read_bytes()
    (folder / "ca.pem").write_bytes(authorities)
    return store.TLS(str(folder / "ca.pem")), servers


def test_new_connection_has_the_new_token(kind: Kind, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKENS[0])
    with Controller(LAST) as controller:
        client = kind([controller.address], token_file=str(file))
        done(client.get("t", "k"))
        file.write_text(TOKENS[1])
        done(client.get("t", "k"))
        done(client.close())
        assert controller.connections == 2
        assert controller.tokens == [f"Bearer {token}" for token in TOKENS]


def test_new_connection_is_checked(kind: Kind, contexts: tuple[store.TLS, dict[str, ssl.SSLContext]]) -> None:
    tls, servers = contexts
    with Controller(LAST, context=servers["controller"]) as controller:
        client = kind([controller.address], tls=tls)
        done(client.get("t", "k"))
        controller.context = servers["agent"]
        with pytest.raises(store.StoreError, match="not of a controller"):
            done(client.get("t", "k"))
        done(client.close())
        assert len(controller.requests) == 1


def test_new_connection_of_the_api_is_checked(contexts: tuple[store.TLS, dict[str, ssl.SSLContext]]) -> None:
    tls, servers = contexts
    with Controller(LAST, context=servers["controller"]) as controller, api.Client([controller.address], tls=tls) as c:
        c.get_status()
        controller.context = servers["agent"]
        with pytest.raises(store.StoreError, match="not of a controller"):
            c.get_status()
        assert len(controller.requests) == 1

"""The client of the store, and what it makes of controllers that fail, refuse, or have closed its connection."""

import asyncio
import ssl
import subprocess
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from storing import LAST, LOST, Controller

from holdfast import api, store

TOKENS = ["holdfast-one", "holdfast-two"]

Kind = type[store.Client] | type[store.AsyncClient]
Contexts = dict[str, ssl.SSLContext]  # of servers with a certificate of each role


@pytest.fixture(params=[store.Client, store.AsyncClient])
def kind(request: pytest.FixtureRequest) -> Kind:
    client: Kind = request.param
    return client


def done(result: Any) -> Any:
    """What a method of either client returns."""
    return asyncio.run(result) if isinstance(result, Coroutine) else result


@pytest.fixture(scope="session")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[store.TLS, Contexts]:
    """The files of a client, and what the servers have."""
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


def test_refused_token_is_read_again(kind: Kind, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKENS[0])
    with Controller(None, 401) as controller:
        client = kind([controller.address], token_file=str(file))
        done(client.get("t", "k"))
        with pytest.raises(store.StoreError, match="refused"):
            done(client.get("t", "k"))
        file.write_text(TOKENS[1])
        done(client.get("t", "k"))
        done(client.close())
        assert controller.tokens == [f"Bearer {token}" for token in (TOKENS[0], *TOKENS)]


def test_new_connection_is_checked(kind: Kind, contexts: tuple[store.TLS, Contexts]) -> None:
    tls, servers = contexts
    with Controller(LAST, context=servers["controller"]) as controller:
        client = kind([controller.address], tls=tls)
        done(client.get("t", "k"))
        controller.context = servers["agent"]
        with pytest.raises(store.StoreError, match="not of a controller"):
            done(client.get("t", "k"))
        done(client.close())
        assert len(controller.requests) == 1


def test_new_connection_of_the_api_is_checked(contexts: tuple[store.TLS, Contexts]) -> None:
    tls, servers = contexts
    with Controller(LAST, context=servers["controller"]) as controller, api.Client([controller.address], tls=tls) as c:
        c.get_status()
        controller.context = servers["agent"]
        with pytest.raises(store.StoreError, match="not of a controller"):
            c.get_status()
        assert len(controller.requests) == 1


class Clock:
    """The clock of the client, which a test advances."""

    def __init__(self) -> None:
        self._advance = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._advance

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def advance(self, seconds: float) -> None:
        self._advance += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(store, "time", clock)
    return clock


@pytest.mark.parametrize("namespace", ["default", "buckets/2"])
def test_write_after_a_long_pause(kind: Kind, clock: Clock, namespace: str) -> None:
    """The controller has closed the connection meanwhile, and the namespace has removed the session."""
    with Controller() as controller:
        client = kind([controller.address], namespace)
        assert done(client.add("t", "k", 1)) == 1
        clock.advance(100)
        controller.hang_up()
        controller.sessions.clear()
        assert done(client.add("t", "k", 1)) == 2
        done(client.close())
        replaced = ["close_session"] if "/" in namespace else []
        assert controller.ops() == ["open_session", "add", "open_session", *replaced, "add", "close_session"]


def test_write_after_a_short_pause(kind: Kind, clock: Clock) -> None:
    """A connection that the controller is about to close is not used, and a session that it keeps is."""
    with Controller() as controller:
        client = kind([controller.address])
        for _ in range(3):
            clock.advance(25)
            done(client.add("t", "k", 1))
        assert controller.connections == 3
        clock.advance(10)
        done(client.add("t", "k", 1))
        assert controller.connections == 3
        done(client.close())
        assert controller.ops() == ["open_session", "add", "add", "add", "add", "close_session"]


def test_only_reads_do_not_prolong_the_session(kind: Kind, clock: Clock) -> None:
    with Controller() as controller:
        client = kind([controller.address])
        for pause in (30, 30, 30, 50):
            done(client.run("component"))
            clock.advance(pause - 20)
            done(client.get("t", "k"))
            clock.advance(20)
        done(client.run("component"))
        done(client.close())
        assert controller.ops() == ["open_session", *["run", "get"] * 4, "open_session", "run", "close_session"]


def test_close_after_a_long_pause(kind: Kind, clock: Clock) -> None:
    """A session is not opened only to be closed."""
    with Controller() as controller:
        client = kind([controller.address], "buckets/2")
        done(client.add("t", "k", 1))
        clock.advance(100)
        done(client.close())
        assert controller.ops() == ["open_session", "add", "close_session"]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_refusal_after_a_lost_answer(kind: Kind, status: int) -> None:
    """A refusal says nothing of the attempts before it."""
    with Controller(None, LOST, status, status, LOST, status) as controller:
        client = kind([controller.address])
        with pytest.raises(store.UnknownError, match="read before you repeat it"):
            done(client.add("t", "k", 1))
        with pytest.raises(store.StoreError):  # it is the first attempt
            done(client.add("t", "k", 1))
        with pytest.raises(store.StoreError):  # a read changes nothing
            done(client.get("t", "k"))
        assert done(client.add("t", "k", 1)) == 2
        done(client.close())


def test_wrong_certificate_after_a_lost_answer(kind: Kind, contexts: tuple[store.TLS, Contexts]) -> None:
    tls, servers = contexts
    with Controller(None, LOST, context=servers["controller"]) as one, Controller(context=servers["agent"]) as other:
        client = kind([one.address, other.address], tls=tls)
        with pytest.raises(store.UnknownError, match="not of a controller"):
            done(client.add("t", "k", 1))
        done(client.close())


def test_no_token_after_a_lost_answer(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is being written has no token yet."""
    file = tmp_path / "token"
    file.write_text(TOKENS[0])
    read, mistakes = store._authorization, []

    def authorization(token_file: str) -> dict[str, str]:
        try:
            return read(token_file)
        except ValueError as e:
            mistakes.append(e)
            file.write_text(TOKENS[1])
            raise

    with Controller(None, LOST) as controller:
        controller.lost = lambda: file.write_text("")
        client = kind([controller.address], token_file=str(file))
        monkeypatch.setattr(store, "_authorization", authorization)
        assert done(client.add("t", "k", 1)) == 1
        assert len(mistakes) == 1
        done(client.close())


def test_no_answer_after_a_lost_one(kind: Kind) -> None:
    with Controller(None, LOST, b"<html>") as controller:
        client = kind([controller.address])
        assert done(client.add("t", "k", 1)) == 1
        done(client.close())


def test_cancelled_watch_ends_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers, so the thread is told by nothing else. The interpreter waits for it when it exits."""
    threads: list[threading.Thread] = []
    tried, failed = threading.Event(), False

    def refuse(*_: object) -> None:
        threads.append(threading.current_thread())
        tried.set()
        raise store.StoreError("failed", "so that the thread ends") if failed else ConnectionRefusedError()

    async def watch() -> None:
        async for _ in store.AsyncClient(["127.0.0.1:1", "127.0.0.1:2"]).watch():
            pass

    async def cancel() -> None:
        watching = asyncio.create_task(watch())
        await asyncio.to_thread(tried.wait)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching

    monkeypatch.setattr(store, "_open", refuse)
    asyncio.run(cancel())
    threads[0].join(10)
    failed = threads[0].is_alive()
    assert not failed


def told(revision: int) -> dict[str, Any]:
    return {"revision": str(revision)}


def refused(code: str) -> list[dict[str, Any]]:
    """A watch that is refused."""
    return [{"error": {"code": code}}]


def watched(kind: Kind, addresses: list[str], after: int) -> tuple[list[store.Revision], str]:
    """The revisions that a watch yields, and the code that it ends with."""
    revisions: list[store.Revision] = []

    async def watch(client: store.AsyncClient) -> None:
        async for revision, _ in client.watch(after=after):
            revisions.append(revision)

    with pytest.raises(store.StoreError) as raised:
        client = kind(addresses)
        if isinstance(client, store.AsyncClient):
            asyncio.run(watch(client))
        else:
            revisions.extend(revision for revision, _ in client.watch(after=after))
    return revisions, raised.value.code


FORGOTTEN, UNAVAILABLE, NO_REPLICA = refused("forgotten"), refused("unavailable"), refused("no_replica")


@pytest.mark.parametrize(("one", "other", "revisions", "code"), [
    ([FORGOTTEN, FORGOTTEN, 404], [UNAVAILABLE, [told(5)]], [5], "failed"),
    ([FORGOTTEN, FORGOTTEN, 404], [[told(5)], FORGOTTEN], [5], "forgotten"),
    ([FORGOTTEN, FORGOTTEN, 404], [[told(5)], [told(6)]], [5, 6], "failed"),
    ([FORGOTTEN, FORGOTTEN, 404], [NO_REPLICA, NO_REPLICA], [], "no_replica"),
])
def test_watch_ends_if_no_controller_has_the_changes(kind: Kind, one: list[Any], other: list[Any],
                                                     revisions: list[int], code: str) -> None:
    with Controller(*one) as first, Controller(*other) as second:
        assert watched(kind, [first.address, second.address], 4) == (revisions, code)

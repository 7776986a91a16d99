"""A client of the consistent data store of Holdfast: one namespace, from any process.

    with Client(["10.0.0.1:8080", "10.0.0.2:8080"]) as store:
        store.create_table("hosts", ["mac", "port"])
        store.put("hosts", "10.0.0.1", {"mac": b"00:00:00:00:00:01", "port": b"7"})
        print(store.get("hosts", "10.0.0.1").columns["port"])

Reads and writes are linearizable. A request is repeated at one controller after the other until one answers, and takes
effect once. It needs nothing but Python. The operations and their errors are those of `holdfast store proto`.

A namespace called NAME/N, such as "flows/16", is divided into N buckets, which different controllers execute. There, a
transaction is for rows of one bucket, and `run` has a key. Methods that say nothing else work as in any namespace.
"""

import asyncio
import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

_PATH = "/holdfast.store.v1.Store/"
_ATTEMPT_SECONDS = 8.0  # controllers answer within 5
_LEAST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 0.002, 0.2
_CLOSE_SECONDS = 1.0
_SESSION_SECONDS = 30.0  # in a namespace with buckets; a bucket to which nothing is written keeps it for a minute
_OPEN_SECONDS, _OPEN_PAUSE_SECONDS = 2.0, 10.0  # of an attempt to open the next one, and after it
# A controller closes a connection after 30 s without a request, and a namespace keeps a session for a minute after its
# last write. A write on a closed connection is lost, and sent again. If the session has expired too, nobody knows
# whether it was executed. So both are replaced in time: a session 15 s before, in which the write is to be executed.
_IDLE_CONNECTION_SECONDS, _IDLE_SESSION_SECONDS = 20.0, 45.0
_MOST_LACK = 2  # how often each controller has to say that it has no replica: buckets may be moving
_REFUSED = (401, 403)  # the status if a controller does not know who asks, or does not allow it
_FAILURES = (OSError, http.client.HTTPException, ValueError)  # of a connection, a token file, or what is no answer

Columns = Mapping[str, bytes]
Revision = int | tuple[int, ...]  # in a namespace with buckets, that of each bucket


class StoreError(Exception):
    """The namespace refuses a transaction, and has not changed. `code` is that of the interface, such as "not_found",
    "conflict" or "too_large"; `op` is the index of the operation, or None."""

    def __init__(self, code: str, message: str, op: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.op = op


class UnknownError(Exception):
    """A transaction that writes was not answered in time: it was executed once, or was not, or may still be."""


class NobodyAnswersError(Exception):
    """Nothing was executed, or only reads were, because no controller has answered in time."""


@dataclass(frozen=True)
class TLS:
    """The files of a client of a cluster with TLS, in PEM: the authority's certificate, and its own with the key. The
    role of its own is client or operator (`holdfast pki issue client NAME`). A client that has a token needs only the
    authority's."""

    ca: str
    cert: str = ""
    key: str = ""

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.check_hostname = False  # the certificate names a controller, and not its address
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context


def _open(address: str, timeout_seconds: float, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    """Connects to a controller. The connection never connects again by itself, since that would check nothing: if the
    controller has closed it, its `sock` is None."""
    if not tls:
        connection = http.client.HTTPConnection(address, timeout=timeout_seconds)
        connection.auto_open = 0
        connection.connect()
        return connection
    secure = http.client.HTTPSConnection(address, timeout=timeout_seconds, context=tls)
    secure.auto_open = 0
    secure.connect()
    peer: Any = secure.sock.getpeercert() or {}
    names = [name for kind, name in peer.get("subjectAltName", ()) if kind == "URI"]
    if not any(name.startswith("holdfast://controller/") for name in names):
        secure.close()
        raise StoreError("failed", f"{address}: its certificate is of {names}, and not of a controller")
    return secure


@dataclass(frozen=True)
class Row:
    key: str
    version: int
    columns: dict[str, bytes]


@dataclass(frozen=True)
class Result:
    """What an operation has read, or the version of what it has written."""

    version: int = 0
    row: Row | None = None  # of get and resolve
    rows: list[Row] = field(default_factory=list)  # of list
    next: str = ""  # of list: if there is more, where the next one starts
    value: int = 0  # of add
    session: int = 0
    tables: dict[str, Any] = field(default_factory=dict)  # of list_tables
    revision: Revision = 0  # of the namespace: `watch` after the one of a list tells what has changed since


@dataclass(frozen=True)
class Change:
    """A change of a row or, if key is "", of a table."""

    revision: int
    table: str
    key: str = ""
    removed: bool = False
    columns: dict[str, bytes] = field(default_factory=dict)  # all of the row
    definition: dict[str, Any] | None = None  # of a table that was created


Op = dict[str, Any]


def op(kind: str, table: str = "", key: str = "", *, columns: Columns | None = None, if_version: int | None = None,
       if_columns: Columns | None = None, **more: Any) -> Op:
    """Returns an operation for `transaction`. `more` are fields of the interface, such as only, delta, start, end,
    prefix, limit and definition."""
    o: Op = {"op": kind, "table": table, "key": key, **more}
    if columns is not None:
        o["columns"] = _encoded(columns)
    if if_version is not None or if_columns is not None:
        o["condition"] = {"columns": _encoded(if_columns or {})}
        if if_version is not None:
            o["condition"]["version"] = str(if_version)
    return o


_READS = ("get", "list", "resolve", "list_tables", "list_components")


class Client:
    """A client of one namespace. It may be used by several threads; they take turns. Addresses are HOST:PORT, as
    controllers have them as `rest` in the cluster file. If that has `tls`, so has the client: its files are read
    once. A client without a certificate has a token of `holdfast token add`, in a file that is read for each
    connection. Methods raise StoreError, UnknownError and NobodyAnswersError."""

    def __init__(self, addresses: Sequence[str], namespace: str = "default", timeout_seconds: float = 15.0,
                 tls: TLS | None = None, token_file: str = "") -> None:
        if isinstance(addresses, str):
            raise ValueError(f"addresses is a list, such as [{addresses!r}]")
        if not addresses:
            raise ValueError("no controller has a `rest` address: add one to each controller in the cluster file")
        self._addresses = list(addresses)
        self._namespace = namespace
        self._timeout = timeout_seconds
        self._tls = tls._context() if tls else None
        self._token_file = token_file
        _authorization(token_file)  # a mistake is reported at once
        self._turn = threading.Lock()  # guards the rest
        self._at = 0
        self._connection: http.client.HTTPConnection | None = None
        self._answered = 0.0  # when the last answer came
        self._headers: dict[str, str] = {}
        self._session = 0
        self._session_end = 0.0  # from then on, the next one is asked for
        self._written = 0.0  # when the last write that is known to have prolonged the session was sent
        self._seq = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session, which expires otherwise, and closes the connection."""
        with self._turn:
            if self._session:
                self._close_session(self._session, self._seq + 1, time.monotonic() + _CLOSE_SECONDS)
            self._session = 0
            self._disconnect()

    def transaction(self, *ops: Op) -> list[Result]:
        """Executes operations as one transaction, and returns a result for each."""
        with self._turn:
            return self._execute(list(ops), time.monotonic() + self._timeout)

    def create_table(self, table: str, columns: Sequence[str] = ("value",), refers_to: str = "",
                     through: str = "") -> int:
        definition = {"columns": list(columns), "refers_to": refers_to, "through": through}
        return self.transaction(op("create_table", table, definition=definition))[0].version

    def get(self, table: str, key: str, *only: str) -> Row:
        row = self.transaction(op("get", table, key, only=list(only)))[0].row
        assert row is not None
        return row

    def resolve(self, table: str, key: str, *only: str) -> Row:
        row = self.transaction(op("resolve", table, key, only=list(only)))[0].row
        assert row is not None
        return row

    def create(self, table: str, key: str, columns: Columns) -> int:
        return self.transaction(op("create", table, key, columns=columns))[0].version

    def put(self, table: str, key: str, columns: Columns, if_version: int | None = None) -> int:
        return self.transaction(op("put", table, key, columns=columns, if_version=if_version))[0].version

    def update(self, table: str, key: str, columns: Columns, if_version: int | None = None) -> int:
        return self.transaction(op("update", table, key, columns=columns, if_version=if_version))[0].version

    def delete(self, table: str, key: str, if_version: int | None = None) -> int:
        return self.transaction(op("delete", table, key, if_version=if_version))[0].version

    def add(self, table: str, key: str, delta: int, column: str = "") -> int:
        """Adds to a counter, and returns the sum."""
        return self.transaction(op("add", table, key, delta=str(delta), column=column))[0].value

    def upload(self, component: str, source: str, if_version: int | None = None) -> int:
        """Makes or replaces a component: a program in a subset of Starlark that runs beside the data."""
        return self.transaction(op("upload", component=component, source=source, if_version=if_version))[0].version

    def run(self, component: str, arguments: Columns | None = None, key: str = "") -> Result:
        """Runs a component as one transaction. What it returns is in `row`, or in `rows` if that is a list. In a
        namespace with buckets, it runs in the bucket of rows with the key."""
        return self.transaction(op("run", key=key, component=component, columns=arguments or {}))[0]

    def list_rows(self, table: str, prefix: str = "", start: str = "", end: str = "") -> list[Row]:
        """Returns the rows of a range in order, in as many requests as that takes: rows may change between these."""
        rows: list[Row] = []
        while True:
            out = self.transaction(op("list", table, prefix=prefix, start=start, end=end))[0]
            rows += out.rows
            if not out.next:
                return rows
            start = out.next

    def watch(self, table: str = "", prefix: str = "",
              after: Revision | None = None) -> Iterator[tuple[Revision, list[Change]]]:
        """Yields the changes after a revision, each once and in order, with the revision up to which all were yielded.
        It yields without changes too, about once a second. Without `after`, it begins with the present revision. It has
        a connection of its own, goes on at another controller if one fails, and ends with StoreError: if the code is
        "forgotten", read what is there now, and watch from there. It is "no_replica" if none of the addresses is of a
        controller that has a replica of what has changed."""
        return self._watch(table, prefix, after, threading.Event())

    def _watch(self, table: str, prefix: str, after: Revision | None,
               ended: threading.Event) -> Iterator[tuple[Revision, list[Change]]]:
        """Is watch until an event is set. It then ends after the attempt at one controller."""
        pause, at, refusals = _LEAST_PAUSE_SECONDS, 0, _Refusals(self._addresses)
        while not ended.is_set():
            request: dict[str, Any] = {"namespace": self._namespace, "table": table, "prefix": prefix}
            if isinstance(after, tuple):
                request["revisions"] = [str(revision) for revision in after]
            elif after is not None:
                request["after"] = str(after)
            try:
                for response in _stream(self._addresses[at], self._tls, self._token_file, "Watch", request):
                    why = response.get("error")
                    if why:
                        raise StoreError(why["code"], why.get("message", ""))
                    pause = _LEAST_PAUSE_SECONDS
                    revision = _told(after, response)
                    if revision != after:
                        refusals = _Refusals(self._addresses)
                    after = revision
                    yield revision, [_change(c) for c in response.get("changes", [])]
            except StoreError as e:
                if refusals.final(self._addresses[at], e.code):
                    raise
            except _FAILURES:
                pass
            ended.wait(pause)
            pause = min(2 * pause, _MOST_PAUSE_SECONDS)
            at = (at + 1) % len(self._addresses)

    def _execute(self, ops: list[Op], end: float) -> list[Result]:
        if all(o["op"] in _READS for o in ops):
            answer, _ = self._ask({"transactions": [{"ops": ops}]}, end)
            return _outcome(answer)
        while True:
            began = time.monotonic()
            buckets = "/" in self._namespace
            if not self._session or not buckets and began > self._written + _IDLE_SESSION_SECONDS:
                self._open_session(end)
            elif buckets and began > self._session_end:
                self._next_session(end)
            self._seq += 1
            request = {"session": str(self._session), "seq": str(self._seq), "acked": str(self._seq - 1),
                       "transactions": [{"ops": ops}]}
            answer, attempts = self._ask(request, end)  # the next request acknowledges this one, answered or not
            why = answer.get("error")
            if why and why["code"] == "expired":
                self._session = 0
                if attempts == 1:  # nobody can have executed it
                    continue
                raise UnknownError(why["message"])
            if why and attempts > 1:  # it says nothing of the first attempt
                self._session = 0
                raise UnknownError(why["message"])
            if not why:
                self._written = began
            return _outcome(answer)

    def _open_session(self, end: float) -> None:
        began = time.monotonic()
        opened, _ = self._ask({"transactions": [{"ops": [op("open_session")]}]}, end)
        self._session, self._seq = _outcome(opened)[0].session, 0
        self._session_end, self._written = began + _SESSION_SECONDS, began

    def _close_session(self, session: int, seq: int, end: float) -> None:
        """Closes a session by the request with this number. If that fails, it expires."""
        close = {"session": str(session), "seq": str(seq), "acked": str(seq - 1),
                 "transactions": [{"ops": [op("close_session")]}]}
        try:
            self._ask(close, end)
        except (StoreError, UnknownError, NobodyAnswersError):
            pass

    def _next_session(self, end: float) -> None:
        """Replaces the session. A bucket without a leader must not stop the writes to others: if the next session
        cannot be opened now, the present one is used until a bucket has forgotten it."""
        session, seq = self._session, self._seq
        try:
            self._open_session(min(end, time.monotonic() + _OPEN_SECONDS))
        except (StoreError, NobodyAnswersError):
            self._session_end = time.monotonic() + _OPEN_PAUSE_SECONDS
            return
        self._close_session(session, seq + 1, min(end, time.monotonic() + _CLOSE_SECONDS))

    def _ask(self, request: dict[str, Any], end: float) -> tuple[dict[str, Any], int]:
        """Returns the response, and how often the request was sent to a controller that may have received it."""
        body = json.dumps({"namespace": self._namespace, **request})
        pause, attempts, why = _LEAST_PAUSE_SECONDS, 0, "nothing was sent"
        while time.monotonic() < end:
            try:
                answer, why = self._send(self._connect(end), body)
            except StoreError as e:
                self._disconnect()  # the next request has the token that the file has then
                if attempts and "session" in request:  # it says nothing of the attempts before
                    raise _unknown(e) from e
                raise
            except _FAILURES as e:  # it was not sent
                why = str(e)
            else:
                attempts += 1
                if answer is not None:
                    self._answered = time.monotonic()
                    return answer, attempts
            self._disconnect()
            self._at = (self._at + 1) % len(self._addresses)
            time.sleep(max(0.0, min(pause, end - time.monotonic())))
            pause = min(2 * pause, _MOST_PAUSE_SECONDS)
        if attempts and "session" in request:
            raise _unknown(why)
        raise NobodyAnswersError(f"no controller answers: {why}")

    def _connect(self, end: float) -> http.client.HTTPConnection:
        timeout = max(0.001, min(_ATTEMPT_SECONDS, end - time.monotonic()))
        if time.monotonic() > self._answered + _IDLE_CONNECTION_SECONDS:
            self._disconnect()
        if self._connection is None or self._connection.sock is None:
            self._headers = _authorization(self._token_file)
            self._connection = _open(self._addresses[self._at], timeout, self._tls)
        self._connection.sock.settimeout(timeout)  # of this attempt
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, connection: http.client.HTTPConnection, body: str) -> tuple[dict[str, Any] | None, str]:
        """Returns the response, or None and why there is none."""
        address = self._addresses[self._at]
        try:
            connection.request("POST", _PATH + "Do", body,
                               {"Content-Type": "application/json", **self._headers})
            response = connection.getresponse()
            text = response.read()
            answer: dict[str, Any] = json.loads(text) if response.status == 200 else {}
        except _FAILURES as e:
            return None, f"{address}: {e!r}"
        if response.status == 404:
            raise StoreError("failed", f"{address} has no store: add store to `apps` in the cluster file")
        if response.status in _REFUSED:
            raise StoreError("denied", f"{address}: {text.decode(errors='replace').strip()}")
        if response.status < 500 and response.status != 200:
            raise StoreError("failed", f"{address}: {text.decode(errors='replace')}")
        if response.status != 200:
            return None, f"{address}: status {response.status}"
        if answer.get("error", {}).get("code") in ("unavailable", "unknown"):
            return None, f"{address}: {answer['error']['message']}"
        return answer, ""


class _Refusals:
    """What controllers have said of the next changes of a watch."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._forgotten = dict.fromkeys(addresses, False)
        self._lack = dict.fromkeys(addresses, 0)  # how often one has said that it has no replica

    def final(self, address: str, code: str) -> bool:
        """Reports whether the watch ends with what a controller says: the others would say the same."""
        if code == "forgotten":
            self._forgotten[address] = True
            return all(self._forgotten.values())
        if code == "no_replica":
            self._lack[address] += 1
            return all(self._forgotten[a] or lack >= _MOST_LACK for a, lack in self._lack.items())
        return code not in ("unavailable", "unknown")


def _unknown(why: object) -> UnknownError:
    return UnknownError(f"not known whether the request was executed, so read before you repeat it: {why}")


def _authorization(token_file: str) -> dict[str, str]:
    """Returns the header with the token in a file."""
    if not token_file:
        return {}
    with open(token_file, encoding="utf-8") as f:
        words = f.read(1024).split()
    if len(words) != 1 or not words[0].startswith("holdfast-"):
        raise ValueError(f"{token_file} has no token: write into it only what `holdfast token add` has printed")
    return {"Authorization": "Bearer " + words[0]}


def _stream(address: str, tls: ssl.SSLContext | None, token_file: str, method: str,
            request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the responses to a request that has many (https://connectrpc.com/docs/protocol)."""
    connection = _open(address, _ATTEMPT_SECONDS, tls)
    try:
        body = json.dumps(request).encode()
        connection.request("POST", _PATH + method, b"\0" + len(body).to_bytes(4, "big") + body,
                           {"Content-Type": "application/connect+json", **_authorization(token_file)})
        response = connection.getresponse()
        if response.status == 404:
            raise StoreError("failed", f"{address} has no store: add store to `apps` in the cluster file")
        if response.status in _REFUSED:
            raise StoreError("denied", f"{address}: {response.read(4096).decode(errors='replace').strip()}")
        if response.status != 200:
            raise OSError(f"{address}: status {response.status}")
        while True:
            head = _exactly(response, 5)
            message: dict[str, Any] = json.loads(_exactly(response, int.from_bytes(head[1:], "big")))
            if head[0] & 2:  # the end
                raise OSError(f"{address}: {message.get('error')}")
            yield message
    finally:
        connection.close()


def _exactly(response: http.client.HTTPResponse, size: int) -> bytes:
    data = response.read(size)
    if len(data) < size:
        raise OSError("the controller has closed the connection")
    return data


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _threaded(method: Callable[Concatenate[Client, _P], _T]) -> Callable[Concatenate["AsyncClient", _P], Awaitable[_T]]:
    async def call(self: "AsyncClient", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, self.client, *args, **kwargs)

    return call


class AsyncClient:
    """Client for asyncio: the same methods, as coroutines, each in a thread."""

    def __init__(self, addresses: Sequence[str], namespace: str = "default", timeout_seconds: float = 15.0,
                 tls: TLS | None = None, token_file: str = "") -> None:
        self.client = Client(addresses, namespace, timeout_seconds, tls, token_file)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    close = _threaded(Client.close)
    transaction = _threaded(Client.transaction)
    create_table = _threaded(Client.create_table)
    get = _threaded(Client.get)
    resolve = _threaded(Client.resolve)
    create = _threaded(Client.create)
    put = _threaded(Client.put)
    update = _threaded(Client.update)
    delete = _threaded(Client.delete)
    add = _threaded(Client.add)
    upload = _threaded(Client.upload)
    run = _threaded(Client.run)
    list_rows = _threaded(Client.list_rows)

    async def watch(self, table: str = "", prefix: str = "",
                    after: Revision | None = None) -> AsyncIterator[tuple[Revision, list[Change]]]:
        ended = threading.Event()
        changes = self.client._watch(table, prefix, after, ended)
        thread = ThreadPoolExecutor(1)  # of its own, since it waits for long
        try:
            while True:
                yield await asyncio.get_running_loop().run_in_executor(thread, next, changes)
        finally:
            ended.set()
            thread.shutdown(wait=False)  # it ends with the next message, or attempt


def _encoded(columns: Columns) -> dict[str, str]:
    for name, value in columns.items():
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"column {name!r} has to be bytes, not {type(value).__name__}")
    return {name: base64.b64encode(value).decode() for name, value in columns.items()}


def _outcome(answer: dict[str, Any]) -> list[Result]:
    """Returns the results of the only transaction, or raises why it was refused."""
    why = answer.get("error") or answer["outcomes"][0].get("error")
    if why:
        raise StoreError(why["code"], why.get("message", ""), why.get("op"))
    outcome = answer["outcomes"][0]
    revision = tuple(int(r) for r in outcome.get("revisions", [])) or int(outcome.get("revision", 0))
    return [_result(r, revision) for r in outcome.get("results", [])]


def _result(r: dict[str, Any], revision: Revision) -> Result:
    row = r.get("row")
    return Result(version=int(r.get("version", 0)), row=_row(row) if row is not None else None,
                  rows=[_row(row) for row in r.get("rows", [])], next=r.get("next", ""), value=int(r.get("value", 0)),
                  session=int(r.get("session", 0)), tables=r.get("tables", {}), revision=revision)


def _row(r: dict[str, Any]) -> Row:
    return Row(key=r.get("key", ""), version=int(r.get("version", 0)), columns=_decoded(r.get("columns", {})))


def _told(before: Revision | None, response: dict[str, Any]) -> Revision:
    """Returns up to where a watch has told everything, after a response."""
    if "revisions" in response:  # the first one of several buckets
        return tuple(int(revision) for revision in response["revisions"])
    revision = int(response.get("revision", 0))
    if not isinstance(before, tuple):
        return revision
    bucket = response.get("bucket", 0)
    return (*before[:bucket], revision, *before[bucket + 1:])


def _change(c: dict[str, Any]) -> Change:
    return Change(revision=int(c["revision"]), table=c["table"], key=c.get("key", ""), removed=c.get("removed", False),
                  columns=_decoded(c.get("columns", {})), definition=c.get("definition"))


def _decoded(columns: Mapping[str, str]) -> dict[str, bytes]:
    return {name: base64.b64decode(value) for name, value in columns.items()}

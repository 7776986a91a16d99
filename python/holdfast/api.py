"""A client of the API of Holdfast, for programs that watch and operate a cluster.

    with Client(["10.0.0.1:8653", "10.0.0.2:8653"]) as cluster:
        for switch in cluster.get_status().switches:
            print(switch.switch, switch.master, switch.guarantee)
        for response in cluster.watch(["KIND_SWITCH", "KIND_EVENT"]):
            print(response.changes)

Methods and messages are those of docs/api.md, in module api_types. It needs nothing but Python.
"""

import base64
import http.client
import json
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast import api_types
from holdfast.store import TLS, _authorization, _open

_M = TypeVar("_M")

_END_OF_STREAM = 2  # a flag of connect
_SILENCE_SECONDS = 30.0  # in which a watch gets something, at least that the controller runs
_PAUSE_SECONDS = 0.2
_LATER = ("unavailable", "deadline_exceeded")


class ApiError(Exception):
    """A controller refuses a request. `code` is that of connect, such as "not_found" or "failed_precondition", `remedy`
    says what to do, and `leader` is the controller that would accept it, or ""."""

    def __init__(self, code: str, message: str, remedy: str = "", leader: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.remedy = remedy
        self.leader = leader


class NobodyAnswersError(Exception):
    """No controller has answered in time."""


def _error(answer: Any) -> ApiError:
    for detail in answer.get("details", ()):
        problem = detail.get("debug", {})
        if detail.get("type") == "holdfast.v1.Problem":
            return ApiError(answer["code"], answer.get("message", ""), problem.get("remedy", ""),
                            problem.get("leader", ""))
    return ApiError(answer.get("code", "unknown"), answer.get("message", ""))


def _encode(value: Any) -> Any:
    """Returns a value as JSON of protobuf has it."""
    if is_dataclass(value):
        return {f.name.rstrip("_"): _encode(v) for f in fields(value) if (v := getattr(value, f.name)) is not None}
    if isinstance(value, list):
        return [_encode(v) for v in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _decode(kind: Any, value: Any) -> Any:
    """Is the inverse of _encode. Fields that this release does not know are left out."""
    if get_origin(kind) in (UnionType, Union):
        return None if value is None else _decode(get_args(kind)[0], value)
    if get_origin(kind) is list:
        return [_decode(get_args(kind)[0], v) for v in value]
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind, vars(api_types))
        return kind(**{name: _decode(hint, value[name.rstrip("_")]) for name, hint in hints.items()
                       if name.rstrip("_") in value})
    if kind is datetime:
        return datetime.fromisoformat(_microseconds(value))
    if kind is bytes:
        return base64.b64decode(value)
    return kind(value) if kind in (int, float, str, bool) else value


def _microseconds(text: str) -> str:
    """Returns a time that may have nanoseconds as Python reads it."""
    second, _, fraction = text.rstrip("Z").partition(".")
    return f"{second}.{fraction[:6]:0<6}+00:00"


class Client(api_types.Methods):
    """A client of a cluster. It may be used by several threads; they take turns. Addresses are HOST:PORT, as
    controllers have them as `api` in the cluster file. TLS and tokens are those of the client of the store. A read is
    repeated at one controller after the other until one answers, and a change until one has accepted or refused it.
    `names` are the names of the controllers, in the order of the addresses: with them, a request that is for the leader
    goes to it. Without, all are tried."""

    def __init__(self, addresses: Sequence[str], timeout_seconds: float = 15.0, tls: TLS | None = None,
                 token_file: str = "", names: Sequence[str] = ()) -> None:
        if not addresses:
            raise ValueError("give the address of at least one controller: api in the cluster file")
        self._addresses = list(addresses)
        self._names = list(names)
        self._timeout = timeout_seconds
        self._tls = tls._context() if tls else None
        self._token_file = token_file
        _authorization(token_file)  # a mistake is reported at once
        self._turn = threading.Lock()  # guards the rest
        self._at = 0
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._turn:
            self._disconnect()

    def watch(self, kinds: Sequence[str] = ()) -> Iterator[api_types.WatchResponse]:
        """Yields what there is, and then what changes, in order and without a gap. It goes on at another controller if
        one fails: then, as in the beginning, a response has `snapshot`, and is all that there is. It ends with ApiError
        if a controller refuses it."""
        request = api_types.WatchRequest(kinds=list(kinds))
        while True:
            try:
                for response in self.watch_once(request):
                    request.feed, request.revision = response.feed, response.revision
                    yield response
            except ApiError as e:
                if e.code not in (*_LATER, "resource_exhausted"):
                    raise
            except (OSError, http.client.HTTPException, ValueError):
                pass
            with self._turn:
                self._elsewhere("")
            time.sleep(_PAUSE_SECONDS)

    def _call(self, method: str, request: Any, answer: type[_M], reads: bool) -> _M:
        body = json.dumps(_encode(request) if request is not None else {}).encode()
        deadline, failure = time.monotonic() + self._timeout, "there was no time to ask any"
        with self._turn:
            while time.monotonic() < deadline:
                sent = False
                try:
                    connection = self._connected(deadline)
                    connection.request("POST", method, body, {"Content-Type": "application/json",
                                                              **_authorization(self._token_file)})
                    sent = True
                    response = connection.getresponse()
                    text = response.read()
                    if response.status == 200:
                        result: _M = _decode(answer, json.loads(text))
                        return result
                    refused = _error(json.loads(text))
                    if not refused.leader and refused.code not in _LATER:
                        raise refused
                    failure = f"{self._addresses[self._at]}: {refused}"
                    self._elsewhere(refused.leader)
                except (OSError, http.client.HTTPException, ValueError) as e:
                    failure = f"{self._addresses[self._at]}: {e}"
                    self._elsewhere("")
                    if sent and not reads:
                        raise NobodyAnswersError(f"it is not known whether the change was made: {failure}") from e
                time.sleep(_PAUSE_SECONDS)
        raise NobodyAnswersError(f"no controller has answered in {self._timeout} s; the last one: {failure}")

    def _stream(self, method: str, request: Any, answer: type[_M]) -> Iterator[_M]:
        message = json.dumps(_encode(request)).encode()
        with self._turn:
            connection = _open(self._addresses[self._at], _SILENCE_SECONDS, self._tls)
        try:
            connection.request("POST", method, struct.pack(">BI", 0, len(message)) + message,
                               {"Content-Type": "application/connect+json", **_authorization(self._token_file)})
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError("unavailable", f"{response.status} {response.read(1024)!r}")
            while True:
                flags, size = struct.unpack(">BI", _exactly(response, 5))
                value = json.loads(_exactly(response, size))
                if flags & _END_OF_STREAM:
                    if "error" in value:
                        raise _error(value["error"])
                    return
                yield _decode(answer, value)
        finally:
            connection.close()

    def _connected(self, deadline: float) -> http.client.HTTPConnection:
        if self._connection is None or self._connection.sock is None:  # the controller has closed it
            self._connection = _open(self._addresses[self._at], max(deadline - time.monotonic(), 0.1), self._tls)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _elsewhere(self, leader: str) -> None:
        self._disconnect()
        if leader in self._names:
            self._at = self._names.index(leader) % len(self._addresses)
        else:
            self._at = (self._at + 1) % len(self._addresses)


def _exactly(response: http.client.HTTPResponse, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = response.read(size - len(data))
        if not part:
            raise ConnectionError("the controller has ended the stream")
        data += part
    return data

"""A process that shares a table of the store with others: share.py NAME ADDRESS..., until its input ends."""

import sys
import threading

import store

name, addresses = sys.argv[1], sys.argv[2:]
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
with store.Client(addresses, "demo", timeout_seconds=60) as client:
    n = 0
    while not ended.is_set():
        n += 1
        results = client.transaction(
            store.op("create", "rows", f"{name}/{n}", columns={"value": b"written by " + name.encode()}),
            store.op("add", "sums", "all", delta="1"))
        print(results[1].value, flush=True)

"""Clients of the store in Python: adds to counters until stdin ends, then prints which sums they were told, as JSON."""

import asyncio
import json
import sys
import threading

from holdfast import store

addresses = sys.argv[1:]
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()


def refused(code, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except store.StoreError as e:
        assert e.code == code, (e.code, e)
    else:
        raise AssertionError(f"{code} is not raised")


def rows(client):
    client.create_table("hosts", ["mac", "port"])
    client.create_table("addresses", ["mac"], refers_to="hosts")
    version = client.create("hosts", "m1", {"mac": b"\x00\xff", "port": b"7"})
    client.put("addresses", "10.0.0.1", {"mac": b"m1"})
    assert client.resolve("addresses", "10.0.0.1") == store.Row("m1", version, {"mac": b"\x00\xff", "port": b"7"})
    later = client.update("hosts", "m1", {"port": b"8"}, if_version=version)
    refused("conflict", client.update, "hosts", "m1", {"port": b"9"}, if_version=version)
    refused("exists", client.create, "hosts", "m1", {"port": b"9"})
    refused("not_found", client.get, "hosts", "m2")
    refused("no_table", client.get, "none", "m2")
    assert client.get("hosts", "m1", "port") == store.Row("m1", later, {"port": b"8"})
    both = client.transaction(store.op("put", "hosts", "m2", columns={"port": b"1"}, if_version=0),
                              store.op("list", "hosts", prefix="m"))
    assert [r.key for r in both[1].rows] == ["m1", "m2"] == [r.key for r in client.list_rows("hosts")], both
    client.delete("hosts", "m2", if_version=both[0].version)
    client.create_table("counters")
    client.upload("both", "def run(args): return [store.get('hosts', args['a']), store.get('hosts', args['b'])]")
    found = client.run("both", {"a": b"m1", "b": b"m2"})
    assert [r.columns for r in found.rows] == [{"mac": b"\x00\xff", "port": b"8"}, {}], found
    refused("component", client.run, "both", {"a": b"m1"})
    refused("invalid", client.upload, "both", "def run(")
    refused("not_found", client.run, "neither")


def buckets():
    with store.Client(addresses, "python/4") as client:
        client.create_table("t")
        refused("exists", client.create_table, "t")
        keys = [f"k{i}" for i in range(20)]
        for key in keys:
            client.put("t", key, {"value": b"1"})
        assert [r.key for r in client.list_rows("t")] == sorted(keys)
        refused("several_buckets", client.transaction, *(store.op("get", "t", key) for key in keys))
        client.upload("first", "def run(args): return store.get('t', args['key'])")
        refused("invalid", client.run, "first", {"key": b"k0"})
        assert client.run("first", {"key": b"k0"}, key="k0").row.columns == {"value": b"1"}
        session = client._session
        client._session_end = 0
        assert client.add("t", "k0", 1) == 2 and client._session != session
        told, revisions = [], (0, 0, 0, 0)
        while len(told) < 21:  # each time as a program that is started again
            for revisions, changes in client.watch("t", "k", after=revisions):
                told += [change.key for change in changes]
                if changes:
                    break
        assert sorted(told) == sorted([*keys, "k0"]), told
        for revisions, changes in client.watch("t"):
            assert len(revisions) == 4 and not changes
            break


def watch(sums):
    """Collects what a watch from the beginning tells of the counter."""
    seen = 0
    with store.Client(addresses, "python") as client:
        for revision, changes in client.watch(after=0):
            for change in changes:
                assert change.revision > seen, (seen, change)
                seen = change.revision
                if change.table == "counters" and change.key:
                    sums.append(int(change.columns["value"]))
            if ended.is_set() and revision >= last[0]:
                return


async def follow():
    async with store.AsyncClient(addresses, "python") as client:
        async for revision, changes in client.watch("hosts"):
            return revision


async def count():
    async with store.AsyncClient(addresses, "python") as one, store.AsyncClient(addresses[::-1], "python") as other:
        async def adds(client):
            sums = []
            while not ended.is_set():
                sums.append(await client.add("counters", "sum", 1))
                print(len(sums), flush=True)
            return sums

        return [sum for sums in await asyncio.gather(adds(one), adds(other)) for sum in sums]


with store.Client(addresses, "python") as client:
    rows(client)
    buckets()
    watched, last = [], [1 << 63]
    watching = threading.Thread(target=watch, args=(watched,))
    watching.start()
    assert asyncio.run(follow()) > 0
    sums = asyncio.run(count())
    row = client.get("counters", "sum")
    last[0] = row.version
    watching.join()
print(json.dumps({"sums": sums, "watched": watched, "value": int(row.columns["value"])}))

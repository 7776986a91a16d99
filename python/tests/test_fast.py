"""The fast paths give what the framework gives, on random input, valid and not."""

import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

HERE = Path(__file__).parent
ROUNDS = 2_000 if os.environ.get("HOLDFAST_MATRIX") == "all" else 500


def start(which: str) -> "subprocess.Popen[str]":
    environ = dict(os.environ, PYTHONHASHSEED="0", PYTHONPATH=os.pathsep.join([str(HERE), str(HERE.parent)]))
    environ.pop("PYTHONUNBUFFERED", None)  # a write for each of its lines costs more than the line
    command = [sys.executable, "-W", "ignore", str(HERE / "parity.py"), which, str(ROUNDS)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_fast_paths_are_equal() -> None:
    with start("fast") as fast, start("slow") as slow:
        assert fast.stdout and slow.stdout
        before = ""
        lines = 0
        for left, right in zip_longest(fast.stdout, slow.stdout):
            assert left == right, f"after {before}"
            before = left
            lines += 1
        assert fast.wait() == 0 and slow.wait() == 0
    assert lines > 25 * ROUNDS

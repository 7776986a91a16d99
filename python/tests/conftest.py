"""Downloads Ryu 4.34 from PyPI once and keeps it outside the repository.

It is not installed: only its applications are read.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

RYU = "4.34"


def _fetch(cache: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        folder = Path(temporary)
        # pip asks the package for its metadata, and it only answers setuptools of its day.
        (folder / "constraints.txt").write_text("setuptools==67.8.0\n")
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "ryu",
            f"ryu=={RYU}",
            "-d",
            str(folder),
        ]
        subprocess.run(command, check=True, env=dict(os.environ, PIP_CONSTRAINT=str(folder / "constraints.txt")))
        with tarfile.open(folder / f"ryu-{RYU}.tar.gz") as archive:
            archive.extractall(folder)
        try:
            (folder / f"ryu-{RYU}").rename(cache / f"ryu-{RYU}")
        except OSError:  # tests of another package have fetched it meanwhile
            if not (cache / f"ryu-{RYU}").exists():
                raise


def fetched() -> Path:
    """The folder that holds Ryu's package: it goes on the path of a host."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast"
    folder = cache / f"ryu-{RYU}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        _fetch(cache)
    return folder


@pytest.fixture(scope="session")
def ryu() -> Path:
    return fetched()

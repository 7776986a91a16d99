"""What a host would run, told without making an application."""

import hashlib
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
APPLICATION = """
print("imported")
from ryu.base import app_manager
class One(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        raise SystemExit("a probe makes no application")
"""


def probe(*arguments: str, path: Path | None = None, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    folders = [str(HERE.parent)] + ([str(path)] if path else [])
    environ = dict(os.environ, PYTHONPATH=os.pathsep.join(folders), PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, *flags, "-m", "holdfast_ryu", "probe", *arguments]
    return subprocess.run(command, env=environ, cwd=HERE, capture_output=True, text=True, timeout=60)


def found(*arguments: str, path: Path | None = None) -> dict[str, Any]:
    done = probe(*arguments, path=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def described(name: str, file: Path) -> dict[str, str]:
    return {"name": name, "file": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Applications that must not be made: a module, one in a package, one in a folder, one of ryu.app."""
    for name in ("single.py", "package/__init__.py", "package/inner.py", "bare/folder/deep.py", "ryu/app/of_ryu.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n{APPLICATION}")
    return tmp_path


def test_versions_and_order(folder: Path) -> None:
    answer = found("--observe-links", "single", str(folder / "package" / "inner.py"), "--wsapi-port=80", path=folder)
    assert answer == {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "os_ken": version("os-ken"),
        "host": "1",
        "applications": [
            described("single", folder / "single.py"),
            described(str(folder / "package" / "inner.py"), folder / "package" / "inner.py"),
        ],
    }


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("package", "package/__init__.py"),
        ("package.inner", "package/inner.py"),
        ("bare.folder.deep", "bare/folder/deep.py"),
        ("ryu.app.of_ryu", "ryu/app/of_ryu.py"),
        ("os_ken.app.of_ryu", "ryu/app/of_ryu.py"),
    ],
)
def test_modules(folder: Path, name: str, file: str) -> None:
    assert found(name, path=folder)["applications"] == [described(name, folder / file)]


def test_file_in_the_working_folder_and_framework_by_both_names() -> None:
    own, ryu, os_ken = found("apps/failing.py,ryu.topology.switches", "os_ken.topology.switches")["applications"]
    assert own == described("apps/failing.py", HERE / "apps" / "failing.py")
    assert ryu["file"] == os_ken["file"] and ryu["file"].endswith("os_ken/topology/switches.py")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nowhere", "no such module"),
        ("package.nowhere", "no such module"),
        ("sys", "no such module"),
        ("bare.folder", "no such module"),
        ("ryu.app.nowhere", "put the folder that holds ryu/app"),
        ("apps/nowhere.py", "no such file"),
        ("apps", "cannot read"),
        ("", "no such module"),
    ],
)
def test_what_is_not_there(folder: Path, name: str, complaint: str) -> None:
    done = probe("single", name, path=folder)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"holdfast_ryu: application {name}: ") and complaint in done.stderr
    assert done.stderr.count("\n") == 1
    if "module" in complaint:
        assert str(folder) in done.stderr, "it says where it looked"


@pytest.mark.parametrize(
    ("text", "complaint", "trace"),
    [
        ("class A(object)\n", "line 1: SyntaxError: expected ':'", "class A(object)"),
        (
            "\nimport no_such_module\n",
            "line 2: ModuleNotFoundError: No module named 'no_such_module' (install it for",
            "import no_such",
        ),
        ("from ryu.base import no_such_name\n", "line 1: ImportError: cannot import name 'no_such_", "no_such_name"),
        ("def f():\n    return 1 / 0\nf()\n", "line 2, in f: ZeroDivisionError: division by zero", "f()"),
        ("raise SystemExit('no')\n", "line 1: SystemExit: no", "raise SystemExit"),
        ("x = 1\n", "no application in there: a class derived from app_manager.RyuApp is one", ""),
    ],
)
def test_what_cannot_be_imported(tmp_path: Path, text: str, complaint: str, trace: str) -> None:
    """The last line says why; above it is the traceback, with the frames of the application only."""
    (tmp_path / "wrong.py").write_text(text)
    done = probe(str(tmp_path / "wrong.py"))
    assert done.returncode == 1 and done.stdout == ""
    *above, last = done.stderr.rstrip().split("\n")
    assert last.startswith(f"holdfast_ryu: {tmp_path}/wrong.py") and complaint in last
    assert trace in "\n".join(above) and "os_ken" not in "".join(above[:-1])


def test_missing_packages(folder: Path) -> None:
    done = probe("single", path=folder, flags=("-S",))  # without site-packages
    assert done.returncode == 1 and done.stdout == ""
    assert f"{sys.executable} -m pip install 'os-ken>=3.1,<5' 'greenlet>=3' 'Routes' 'WebOb'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_needs_what_the_package_needs() -> None:
    from holdfast_ryu import probe

    text = (HERE.parent / "pyproject.toml").read_text()
    assert all(f'"{wanted}"' in text for wanted in probe.NEEDED.values())
    assert 'version = "1"' in text


def test_load_that_blocks_is_reported(tmp_path: Path) -> None:
    """Seen from its frame: a test of the five seconds themselves would take as long."""
    from holdfast_ryu import loading

    app = tmp_path / "blocking.py"
    app.write_text("import sys\n\ndef ask():\n    return sys._getframe()\n\nframe = ask()\n")
    names: dict[str, Any] = {}
    exec(compile(app.read_text(), str(app), "exec"), names)
    told = loading.report(names["frame"], 5)
    assert told.startswith(f"{app}, line 4, in ask: the applications have been loading for 5 s")
    assert loading.report(None, 5) == "the applications have been loading for 5 s"

"""Starts a host of Ryu applications, or prints what one would run.

Usage: python -m holdfast_ryu host --socket FD_OR_PATH APP...
       python -m holdfast_ryu probe APP...
"""

import argparse
import ctypes
import faulthandler
import gc
import os
import signal
import socket
import sys
import traceback

from . import limits

# Hashes of strings, and so the order of sets, must not differ from process to process.
HASH_SEED = "0"
_STARTED_ANEW = "HOLDFAST_RYU_STARTED_ANEW"
_ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)
_ASK = ctypes.c_ulong(0xFFFFFFFF)


def fix_hashes() -> None:
    """Starts this program anew with fixed hashes."""
    if os.environ.pop(_STARTED_ANEW, None):
        if sys.flags.hash_randomization:
            sys.exit("holdfast_ryu: PYTHONHASHSEED is ignored: start Python without -E and -I")
        return
    # Until Python 3.12 the hash of None is its address. Many containers refuse to fix addresses.
    personality = ctypes.CDLL(None).personality
    personality(personality(_ASK) | _ADDR_NO_RANDOMIZE)
    environ = dict(os.environ, PYTHONHASHSEED=HASH_SEED, TZ="UTC", LC_ALL="C.UTF-8")
    environ[_STARTED_ANEW] = "1"
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="holdfast_ryu", description="Hosts Ryu applications for Holdfast, which starts it."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    host = commands.add_parser("host", help="host applications")
    host.add_argument(
        "--socket", required=True, help="a stream socket: the number of an open one, or the path where one listens"
    )
    host.add_argument(
        "--slow", action="store_true", help="use only the framework's own code to parse and serialise messages"
    )
    host.add_argument(
        "--file", action="append", default=[], metavar="PATH", help="a file whose contents come from the log"
    )
    host.add_argument("--alone", action="store_true", help="nothing is replayed elsewhere: sockets and programs work")
    host.add_argument("apps", nargs="+", metavar="APP", help="a module or a file")
    probed = commands.add_parser(
        "probe", help="print as JSON which Python, framework and files a host of these applications would run"
    )
    probed.add_argument(
        "apps", nargs="+", metavar="APP", help="a module or a file; options as --name or --name=value are left alone"
    )
    args, options = parser.parse_known_args()
    if args.command == "host" and options:
        parser.error(f"unrecognized arguments: {' '.join(options)}")
    return args


def connect(where: str) -> socket.socket:
    if where.isdigit():
        sock = socket.socket(fileno=int(where))
        sock.set_inheritable(False)
        return sock
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(where)
    return sock


def tell(apps: list[str]) -> int:
    from . import probe

    try:
        print(probe.report(apps))
    except probe.Missing as error:
        print(f"holdfast_ryu: {error}", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    args = arguments()
    if args.command == "host":
        fix_hashes()  # before rights are dropped: a start that regains them makes addresses random
    limits.set_limits(alone=args.command == "host" and args.alone)
    if args.command == "probe":
        return tell(args.apps)
    gc.disable()  # until the framework is imported, which leaves no garbage: looking for it takes a fifth of the start
    # SIGINT is meant for Holdfast. Raised in an application it would make this host diverge.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # tells where a host hangs
    from . import blame, session, wire

    sock = connect(args.socket)
    os.register_at_fork(after_in_child=sock.close)  # a child of an application's must not speak for this host
    sys.argv = ["ryu-manager", *args.apps]
    try:
        session.serve(sock, args.apps, fast_paths=not args.slow, names=args.file, alone=args.alone)
    except (BrokenPipeError, ConnectionResetError):
        return 0  # Holdfast is gone, and this process with it
    except Exception as error:
        trace = traceback.format_exc()
        print(trace, file=sys.__stderr__, flush=True)
        told = trace
        if isinstance(error, blame.LoadError):
            told = f"{error}\n{blame.trace(error)}"
        try:
            sock.sendall(wire.encode_fatal(told.strip()))
        except OSError:
            pass
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the kernel holds the process of a host to, before any code of an application runs in it."""

import ctypes
import resource

# LIMITS bound what the process can do to the machine: the largest file that it writes, and no core dumps.
FILE_BYTES = 1 << 30
LIMITS = {resource.RLIMIT_FSIZE: FILE_BYTES, resource.RLIMIT_CORE: 0}
# KEPT are the capabilities of root that a host keeps, see capabilities(7): those about files (CHOWN, DAC_OVERRIDE,
# DAC_READ_SEARCH, FOWNER, FSETID), and those about what it sends (NET_BIND_SERVICE, NET_RAW). Without the others even
# code in C does not mount, reboot, set the time, load modules, configure interfaces or routes, make devices, or trace.
KEPT = (0, 1, 2, 3, 4, 10, 13)
_NO_NEW_PRIVS = 38  # prctl(2)
_CAPABILITY_VERSION = 0x20080522  # capget(2)


def set_limits(alone: bool) -> None:
    """Sets the limits, or keeps the stricter ones of the process.

    Programs in it gain no rights by set-user-ID. Alone, as in `holdfast run`, it keeps the rights of its user, as the
    programs need them that its applications may start then.
    """
    for which, most in LIMITS.items():
        _, hard = resource.getrlimit(which)
        if hard == resource.RLIM_INFINITY or hard > most:
            resource.setrlimit(which, (most, most))
    if not alone:
        _drop_rights()


def _drop_rights() -> None:
    """A kernel without these lets the host run as before."""
    system = ctypes.CDLL(None)
    system.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice: capabilities 0 to 31, and the others
    if system.capget(header, sets) == 0:
        kept = sum(1 << number for number in KEPT)
        for which in range(6):
            sets[which] = sets[which] & kept if which < 3 else 0
        system.capset(header, sets)

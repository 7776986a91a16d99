"""OpenFlow as applications want it, which may be 1.0, 1.2, 1.4 or 1.5. Holdfast speaks 1.3 with the host.

A module for each family translates messages of switches (events), and messages of applications (commands). It knows
bytes only: no datapath, no framework.
"""

from collections.abc import Collection

from . import v10, v12, v14
from .common import VERSION
from .common import Untranslatable as Untranslatable

NATIVE = VERSION
# ORDER is that of preference: what needs no translation first, and then what loses least.
ORDER = (NATIVE, 5, 6, 3, 1)
_FAMILIES = {1: v10, 3: v12, 5: v14, 6: v14}


def choose(supported: Collection[int]) -> int:
    """Returns the version for switches: one of those that all applications support."""
    return next(version for version in ORDER if version in supported)


def events(version: int, message: bytes, ports: list[bytes]) -> list[bytes]:
    """Translates a message of a switch with these ports, as PORT_DESC describes them.

    One may become several, or none.
    """
    return [message] if version == NATIVE else _FAMILIES[version].events(version, message, ports)


def commands(version: int, message: bytes) -> list[bytes]:
    """Translates a message of an application. What 1.3 cannot say is an Untranslatable."""
    return [message] if version == NATIVE else _FAMILIES[version].commands(version, message)


def first_commands(version: int) -> list[bytes]:
    """What a new switch is told first, so that it does what one of this version does by itself."""
    return [v12.table_miss()] if version < NATIVE else []

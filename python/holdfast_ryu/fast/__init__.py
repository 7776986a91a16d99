"""The framework's hot paths, faster: what most events go through, and nothing else.

Each function here stands in for one of os_ken and gives the same results. It knows the common case;
whatever else comes, errors above all, it hands to the original. So it need not know what those do.
"""

from . import address, delivery, match, message, packet


def install() -> None:
    """Puts them in the framework's place."""
    address.install()
    match.install()
    message.install()
    packet.install()
    delivery.install()

"""Hosts unmodified Ryu and os-ken applications, deterministically.

One process of this package executes committed inputs in the order of the log, and returns the
commands of each. Equal inputs give equal commands in every process: see docs/design/ryu.md. It opens
no connection to a switch or to a REST client; its one socket leads to Holdfast.
"""

VERSION = "1"

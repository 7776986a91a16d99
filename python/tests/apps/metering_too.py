"""Another application with metrics, whose names are those of the first."""

from metering import Metering


class MeteringToo(Metering):
    PORT, STEP = 9303, 10

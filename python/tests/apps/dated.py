"""Uses dates as applications do; what is wrong raises, so that it cannot be loaded."""

import datetime
import pickle
import time
from datetime import datetime as imported

from ryu.base import app_manager


class Stamp(datetime.datetime):
    """As extensions have it, pandas among them."""


class Dated(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        now, today = datetime.datetime.now(), datetime.date.today()
        assert imported is datetime.datetime is type(datetime.datetime(2024, 1, 1)) and type(datetime.datetime) is type
        assert type(now) is datetime.datetime and type(today) is datetime.date
        assert all(type(stamp) is Stamp for stamp in (Stamp.now(), Stamp.today(), Stamp.utcnow()))
        assert Stamp.today().date() == Stamp.utcnow().date() == today
        for name in ("now", "utcnow", "today"):
            assert getattr(datetime.datetime, name)() > now
        assert (
            isinstance(now, datetime.datetime) and isinstance(now, datetime.date) and isinstance(today, datetime.date)
        )
        assert not isinstance(today, datetime.datetime) and issubclass(datetime.datetime, datetime.date)
        assert now.date() == today == datetime.date(2023, 11, 14)
        assert datetime.timedelta(0) < datetime.datetime.now() - now < datetime.timedelta(seconds=1)
        later = now + datetime.timedelta(days=1)
        assert isinstance(later, datetime.datetime) and later > now
        assert pickle.loads(pickle.dumps([now, today])) == [now, today]
        assert datetime.datetime.strptime("2024-02-03", "%Y-%m-%d") == datetime.datetime(2024, 2, 3)
        assert isinstance(datetime.datetime.fromisoformat("2024-02-03"), datetime.datetime)
        utc = datetime.datetime.now(datetime.timezone.utc)
        assert utc.utcoffset() == datetime.timedelta(0) and abs(utc.timestamp() - time.time()) < 1
        assert time.localtime()[:5] == time.gmtime()[:5] == (2023, 11, 14, 22, 13)
        assert time.strftime("%d.%m.%Y") == "14.11.2023" and time.strftime("%Y", (1999,) + (1,) * 8) == "1999"
        assert time.asctime(time.gmtime(0)) == time.ctime(0) == "Thu Jan  1 00:00:00 1970"
        before = time.time_ns()
        self.logger.info("logging does not move the clock")
        self.logger.debug("whether or not it is shown")
        assert time.time_ns() == before + 1_000
        began = time.monotonic()
        time.sleep(2)
        assert 2 <= time.monotonic() - began < 2.001

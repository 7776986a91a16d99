"""Puts the host under os_ken: what its application manager, event loops and OpenFlow handler do differently here."""

import sys
from typing import Any

from . import files, hub, names, progress
from .outcome import outcome
from .scheduler import GreenThread, scheduler


def install(fast_paths: bool = True) -> None:
    """After time and randomness are virtual, if they are to be, and before anything else imports os_ken."""
    import os_ken.lib

    sys.modules["os_ken.lib.hub"] = hub
    os_ken.lib.hub = hub

    from os_ken.base import app_manager
    from os_ken.controller import ofp_handler
    from os_ken.ofproto import ofproto_v1_0

    ofproto_v1_0.OFPET_EXPERIMENTER = 0xFFFF  # for which its handler of errors asks in each version
    app_manager.OSKenApp._event_loop = _event_loop
    app_manager.AppManager._instantiate = _owned(app_manager.AppManager._instantiate)
    app_manager.require_app = names.require_app
    # The handler's own start would listen for switches.
    ofp_handler.OFPHandler.start = app_manager.OSKenApp.start
    _hash_by_serial(app_manager.OSKenApp)
    _name_base_attributes()
    names.install()
    _install_wsgi()
    if fast_paths:
        from . import fast

        fast.install()
    progress.install()


def _install_wsgi() -> None:
    import os_ken.app

    from . import wsgi

    sys.modules["os_ken.app.wsgi"] = wsgi
    os_ken.app.wsgi = wsgi


def _hash_by_serial(cls: Any) -> None:
    """Gives sets of applications an order that is the same in every process."""
    cls._serial = 0

    def of(self: Any) -> int:
        if not self._serial:
            self._serial = scheduler.serial()
        return int(self._serial)

    cls.__hash__ = of


def _name_base_attributes() -> None:
    """Has each class of messages know which attributes messages do not print.

    The framework finds out when the first message of a class is made, which a host that begins with a checkpoint lacks.
    """
    from os_ken.ofproto import ofproto_parser, ofproto_v1_3_parser

    for cls in vars(ofproto_v1_3_parser).values():
        if isinstance(cls, type) and issubclass(cls, ofproto_parser.MsgBase):
            ofproto_parser.MsgBase.__init__(object.__new__(cls), None)


def _owned(instantiate: Any) -> Any:
    """While an application is made, and started, it owns the threads that it starts."""

    def wrapped(self: Any, app_name: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
        cls.start = _started(cls.start)
        return _by(cls.__name__, instantiate)(self, app_name, cls, *args, **kwargs)

    return wrapped


def _started(start: Any) -> Any:
    return lambda self: _by(type(self).__name__, files.start)(start, self)


def _by(owner: str, function: Any) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        thread = scheduler.current()
        before, thread.owner = thread.owner, owner
        try:
            return function(*args, **kwargs)
        finally:
            thread.owner = before

    return wrapped


def event_loops() -> dict[GreenThread, Any]:
    """The threads that take events, with their applications."""
    functions: dict[GreenThread, Any] = {thread: thread.target for thread in scheduler.threads}
    return {
        thread: function.__self__
        for thread, function in functions.items()
        if getattr(function, "__func__", None) is _event_loop
    }


def _event_loop(self: Any) -> None:
    """The event loop of the framework, with two differences.

    An exception of a handler is a failure of the input. A request is answered on behalf of the application that asks.
    """
    from os_ken.base import app_manager
    from os_ken.controller.event import EventRequestBase

    thread = scheduler.current()
    own = thread.owner = type(self).__name__
    while self.is_active or not self.events.empty():
        event, state = self.events.get()
        self._events_sem.release()
        if event is self._event_stop:
            continue
        thread.owner = own
        if isinstance(event, EventRequestBase):
            asking = app_manager.lookup_service_brick(event.src)
            if asking is not None:
                thread.owner = type(asking).__name__
        for handler in self.get_handlers(event, state):
            try:
                handler(event)
            except hub.TaskExit:
                raise
            except BaseException as error:
                outcome.fail(thread.owner, error)

"""Runs an application on os-ken itself, as ryu-manager did: PORT APP.

The reference for hosts in `holdfast bench ryu` and in the tests of python/.
"""

import os
import sys

os.environ["OSKEN_HUB_TYPE"] = "eventlet"  # the faster of its two

from os_ken.lib import hub

hub.patch(thread=False)

from holdfast_ryu import names
from os_ken import cfg, log  # noqa: F401  registers options, too
from os_ken.base import app_manager
from os_ken.controller import controller  # noqa: F401  registers options
from os_ken.topology import switches  # noqa: F401  the same

names.install()
app_manager.require_app = names.require_app
cfg.CONF(
    args=["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", sys.argv[1]],
    default_config_files=[],
    default_config_dirs=[],
)
app_manager.AppManager.run_apps([sys.argv[2]])

#!/usr/bin/env python3
"""Runs os-ken applications: manager.py PORT APPLICATION.py...

os-ken 4 no longer has the osken-manager command; this does its main job: it loads the applications, listens for
switches on PORT and runs until it is killed. Every event is logged to standard error.
"""
import os
import sys

os.environ.setdefault("OSKEN_HUB_TYPE", "eventlet")
from os_ken.lib import hub                                  # noqa: E402
hub.patch()
import logging                                              # noqa: E402
from os_ken import cfg, log                                 # noqa: E402
log.early_init_log(logging.INFO)
from os_ken.base.app_manager import AppManager              # noqa: E402
from os_ken.controller import controller                    # noqa: E402,F401  (registers the options)

port, apps = sys.argv[1], sys.argv[2:]
cfg.CONF(args=["--ofp-tcp-listen-port", port, "--ofp-listen-host", "127.0.0.1"], prog="manager",
         project="os_ken", version="lab", default_config_files=[])
log.init_log()
for path in apps:
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
manager = AppManager.get_instance()
manager.load_apps([os.path.splitext(os.path.basename(path))[0] for path in apps] + ["os_ken.controller.ofp_handler"])
hub.joinall(manager.instantiate_apps(**manager.create_contexts()))

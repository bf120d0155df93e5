# SPDX-License-Identifier: MPL-2.0
"""What the suites of HLS have in common: playbin3, from an origin, with keys from latchkey-server's key server. Each check
runs in a process of its own with a configuration file of its own.

Nothing here waits for a length of time to make things happen in order."""

import os
import sys

import children
from behavior_scenes import Wrong
from report import Report, is_wanted

DEADLINE = 150


def child(name, check):
    reason = None
    try:
        check()
    except Wrong as wrong:
        reason = str(wrong)
    children.tell(name, reason)


def job(report, folder, chances, name):
    extra = {"LATCHKEY_CONFIG": os.path.join(folder.path, f"{name.replace('/', '-')}.conf")}
    done = children.run_self(["--child", name], DEADLINE, children.environment(**extra), True, chances)
    report.checked(name, done.complete([name])[name])


def main(usual, long=None):
    """Runs the checks that the arguments of the suite choose, by name; those of `long` only where they are named."""
    every = usual | (long or {})
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], every[sys.argv[2]])
        return
    report, chances, wanted = Report(), children.Chances(), sys.argv[1:]
    with children.Folder() as folder:
        names = [name for name in (every if wanted else usual) if is_wanted(name, wanted)]
        children.in_parallel([lambda n=name: job(report, folder, chances, n) for name in names], workers=4)
    report.exit(wanted)

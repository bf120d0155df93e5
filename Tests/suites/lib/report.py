# SPDX-License-Identifier: MPL-2.0
"""What a suite says: one line a check, `PASS name`, `FAIL name: reason` or `SKIP name: reason`."""

import os
import sys
import threading

# Whether the test run is one with --everywhere.
IS_EVERYWHERE = os.environ.get("LATCHKEY_EVERYWHERE") == "1"
# The status of a suite that came to its end, and in which checks failed.
CHECKS_FAILED = 3


def is_wanted(name, arguments):
    """Whether the arguments of a suite choose a check. No arguments choose every check. An argument chooses the check of that
    name, each check of a group (`token` chooses `token/dash`), and the check that prints a result of that name
    (`token/dash/sound`)."""
    return not arguments or any(_is_of(name, argument) or _is_of(argument, name) for argument in arguments)


def _is_of(name, group):
    return name == group or name.startswith(f"{group}/")


class Report:
    """Prints results as they come. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._failed = 0
        self._names = set()

    def passed(self, name, note=None):
        self._print(name, f"PASS {name} ({note})" if note else f"PASS {name}")

    def failed(self, name, reason):
        with self._lock:
            self._failed += 1
        self._print(name, f"FAIL {name}: {' '.join(str(reason).split())}")

    def skipped(self, name, reason):
        self._print(name, f"SKIP {name}: {reason}")

    def checked(self, name, reason):
        """`reason` is None where the check passed."""
        if reason is None:
            self.passed(name)
        else:
            self.failed(name, reason)

    def exit(self, arguments=()):
        """Ends the suite. An argument of the suite for which no result was printed is a failure."""
        for argument in arguments:
            if not any(_is_of(name, argument) for name in self._names):
                self.failed(argument, "there is no such check")
        sys.exit(CHECKS_FAILED if self._failed else 0)

    def _print(self, name, line):
        with self._lock:
            self._names.add(name)
            print(line, flush=True)

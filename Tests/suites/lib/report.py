# SPDX-License-Identifier: MPL-2.0
"""What a suite says: one line a check, `PASS name`, `FAIL name: reason` or `SKIP name: reason`."""

import sys
import threading


class Report:
    """Prints results as they come. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._failed = 0

    def passed(self, name, note=None):
        self._print(f"PASS {name} ({note})" if note else f"PASS {name}")

    def failed(self, name, reason):
        with self._lock:
            self._failed += 1
        self._print(f"FAIL {name}: {' '.join(str(reason).split())}")

    def skipped(self, name, reason):
        self._print(f"SKIP {name}: {reason}")

    def checked(self, name, reason):
        """`reason` is None where the check passed."""
        if reason is None:
            self.passed(name)
        else:
            self.failed(name, reason)

    def exit(self):
        sys.exit(1 if self._failed else 0)

    def _print(self, line):
        with self._lock:
            print(line, flush=True)

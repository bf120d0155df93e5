# SPDX-License-Identifier: MPL-2.0
"""Bounds on time. A bound says that something happens at the latest after so many seconds. On a busy machine,
LATCHKEY_TEST_PATIENCE makes each bound so many times looser, as in the Swift tests. What only ends a hang stays as it is, and
so does the least time that something takes. Where `Processors` measures how busy the machine is, the bound itself holds."""

import glob
import os
import re
import threading
import time

PATIENCE = float(os.environ.get("LATCHKEY_TEST_PATIENCE") or 1)
# A sanitizer and 44-delays make all slower, and no processor is waited for meanwhile.
IS_SLOWED = any(not path.endswith("libcrash-stack.so") for path in re.split("[ :]+", os.environ.get("LD_PRELOAD", "")) if path)


class Waits:
    """What the system tells of waits for a processor."""

    def __init__(self, pids):
        self._pids = pids
        # Of each thread, those that have ended among them, in nanoseconds.
        self._delays = {}

    def __call__(self):
        """Sums in seconds, each of which grows by at least what any thread of the processes waits: the waits of all their threads,
        and the time in which something waited on the machine. None where the system tells neither."""
        for path in (path for pid in self._pids for path in glob.glob(f"/proc/{pid}/task/*/schedstat")):
            try:
                self._delays[path] = int(text(path).split()[1])
            except (OSError, IndexError):
                pass
        sums = [sum(self._delays.values()) / 1e9] if any(self._delays.values()) else []
        try:
            # An average over the processors.
            found = re.search(r"some .*total=(\d+)", text("/proc/pressure/cpu"))
            sums.append(int(found[1]) / 1e6 * os.cpu_count())
        except (OSError, TypeError):
            pass
        # What a hypervisor takes is in neither.
        stolen = int(text("/proc/stat").split(None, 9)[8]) / os.sysconf("SC_CLK_TCK")
        return [total + stolen for total in sums]


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Processors:
    """How long this process, and others with these numbers, waited for a processor, so that a bound holds for the rest of the time.
    Samples are taken for the `with` block. Thread-safe."""

    STEP = 0.05  # seconds

    def __init__(self, *pids, read=None, clock=time.monotonic):
        self._read, self._clock = read or Waits(("self", *pids)), clock
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._sums = self._read()
        # When, and how long was waited until then, both in seconds.
        self._samples = [(clock(), 0.0)]

    def __enter__(self):
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._ended.set()

    def _run(self):
        while not self._ended.wait(self.STEP):
            self.sample()

    def sample(self):
        with self._lock:
            sums, now = self._read(), self._clock()
            then, waited = self._samples[-1]
            # Waits at the same time are not more than that time.
            grown = [max(0.0, new - old) for new, old in zip(sums, self._sums)]
            self._samples.append((now, waited + min([now - then, *grown])))
            self._sums = sums

    def ran(self, start, end):
        """The seconds between two times of the clock, without the waits: all of a sample that has a part of them count."""
        if end > self._samples[-1][0]:
            self.sample()
        with self._lock:
            before = max((sample for sample in self._samples if sample[0] <= start), default=self._samples[0])
            after = min((sample for sample in self._samples if sample[0] >= end), default=self._samples[-1])
        return end - start - max(0.0, after[1] - before[1])

    def is_late(self, bound, start, end):
        """Whether the end is more than `bound` seconds after the start without the waits, or PATIENCE times as many with them."""
        took = end - start
        return took > bound * PATIENCE or took > bound and not IS_SLOWED and self.ran(start, end) > bound

# SPDX-License-Identifier: MPL-2.0
"""What failed runs once more, alone. What passes then is flaky: it is told, and counted for itself. That is no proof: what was
flaky again and again fails."""

import collections
import os
import re
import sys
import time

import verdict
from units import RELEASES, ROOT, Result, Unit, first_words, say

sys.path.insert(0, os.path.join(ROOT, "Tests", "suites", "lib"))
import children  # noqa: E402

# In the gate: so many processes with flaky checks pass, and so many that failed run again.
MOST_FLAKY = 3
MOST_FAILURES = 8
MOST_SECONDS = 600

# What was flaky in so many of so many recorded runs of everything has to be mended, or is a race that was shown with stock
# elements (`children.RACES`).
OFTEN = 3
RUNS = 10


class OftenFlaky(Unit):
    """Fails for each check that was flaky so often, on any version of GStreamer, and met no race. It does not matter what the
    check does in this run."""

    def __init__(self, run):
        super().__init__(run, "often-flaky")

    def command(self):
        recorded = verdict.flaky_of_everywhere(RUNS)
        counts = collections.Counter(name for names in recorded for name in {without_release(name) for name in names})
        for name, count in sorted(counts.items()):
            if count >= OFTEN:
                self.failed(f"{self.name}/{name}", f"flaky in {count} of the last {len(recorded)} recorded runs of everything, "
                                                   "without a race of RACES in Tests/suites/lib/children.py")
        if not self.results:
            self.results.append(Result("PASS", self.name))


class Flaky:
    """A check that failed, and passed the second time. `is_race`: as stock elements do (`children.RACES`)."""

    def __init__(self, name, reason, is_race):
        self.name = name
        self.reason = first_words(reason)
        self.is_race = is_race


def is_failure_alone(unit, name):
    """Whether such a name is printed of failures alone: of a unit as a whole, or of the end of its process."""
    return name in (unit.name, "the test run", "swift testing") or name.endswith(("/end", "/report"))


def without_release(name):
    """A check that is flaky on several versions of GStreamer is one."""
    place, _, rest = name.partition("/")
    return rest if place in RELEASES else name


def numbers(version):
    """Those of a version such as 1.26.2. Of one that is not known: of none, in which no race was shown."""
    return tuple(int(number) for number in re.findall(r"\d+", version or "0")[:3])


class SecondLook:
    """`is_bounded`: as in the gate, which forgives three. Without, a number of flaky checks is no failure."""

    def __init__(self, is_bounded, clock=time.monotonic):
        self._is_bounded = is_bounded
        self._clock = clock
        self.flaky = []
        self._forgiven = 0
        self._number = 0

    def take(self, units):
        """Runs again what failed, and puts what comes out in the place of the failures."""
        failures = self._failures(units)
        if not failures:
            return
        if self._is_bounded and len(failures) > MOST_FAILURES:
            say(f"NOTE no second look: {len(failures)} processes failed, and at most {MOST_FAILURES} run again")
            return
        begun = self._clock()
        for number, (unit, names) in enumerate(failures):
            left = begun + MOST_SECONDS - self._clock() if self._is_bounded else float("inf")
            if left <= 0:
                say(f"NOTE no second look at {len(failures) - number} more: the others took {MOST_SECONDS} s")
                return
            self._look(unit, names, left)

    def _failures(self, units):
        """The processes in which something failed, in order: the unit, and the names with which it runs again."""
        found = []
        for unit in units:
            if not unit.has_second_look:
                continue
            processes = list(dict.fromkeys(unit.process_of(result) for result in unit.results if result.is_failed))
            # If all of it runs again, no part does.
            found += [(unit, names) for names in ([()] if () in processes else processes)]
        return found

    def _look(self, unit, names, seconds):
        was_of_it = [result for result in unit.results if not names or unit.process_of(result) == names]
        failed = [result for result in was_of_it if result.is_failed]
        if not failed:
            # An earlier look ran the same process.
            return
        self._number += 1
        again = unit.again(names)
        again.look = self._number
        again.most_seconds = seconds
        say(f"== once more: {' '.join((unit.name, *names))}")
        again.run()
        again.show()
        unit.seconds += again.seconds
        told = {result.name: result.reason for result in again.results if result.is_failed}
        # What failed has to have passed now, not only something else.
        passed = {result.name for result in again.results if result.kind == "PASS"} - told.keys()
        missing = [result for result in failed if result.name not in passed and not is_failure_alone(unit, result.name)]
        is_good = passed and not told and not missing
        # Also what fails with others of its process that failed again.
        version = numbers(unit.run_.versions.get(unit.place))
        flaky = [Flaky(result.name, result.reason, children.is_race(result.reason, version))
                 for result in failed if is_good or result.name in passed]
        self.flaky += flaky
        if not is_good:
            for result in failed:
                # A unit as a whole fails in words of its own.
                words = "it passed" if result.name in passed else told.get(result.name, "as before" if told else "no result")
                result.reason += f" (again: {first_words(words)})"
            return
        if self._is_bounded and self._forgiven >= MOST_FLAKY:
            for result in failed:
                result.reason = f"flaky, and those of at most {MOST_FLAKY} processes pass: {result.reason}"
            return
        self._forgiven += 1
        for one in flaky:
            say(f"NOTE flaky {one.name}: {one.reason}")
        kept = [result for result in unit.results if result not in was_of_it]
        # Another result of the same name is replaced, too.
        names_now = {result.name for result in again.results}
        unit.results = [result for result in kept if result.name not in names_now] + [
            Result(result.kind, result.name, result.reason) for result in again.results]

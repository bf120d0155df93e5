# SPDX-License-Identifier: MPL-2.0
"""What a test run says at its end: counts, the slowest steps, a file for programs, and a line of the table of runs."""

import datetime
import json
import os
import re
import subprocess

from units import HERE, RELEASES, ROOT, first_words, say

TABLE = os.environ.get("LATCHKEY_RESULTS") or os.path.join(ROOT, "Tests", "suites", "RESULTS.md")
# The table has so many runs, the newest first.
KEPT = 20
# Stands behind a flaky check that met one (`children.RACES`).
RACE = " (race)"
ROW = re.compile(r"\| \d{4}-\d\d-\d\d .*")


def git(*arguments):
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def source_now():
    """The commit, and whether nothing differs from it. None: this is no git repository."""
    status = git("status", "--porcelain")
    return git("rev-parse", "HEAD"), None if status is None else status == ""


class Verdict:
    """Of the units that ran, the versions of GStreamer by place, and what was flaky."""

    def __init__(self, mode, units, versions, flaky, seconds, skipped_for_time, source=(None, None)):
        """`source`: of `source_now`, when the run began."""
        self.mode = mode
        self.units = units
        self.versions = versions
        self.flaky = flaky
        self.seconds = seconds
        self.skipped_for_time = skipped_for_time
        self.commit, was_clean = source
        # None: this is no git repository. What changed while the run went on counts as a change, too.
        self.is_clean = was_clean and source_now() == source

    def results(self, place=None):
        return [result for unit in self.units if place in (None, unit.place) for result in unit.results]

    @property
    def places(self):
        return [place for place in (HERE, *RELEASES) if any(unit.place == place for unit in self.units)]

    def is_counted(self, place):
        """Debian testing goes on to newer versions, which nothing is promised for."""
        version = self.versions.get(place)
        return place != "forky" or not version or version.startswith(RELEASES[place] + ".")

    def counts(self, place):
        kinds = [result.kind for result in self.results(place)]
        return {"passed": kinds.count("PASS"), "failed": kinds.count("FAIL"), "skipped": kinds.count("SKIP")}

    def all_counts(self):
        counts = [self.counts(place) for place in self.places if self.is_counted(place)]
        return {kind: sum(count[kind] for count in counts) for kind in ("passed", "failed", "skipped")}

    @property
    def is_passed(self):
        counts = self.all_counts()
        return counts["failed"] == 0 and counts["passed"] > 0

    def slowest(self, count=10):
        return sorted(((unit.seconds, unit.name) for unit in self.units), reverse=True)[:count]

    def show(self):
        """Prints what failed, the slowest steps of a long run, the counts of each version, and those of all."""
        failed = [result for result in self.results() if result.is_failed]
        if failed:
            say(f"== What failed (after {self.seconds:.0f} s)")
            for result in failed:
                say(str(result)[:600])
        if len(self.units) > 10:
            say("The slowest steps: " + ", ".join(f"{name} {seconds:.0f} s" for seconds, name in self.slowest()))
        for place in self.places:
            line = f"GStreamer {self.versions.get(place) or 'unknown'} ({place}): {in_words(self.counts(place))}"
            say(line if self.is_counted(place) else f"{line} (not counted: supported is {RELEASES[place]})")
        if self.flaky:
            say(f"{len(self.flaky)} flaky")
        say(in_words(self.all_counts()))

    def as_json(self):
        return {
            "mode": self.mode,
            "passed": self.is_passed,
            "commit": self.commit,
            "clean": self.is_clean,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "seconds": round(self.seconds),
            "steps": {unit.name: round(unit.seconds, 1) for unit in self.units},
            "counts": self.all_counts(),
            "versions": {
                place: {"gstreamer": self.versions.get(place), **self.counts(place)} for place in self.places},
            "flaky": [{"name": one.name, "reason": one.reason} for one in self.flaky],
            "skipped for time": self.skipped_for_time,
            "failed": [{"name": result.name, "reason": first_words(result.reason, 300)}
                       for result in self.results() if result.is_failed],
        }

    def write(self, paths):
        text = json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n"
        for path in paths:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{path}.new", path)

    def row(self):
        """The line of the table of runs."""
        verdict = self.as_json()
        counts = "; ".join(
            f"{self.versions.get(place) or place}: {in_words(self.counts(place))}" for place in self.places)
        flaky = "; ".join(f"`{one.name}`{RACE if one.is_race else ''}" for one in self.flaky) or "none"
        commit = (self.commit or "unknown")[:8] + ("" if self.is_clean else " and changes")
        return f"| {verdict['date'][:10]} | {commit} | {self.mode} | {self.seconds / 60:.0f} | {counts} | {flaky} |"

    def record(self, path=TABLE):
        """Puts the line in front of the others."""
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        begin = next(index for index, line in enumerate(lines) if re.match(r"\|[-| ]+\|$", line)) + 1
        rows = [line for line in lines[begin:] if ROW.match(line)]
        behind = [line for line in lines[begin:] if not ROW.match(line)]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines[:begin], *[self.row(), *rows][:KEPT], *behind]) + "\n")


def flaky_of_everywhere(runs, path=TABLE):
    """What was flaky and met no race in each of the last recorded runs of everything: a list of names for each."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split("|") for line in file if ROW.match(line)]
    found = [row for row in rows if len(row) > 6 and row[3].strip().startswith("everywhere")]
    return [[name for name, race in re.findall(f"`([^`]+)`({re.escape(RACE)})?", row[6]) if not race] for row in found[:runs]]


def in_words(counts):
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"

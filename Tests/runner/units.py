# SPDX-License-Identifier: MPL-2.0
"""What a test run consists of: checks, groups of Swift tests, and suites. Each runs as one command and gives results."""

import glob
import os
import re

import results

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HELPERS = os.path.join(ROOT, "meson-helpers")
SUITES = os.path.join(ROOT, "Tests", "suites")
HERE = "here"
# The releases of Debian besides the one here, each with the version of GStreamer that it is supported for.
RELEASES = {"trixie": "1.26", "forky": "1.28"}
# Tests/debian-folder says with this status that the folder cannot be made.
NO_FOLDER = 69
# A suite ends so, at its end, if checks failed: lib/report.py. With any other status it did not come so far.
CHECKS_FAILED = 3
# In a comment of a suite that measures time: it runs with nothing beside it.
ALONE = re.compile(r"^# Runs alone: ", re.MULTILINE)
# Suites whose checks run in processes for several results. The first part of a name says which.
BY_FIRST_PART = ("10-corpus", "11-sample-aes", "17-wrong-keys", "27-envelope")

# So many Swift tests at once. Without a limit all begin together, and have more files open than Foundation's Process can
# bear: above 1,365 it reads beyond the list of them.
WIDTH = ("--experimental-maximum-parallelization-width", "16")
# Pipelines apart from what computes: both want the few threads that Swift's tasks have. Each group has the targets whose names
# the expression fits, and library the others.
PIPELINES = "Latchkey(ElementKit|Elements|HLSDemux)Tests"
SWIFT_GROUPS = {
    "library": (*WIDTH, "--skip", PIPELINES),
    "elements": (*WIDTH, "--filter", "Latchkey(ElementKit|Elements)Tests"),
    "hls": (*WIDTH, "--filter", "LatchkeyHLSDemuxTests"),
}


def targets_of(group, targets):
    """Those of the targets that are in the group."""
    return sorted(target for target in targets if (
        not re.fullmatch(PIPELINES, target) if group == "library" else re.fullmatch(SWIFT_GROUPS[group][-1], target)))


class Result:
    """One line: PASS name, FAIL name: reason, or SKIP name: reason."""

    def __init__(self, kind, name, reason=""):
        self.kind = kind
        self.name = name
        self.reason = reason

    def __str__(self):
        return f"{self.kind} {self.name}" + (f": {self.reason}" if self.reason and self.kind != "PASS" else "")

    @property
    def is_failed(self):
        return self.kind == "FAIL"


LINE = re.compile(r"(PASS|FAIL|SKIP) ((?:(?!: ).)+)(?:: (.*))?")


def parsed(lines, prefix=""):
    """The results among the lines that a suite printed."""
    for line in lines:
        found = LINE.fullmatch(line.rstrip("\n"))
        # A check that is skipped says why.
        if not found or (found[1] == "SKIP" and not found[3]):
            continue
        # "PASS name (note)"
        name = found[2].split(" (")[0] if found[1] == "PASS" else found[2]
        yield Result(found[1], prefix + name.rstrip(": "), found[3] or ("no reason given" if found[1] == "FAIL" else ""))


def first_words(text, most=160):
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most] + "…"


def tail(path, count=40):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()[-count:]
    except OSError:
        return []


class Unit:
    """What runs as one command. `is_required`: it is never skipped for lack of time."""

    place = HERE
    has_second_look = False
    is_required = True
    is_alone = True

    def __init__(self, run, name):
        self.run_ = run
        self.name = name
        # Of a second look: its number, and the seconds that are left for it.
        self.look = None
        self.most_seconds = float("inf")
        # Of the last run.
        self.results = []
        self.notes = []
        self.seconds = 0.0

    @property
    def log(self):
        return os.path.join(self.run_.logs, self.name.replace("/", "-") + (f".again-{self.look}.log" if self.look else ".log"))

    def run(self):
        """Runs it, and has the results then."""
        self.results = []
        self.notes = []
        try:
            ended = self.command()
        except Exception as problem:  # noqa: B902: the other units go on
            self.failed(self.name, f"the test run cannot run it: {problem!r}")
            return
        self.seconds += ended.seconds if ended else 0.0

    def show(self):
        """Prints what did not pass, and notes."""
        lines = [*self.notes, *(str(result) for result in self.results if result.kind != "PASS")]
        if any(result.is_failed for result in self.results):
            lines = [f"---- the end of {self.log}", *tail(self.log), "----", *lines]
        if lines:
            say("\n".join(lines))

    def command(self):
        raise NotImplementedError

    def limit(self, seconds):
        """The seconds that it may take: what is required has to be at an end when the test run is out of time."""
        return max(1.0, min(seconds, self.most_seconds, self.run_.seconds_left() if self.is_required else seconds))

    def stopped(self, ended):
        """The reason of a failure, of a command that was stopped."""
        is_out_of_time = self.is_required and self.run_.seconds_left() <= 0
        return "not at an end when the test run was out of time" if is_out_of_time else ended.stopped

    def failed(self, name, reason):
        self.results.append(Result("FAIL", name, reason))


class Check(Unit):
    """One check that passes or fails as a whole."""

    def __init__(self, run, name, seconds, command, **environment):
        super().__init__(run, name)
        self._seconds = seconds
        self._command = command
        self._environment = environment

    def command(self):
        ended = self.run_.commands.run(
            self._command, self.log, self.limit(self._seconds), environment={**os.environ, **self._environment})
        self.judge(ended)
        return ended

    def judge(self, ended):
        if ended.is_good:
            self.results.append(Result("PASS", self.name))
        else:
            last = [line for line in tail(self.log) if line.strip()][-1:]
            self.failed(self.name, self.stopped(ended) if ended.stopped else f"see {self.log}: {first_words(''.join(last))}")


class Commits(Check):
    """The check of commit messages, which says with a status that there is no history."""

    NOT_RUN = 77

    def judge(self, ended):
        if ended.status == self.NOT_RUN:
            self.results.append(Result("SKIP", self.name, " ".join(tail(self.log))))
        else:
            super().judge(ended)


class SwiftGroup(Unit):
    """The Swift tests that some arguments choose, in one process."""

    has_second_look = True

    # GStreamer's own demuxer for HLS of 1.22 fails this assertion now and then when it is stopped amid a download, and that ends
    # the whole process. Of 2,915 playbacks of clear HLS, stopped within 0.45 s: one.
    STOCK = re.compile(
        r"^ERROR:\.\./ext/adaptivedemux2/hls/gsthlsdemux\.c:\d+:download_media_playlist: assertion failed: \(buf\)$", re.MULTILINE)

    def __init__(self, run, group, targets=None):
        """`targets`: only these of its targets."""
        super().__init__(run, f"swift/{group}")
        self._group = group
        self._targets = targets

    def process_of(self, _result):
        return ()

    def again(self, _names):
        return SwiftGroup(self.run_, self._group, self._targets)

    def command(self):
        ended = self._once()
        if not ended.is_good and (self.run_.versions.get(HERE) or "").startswith("1.22."):
            found = self.STOCK.search("\n".join(tail(self.log, 400)))
            if found:
                self.notes.append(f"NOTE {self.name} runs again after: {found[0]}")
                self.results = []
                ended = self._once()
        if ended.stopped:
            self.failed(self.name, self.stopped(ended))
        elif not any(result.kind == "PASS" for result in self.results):
            self.failed(self.name, "no test passed")
        elif not ended.is_good and not any(result.is_failed for result in self.results):
            self.failed(self.name, f"swift test ends with status {ended.status}; see {self.log}")
        return ended

    def _once(self):
        events = os.path.join(self.run_.work, "events")
        if os.path.exists(events):
            os.unlink(events)
        environment = {**self.run_.isolated(), "G_DEBUG": "fatal-warnings", "GST_REGISTRY": self.run_.registry}
        arguments = SWIFT_GROUPS[self._group]
        if self._targets is not None:
            environment["LATCHKEY_TESTS"] = ",".join(sorted(self._targets))
            arguments = (*WIDTH, *(f"--filter=^{target}\\." for target in targets_of(self._group, self._targets)))
        ended = self.run_.commands.run(
            ["swift", "test", "--skip-build", "--scratch-path", self.run_.scratch, "--event-stream-output-path", events,
             *arguments], self.log, self.limit(900), environment=environment)
        self.results = list(parsed(results.swift(events, self.log)))
        return ended


class Shipping(Unit):
    """`meson test`: checks of what ships."""

    def __init__(self, run):
        super().__init__(run, "shipping")

    def command(self):
        report = os.path.join(self.run_.build, "meson-logs", "testlog.json")
        if os.path.exists(report):
            os.unlink(report)
        ended = self.run_.commands.run(
            ["meson", "test", "-C", self.run_.build, "--no-rebuild"], self.log, self.limit(600))
        if os.path.exists(report):
            self.results = list(parsed(results.meson(report)))
        if ended.stopped or not self.results:
            self.failed(self.name, self.stopped(ended) if ended.stopped else f"meson test wrote no report; see {self.log}")
        return ended


class Suite(Unit):
    """A suite of Tests/suites, here or in the folder of a release. `names`: the checks of it, or all."""

    has_second_look = True

    def __init__(self, run, path, place=HERE, names=(), is_required=False):
        self.path = path
        self.step = os.path.relpath(path, run.suites_folder)
        self.place = place
        self.names = tuple(names)
        self.is_required = is_required
        super().__init__(run, self.step if place == HERE else f"{place}/{self.step}")
        with open(path, encoding="utf-8", errors="replace") as file:
            self.is_alone = bool(ALONE.search(file.read())) or self.is_slow

    @property
    def is_slow(self):
        """Whether it builds the library anew, or is one of the long ones."""
        return re.match("4[0-9]-|long/", self.step) is not None

    @property
    def is_sanitizer(self):
        return re.match("4[01]-", self.step) is not None

    def process_of(self, result):
        """The arguments with which the process that printed a result runs again; none for all of the suite."""
        name = result.name[len(self.name) + 1:]
        # The suite as a whole failed, or cannot be asked for a part.
        if not name or self.is_slow:
            return ()
        return (name.split("/")[0] if self.step in BY_FIRST_PART else name,)

    def again(self, names):
        return Suite(self.run_, self.path, self.place, names or self.names, self.is_required)

    def command(self):
        if not os.access(self.path, os.X_OK):
            self.failed(self.name, "not an executable file")
            return None
        if not self.run_.is_built:
            self.failed(self.name, "not run, the build failed")
            self.has_second_look = False
            return None
        seconds, silence = self.run_.suite_limits(self)
        folder = os.path.join(self.run_.work, "suites", self.name.replace("/", "-"))
        os.makedirs(folder, exist_ok=True)
        environment = {**self.run_.isolated(), "TMPDIR": folder, **self.run_.suite_environment(self)}
        command = [os.path.join(HELPERS, "with-plugin"), self.path, *self.names]
        if self.place != HERE:
            environment["LATCHKEY_PREBUILT"] = self.place
            command = [*self.run_.in_folder(self.place), *command]
        ended = self.run_.commands.run(command, self.log, self.limit(seconds), silence, environment)
        self.run_.remove(folder)
        with open(self.log, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        self.results = list(parsed(lines, f"{self.name}/"))
        self.notes = [line for line in lines if line.startswith("NOTE ")]
        if ended.stopped:
            self.failed(self.name, self.stopped(ended))
        elif ended.status == NO_FOLDER and self.place != HERE and self.run_.options.is_gate:
            self.results.append(Result("SKIP", self.name, " ".join(tail(self.log, 1)) or "there is no folder"))
        elif ended.status and not (ended.status == CHECKS_FAILED and any(result.is_failed for result in self.results)):
            self.failed(self.name, f"ends with status {ended.status}")
        elif not self.results:
            self.failed(self.name, "printed no result")
        return ended


def suite_paths(folder, pattern):
    return sorted(glob.glob(os.path.join(folder, pattern)))


def gate_scenes(folder):
    """The scenes that the gate runs on another version, by suite."""
    scenes = {}
    try:
        with open(os.path.join(folder, "gate-scenes.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        if line and not line.startswith("#"):
            suite, name = line.split()
            scenes.setdefault(suite, []).append(name)
    return scenes


def say(text):
    print(text, flush=True)

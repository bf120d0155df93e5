# SPDX-License-Identifier: MPL-2.0
"""One test run: its folders and environment, and the order in which its units run."""

import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import units
from processes import Commands
from second_look import OftenFlaky, SecondLook
from units import HELPERS, HERE, ROOT, Check, Commits, Result, Shipping, Suite, SwiftGroup, say, tail

# The gate. What is required has to be at an end after MOST_SECONDS.
BUDGET = 2700
MOST_SECONDS = 3600
FOLDER_SECONDS = 300
SLOTS = 3
# The suites that no gate is without, in the order in which they begin.
REQUIRED = re.compile(r"2[1-3]-hls|31-sessions|19-behaviour|20-behaviour|10-corpus")
# The release on which the gate runs some suites, and those that it runs whole.
GATE_RELEASE = "trixie"
GATE_SUITES = ("10-corpus", "16-manifests")
# Suites that also run on other releases, besides those from 10 to 39.
ELSEWHERE = ("43-key-logs", "46-promises")
# What --long also runs on other releases: pipelines that differ with GStreamer.
LONG_ELSEWHERE = ("long/57-hostile-inputs", "long/65-refused-tracks")
SOURCE_CHECKS = ("lint", "commits", "layers", "first-calls", "often-flaky")
# How much looser bounds on time are, but for --strict.
PATIENCE = 5


class Options:
    """What a test run is asked for. `mode`: gate, everywhere, on, for some releases alone, or changed, for what the change of
    some files can affect."""

    def __init__(self, mode="gate", is_strict=False, is_long=False, releases=(), pattern=".", budget=None, slots=None,
                 affected=None):
        self.mode = mode
        self.affected = affected
        self.is_strict = is_strict
        self.is_long = is_long
        self.releases = tuple(releases)
        self.pattern = pattern
        self.budget = budget or (BUDGET if self.is_gate and not is_strict and not is_long else None)
        self.slots = slots or (1 if is_strict else SLOTS)

    @property
    def is_here(self):
        return self.mode != "on"

    @property
    def is_gate(self):
        return self.mode == "gate"

    @property
    def is_whole(self):
        return self.pattern == "." and not self.affected

    @property
    def test_targets(self):
        """The targets of Swift tests that run; None: all."""
        return self.affected and self.affected.targets


class TestRun:
    """Makes the units that the options ask for, runs them, and has their results then."""

    def __init__(self, options, clock=time.monotonic):
        self.options = options
        self._clock = clock
        self._begun = clock()
        self.suites_folder = os.path.abspath(os.environ.get("LATCHKEY_SUITES") or units.SUITES)
        self.build = build_folder()
        self.logs = os.path.join(self.build, "test-logs")
        self.scratch = os.path.join(self.build, "swift-tests")
        self.commands = Commands()
        self.versions = {}
        self.is_built = True
        self.skipped_for_time = []
        self.flaky = []
        self._ahead = {}
        self._folders = {}
        self._printing = threading.Lock()
        self._jobs = ["--jobs", os.environ["LATCHKEY_JOBS"]] if os.environ.get("LATCHKEY_JOBS", "0") != "0" else []
        self.units = self._planned()

    # What runs

    def _planned(self):
        """All units that the pattern selects, in the order of their places in the run."""
        found = []
        options = self.options
        if options.is_here:
            found += [
                Check(self, "lint", 300, ["swift", "format", "lint", "--strict", "--parallel", "--recursive", *(
                    place for place in ("Package.swift", "Sources", "gst-plugin", "Tests", "examples")
                    if os.path.exists(os.path.join(ROOT, place)))]),
                Commits(self, "commits", 120, [os.path.join(ROOT, ".ci", "hooks", "commit-msg"), "--history"]),
                Check(self, "layers", 300, [os.path.join(HELPERS, "check_imports.py")]),
                Check(self, "first-calls", 60, [os.path.join(HELPERS, "check_first_calls.py")]),
                OftenFlaky(self),
            ]
            if options.mode == "everywhere":
                # The same scratch folder as the tests: what is compiled here is not compiled again.
                found.append(Check(self, "core", 1500, ["swift", "build", *self._jobs, "--scratch-path", self.scratch],
                                   LATCHKEY_NO_GSTREAMER="1"))
            found.append(self._swift_build())
            found += [SwiftGroup(self, group, options.test_targets) for group in units.SWIFT_GROUPS
                      if options.test_targets is None or units.targets_of(group, options.test_targets)]
            found += [self._shipping_build(), Shipping(self)]
            found += [self._suite(path) for path in self._suite_paths()]
            # It compares with the results of all that runs here, so it is no part of a run of some steps.
            if options.is_whole:
                found.append(Check(self, "manual", 60, [
                    os.path.join(HELPERS, "check_manual.py"), "--repository", ROOT, "--results", self.results_file(HERE),
                    *(["--everywhere"] if options.mode == "everywhere" else [])]))
        for release in self._releases():
            found += self._on_release(release)
        if options.affected:
            found = [unit for unit in found if self._is_affected(unit)]
        # A pattern may name one on a release, or the release, or the suite alone.
        return [unit for unit in found
                if any(re.search(options.pattern, name) for name in {unit.name, *unit.name.split("/", 1)})]

    def _is_affected(self, unit):
        if isinstance(unit, SwiftGroup) or unit.name in SOURCE_CHECKS:
            return True
        steps = self.options.affected.steps
        if unit.name in ("swift-build", "build"):
            return bool(self.options.test_targets if unit.name == "swift-build" else steps)
        return unit.name in steps

    def _swift_build(self):
        targets = self.options.test_targets
        return Check(self, "swift-build", 1800, [
            "swift", "build", *self._jobs, "--build-tests", "--scratch-path", self.scratch],
            **({"LATCHKEY_TESTS": ",".join(sorted(targets))} if targets else {}))

    def _shipping_build(self):
        return Check(self, "build", 1800, [os.path.join(HELPERS, "with-plugin"), "true"])

    def _releases(self):
        if self.options.is_gate:
            return (GATE_RELEASE,)
        return tuple(units.RELEASES) if self.options.mode == "everywhere" else self.options.releases

    def _suite_paths(self):
        paths = units.suite_paths(self.suites_folder, "[0-9]*")
        if self.options.is_gate and not self.options.is_long:
            paths = [path for path in paths if not re.match("4[0-9]-", os.path.basename(path))]
        if self.options.is_long:
            paths += units.suite_paths(self.suites_folder, "long/[0-9]*")
        return [path for path in paths if os.path.isfile(path)]

    def _suite(self, path):
        return Suite(self, path, is_required=REQUIRED.match(os.path.basename(path)) is not None)

    def _on_release(self, release):
        """The suites of pipelines: those from 10 to 39 and of `ELSEWHERE`, and with --long a few of the long ones. In the gate, a
        few."""
        paths = units.suite_paths(self.suites_folder, "[1-3][0-9]-*")
        if not self.options.is_gate:
            others = (*ELSEWHERE, *(LONG_ELSEWHERE if self.options.is_long else ()))
            paths += [path for name in others for path in units.suite_paths(self.suites_folder, name)]
            return [Suite(self, path, release) for path in paths]
        scenes = units.gate_scenes(self.suites_folder)
        found = []
        for path in paths:
            step = os.path.basename(path)
            if step in GATE_SUITES:
                found.append(Suite(self, path, release))
            elif step in scenes:
                found.append(Suite(self, path, release, scenes[step]))
        return found

    # What units ask

    @property
    def seconds(self):
        return self._clock() - self._begun

    def seconds_left(self):
        return MOST_SECONDS - self.seconds if self.options.is_gate and self.options.budget else float("inf")

    def isolated(self):
        """The environment, without the machine's own settings and plug-ins: they must not decide what a test sees."""
        left_out = ("LATCHKEY_CONFIG", "GST_PLUGIN_PATH", "GST_PLUGIN_PATH_1_0", "GST_REGISTRY_1_0", "GST_DEBUG",
                    "LATCHKEY_EVERYWHERE")
        variables = {name: value for name, value in os.environ.items() if name not in left_out}
        variables.update(
            XDG_CONFIG_HOME=os.path.join(self.work, "config"), XDG_STATE_HOME=os.path.join(self.work, "state"),
            LC_ALL="C.UTF-8", LATCHKEY_TEST_PATIENCE=str(1 if self.options.is_strict else PATIENCE))
        return variables

    def suite_environment(self, suite):
        is_lenient = self.options.is_gate and suite.place != HERE
        variables = {"LATCHKEY_NOTE_UNEXPECTED_PASSES": "1"} if is_lenient else {}
        if self.options.mode == "everywhere":
            variables["LATCHKEY_EVERYWHERE"] = "1"
        return variables

    def suite_limits(self, suite):
        """The seconds that a suite may take, and those for which it may print nothing."""
        limit = os.environ.get("LATCHKEY_SUITE_TIMEOUT") or (3600 if self.options.is_long else 1500 if suite.is_slow else 600)
        silence = os.environ.get("LATCHKEY_SUITE_SILENCE") or (0 if suite.is_slow or self.options.is_long else 240)
        return float(limit), float(silence) or None

    def in_folder(self, release):
        # Media that are no part of the repository, if they are beside it.
        beside = os.path.realpath(os.path.join(ROOT, "..", "shared", "corpus"))
        shown = [self.build, *([beside] if os.path.isdir(beside) else [])]
        return ["env", f"LATCHKEY_DEBIAN_SHOW={':'.join(shown)}", os.path.join(ROOT, "Tests", "debian-folder"),
                "--for-suites", release]

    def results_file(self, place):
        return os.path.join(self.logs, f"results-{place}")

    def remove(self, folder):
        shutil.rmtree(folder, ignore_errors=True)

    # The run

    def run(self):
        """Runs all units. An interruption ends what runs."""
        os.makedirs(self.logs, exist_ok=True)
        for place in (HERE, *units.RELEASES):
            if os.path.exists(self.results_file(place)):
                os.unlink(self.results_file(place))
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as self.work:
            self.registry = os.path.join(self.work, "registry.bin")
            try:
                self._run_all()
            finally:
                # A second signal must not break off what ends the others.
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                self.commands.end_all()

    def _run_all(self):
        say(f"== What the tests need (after {self.seconds:.0f} s)")
        if subprocess.run([os.path.join(HELPERS, "install-deps"), "--for-tests"], stdin=subprocess.DEVNULL).returncode:
            self._fail_at_once("dependencies", "meson-helpers/install-deps --for-tests ends with an error")
            return
        find_swift()
        self.versions[HERE] = gstreamer_version()
        subprocess.run([os.path.join(HELPERS, "swift_dependencies.py"), "use"])
        os.environ["LATCHKEY_PROGRAMS"] = "1"
        by_name = {unit.name: unit for unit in self.units}
        suites = [unit for unit in self.units if isinstance(unit, Suite)]
        here = [unit for unit in suites if unit.place == HERE]
        for name in (*SOURCE_CHECKS, "core"):
            self._one(by_name.get(name))
        self._build_ahead(by_name, here)
        self._swift_tests(by_name.get("swift-build"))
        self._shipping(by_name.get("build"), by_name.get("shipping"), suites)
        alone = [unit for unit in here if unit.is_alone and not unit.is_slow]
        slow = [unit for unit in here if unit.is_slow]
        elsewhere = [unit for unit in suites if unit.place != HERE]
        for unit in alone:
            self._one(unit)
        self._make_folders(elsewhere)
        side_by_side = [unit for unit in elsewhere if not unit.is_alone]
        self._in_slots([unit for unit in here if unit not in alone and unit not in slow] + side_by_side)
        for unit in elsewhere:
            if unit.is_alone and not self._is_skipped(unit) and not self._has_no_folder(unit):
                self._one(unit)
        if slow:
            # SwiftPM's lock lies in TMPDIR, which a suite has of its own: it would build beside the build ahead.
            for build in self._ahead.values():
                build.wait()
        for unit in slow:
            self._one(unit)
        if not self.options.is_strict:
            look = SecondLook(self.options.is_gate)
            look.take(self.units)
            self.flaky = look.flaky
        self._manual(by_name.get("manual"))
        self._write_results()

    def _fail_at_once(self, name, reason):
        unit = Check(self, name, 0, [])
        unit.failed(name, reason)
        self.units = [unit]

    def _title(self, unit):
        number = f"{self.units.index(unit) + 1} of {len(self.units)}, " if unit in self.units else ""
        say(f"== {unit.name} ({number}after {self.seconds:.0f} s)")

    def _one(self, unit):
        """Runs a unit with nothing beside it, and shows on a terminal that it runs."""
        if unit is None or self._is_skipped(unit):
            return
        self._title(unit)
        with Progress(unit):
            unit.run()
        self._show(unit)

    def _is_skipped(self, unit):
        budget = self.options.budget
        if unit.is_required or budget is None or self.seconds < budget:
            return False
        unit.results = [Result("SKIP", unit.name, "no time left")]
        self.skipped_for_time.append(unit.name)
        self._show(unit)
        return True

    def _show(self, unit):
        """What a unit said that did not pass, in one piece."""
        with self._printing:
            unit.show()

    def _swift_tests(self, build):
        groups = [unit for unit in self.units if isinstance(unit, SwiftGroup)]
        if not self._is_built_now(build or (self._swift_build() if groups else None)):
            return
        # Writes the registry, so that what it says about the machine's plug-ins is no failure of a test.
        log = os.path.join(self.logs, "registry.log")
        is_good = self.commands.run(["gst-inspect-1.0"], log, 300,
                                    environment={**self.isolated(), "GST_REGISTRY": self.registry}).is_good
        for unit in groups:
            if is_good:
                self._one(unit)
            else:
                unit.failed(unit.name, f"gst-inspect-1.0 does not work; see {log}")
                unit.has_second_look = False

    def _is_built_now(self, build):
        """Runs a build. One that no pattern selects counts only if it fails."""
        if build is None:
            return False
        self._one(build)
        is_built = not any(result.is_failed for result in build.results)
        if not is_built and build not in self.units:
            self.units.append(build)
        return is_built

    def _shipping(self, build, shipping, suites):
        """The shipped form, for the checks and for the suites."""
        if not (build or shipping or suites):
            return
        if "build" in self._ahead:
            # Nothing else is left to do until it is at its end.
            self._ahead["build"].hurry()
        self.is_built = self._is_built_now(build or self._shipping_build())
        if self.is_built:
            self._one(shipping)

    def _build_ahead(self, by_name, here):
        """What later steps need is built while earlier ones run. Whether that succeeds is found out by the step itself."""
        if len(self.units) < 2:
            return
        if "swift-build" in by_name and ("build" in by_name or here):
            self._ahead_of("build", 10, "--batch", [[os.path.join(HELPERS, "with-plugin"), "true"]])
        sanitizers = [[unit.path, "--build"] for unit in here if unit.is_sanitizer]
        if sanitizers:
            self._ahead_of("sanitizers", 19, "--idle", sanitizers)

    def _ahead_of(self, name, nice, policy, commands):
        """Runs the commands one after the other, of what everything else leaves of the processors: in a session of its own,
        since the kernel divides the processors among sessions first."""
        script = '{ echo "$1" >/proc/self/autogroup; } 2>/dev/null; shift; for build; do $build; done'
        arguments = [str(nice), *(" ".join(command) for command in commands)]
        self._ahead[name] = self.commands.start(
            ["nice", "-n", str(nice), "chrt", policy, "0", "bash", "-c", script, "ahead", *arguments],
            os.path.join(self.logs, f"build-ahead-{name}.log"))

    # Suites side by side

    def _in_slots(self, suites):
        """Runs suites, some side by side: what is required first, then what runs here, the other versions last."""
        waiting = queue.SimpleQueue()
        for unit in sorted(suites, key=lambda unit: (unit.place != HERE, not unit.is_required)):
            waiting.put(unit)
        problems = []

        def work():
            try:
                while True:
                    unit = waiting.get_nowait()
                    if self._is_skipped(unit) or self._has_no_folder(unit):
                        continue
                    with self._printing:
                        self._title(unit)
                    unit.run()
                    self._show(unit)
            except queue.Empty:
                pass
            except BaseException as problem:  # noqa: B902: it is raised again by the thread that waits
                problems.append(problem)

        slots = [threading.Thread(target=work, daemon=True) for _ in range(self.options.slots)]
        for slot in slots:
            slot.start()
        for slot in slots:
            slot.join()
        if problems:
            raise problems[0]

    # Folders of other releases

    def _make_folders(self, suites):
        """Begins to make those that the suites need."""
        for release in dict.fromkeys(unit.place for unit in suites):
            self._folders[release] = folder = Folder(self, release)
            folder.start()

    def _has_no_folder(self, unit):
        folder = self._folders.get(unit.place)
        problem = folder.problem() if folder else None
        if problem is None:
            return False
        kind, reason = problem
        unit.results = [Result(kind, unit.name, f"there is no folder of Debian {unit.place}: {reason}")]
        unit.has_second_look = False
        self._show(unit)
        return True

    # The end

    def _manual(self, manual):
        """What the manuals promise has tests, and they have passed in this run."""
        if manual is None:
            return
        self._write_results()
        skipped = [unit.name for unit in self.units if unit.place == HERE and unit.name in self.skipped_for_time]
        if skipped:
            manual.results = [Result("SKIP", "manual", f"no time left for {', '.join(skipped)}")]
            self._show(manual)
        else:
            self._one(manual)

    def _write_results(self):
        for place in (HERE, *units.RELEASES):
            lines = [f"{result}\n" for unit in self.units if unit.place == place for result in unit.results]
            if lines:
                with open(self.results_file(place), "w", encoding="utf-8") as file:
                    file.writelines(lines)


class Folder(threading.Thread):
    """Makes the folder of a release, beside the suites here."""

    def __init__(self, run, release):
        super().__init__(daemon=True)
        self._run = run
        self._release = release
        self._ended = None
        self._reason = "it was not made"

    def run(self):
        log = os.path.join(self._run.logs, f"{self._release}-folder.log")
        seconds = FOLDER_SECONDS if self._run.options.is_gate else 1800
        inside = self._run.in_folder(self._release)
        self._ended = self._run.commands.run([*inside, "gst-inspect-1.0", "--version"], log, seconds)
        if self._ended.is_good:
            self._run.versions[self._release] = version_in("\n".join(tail(log)))
            # Between two suites, no other test run makes the folder anew.
            self._run.commands.start([*inside, "sleep", "infinity"], os.path.join(self._run.logs, f"{self._release}-lock.log"))
        else:
            last = tail(log, 1)
            self._reason = self._ended.stopped or (last[0] if last else f"status {self._ended.status}")

    def problem(self):
        """Waits until it is made. SKIP or FAIL, and why, if it cannot be made."""
        self.join()
        if self._ended and self._ended.is_good:
            return None
        # A release that cannot be had today is no failure of ours.
        options = self._run.options
        is_skip = options.is_gate or (options.mode == "everywhere" and self._ended and self._ended.status == units.NO_FOLDER)
        return ("SKIP" if is_skip else "FAIL", self._reason)


class Progress:
    """A line that a terminal shows while a unit runs, as meson-helpers/progress.sh writes it from the unit's log."""

    def __init__(self, unit):
        self._unit = unit

    def __enter__(self):
        script = '. "$0"; show_progress "$1" "$2" running; read -r _; end_progress'
        os.makedirs(os.path.dirname(self._unit.log), exist_ok=True)
        open(self._unit.log, "w").close()
        self._process = subprocess.Popen(
            ["bash", "-c", script, os.path.join(HELPERS, "progress.sh"), self._unit.log, self._unit.name.split("/")[0]],
            stdin=subprocess.PIPE)

    def __exit__(self, *_):
        try:
            self._process.communicate(b"\n")
        except BrokenPipeError:
            self._process.wait()


def build_folder():
    return os.path.abspath(os.environ.get("LATCHKEY_BUILD") or os.path.join(ROOT, "build"))


def find_swift():
    """Has the Swift that install-deps installed in PATH."""
    found = subprocess.run(
        ["bash", "-c", '. "$0"; find_swift; printf %s "$PATH"', os.path.join(HELPERS, "find-swift.sh")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    os.environ["PATH"] = found.stdout or os.environ["PATH"]


def gstreamer_version():
    try:
        return version_in(subprocess.run(["gst-inspect-1.0", "--version"], stdin=subprocess.DEVNULL, capture_output=True,
                                         text=True).stdout)
    except OSError:
        return None


def version_in(text):
    """What gst-inspect-1.0 says of GStreamer's version."""
    found = re.search(r"^GStreamer (\S+)", text, re.MULTILINE)
    return found[1] if found else None

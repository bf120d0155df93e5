# SPDX-License-Identifier: MPL-2.0
"""Builds the tests of the elements, and of the libraries that read untrusted bytes or have threads of their own, with a
sanitizer, in a folder of their own, and runs them: one line a test. If one ends the process, those that had not begun run once
more without it."""

import os
import re
import subprocess
import sys
import tempfile

import children
from report import Report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "Tests", "runner"))
import results  # noqa: E402

# The tests of each. AddressSanitizer gets what handles memory by hand, and what reads XML. ThreadSanitizer gets what has
# threads. Where a target is new here, the switch LATCHKEY_SANITIZED_TESTS in Package.swift has to leave it in.
TARGETS = {
    "address": r"Latchkey(Agent|ElementKit|Elements|HTTP|SampleAES|Cipher)Tests"
               r"|LatchkeyManifestsTests\.XMLElementTests|LatchkeyKeySystemsTests\.WRMHeaderTests",
    "thread": "Latchkey(Agent|ElementKit|Elements|HTTP|SampleAES)Tests",
}
# Less than a suite may take.
BUILD_DEADLINE = 1400
# Beside the suites, with what they leave of the processors.
BUILD_AHEAD_DEADLINE = 3600
RUN_DEADLINE = int(os.environ.get("LATCHKEY_SANITIZER_DEADLINE", "600"))
# So many characters of the output are shown where something is wrong.
SHOWN = 20000
# What a sanitizer says when it found something.
FINDING = re.compile(r"(?:ERROR|WARNING): (?:Address|Leak|Thread)Sanitizer")
SUMMARY = re.compile(r"SUMMARY: (.*)")


def suppressions(name):
    return os.path.join(ROOT, "gst-plugin", "Tests", name)


def environment(options, registry):
    env = dict(os.environ)
    for variable in ("GST_PLUGIN_PATH", "GST_PLUGIN_PATH_1_0", "LATCHKEY_CONFIG", "LATCHKEY_KEYS_FILE"):
        env.pop(variable, None)
    env.update(
        # What has no part in these tests is not built.
        LATCHKEY_SANITIZED_TESTS=os.environ.get("LATCHKEY_SANITIZED_TESTS", "1"),
        G_DEBUG="fatal-warnings",
        GST_REGISTRY=registry,
        # Sanitizers see GLib's memory blocks only where each is allocated by itself.
        G_SLICE="always-malloc",
        LATCHKEY_TEST_PATIENCE="10",
        NO_COLOR="1",
        # Swift's own handler of crashes reads memory that sanitizers forbid, and hides what it was called for.
        SWIFT_BACKTRACE="enable=no",
    )
    for variable, values in options.items():
        env[variable] = ":".join(f"{key}={value}" for key, value in values.items())
    return env


def swift(*arguments, deadline, env=None):
    """Returns the exit status (None if it had to be ended) and what was printed."""
    process = children.Process(
        ["swift", *arguments], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, process_group=0)
    try:
        output, _ = process.communicate(timeout=deadline)
        return process.returncode, output.decode("utf-8", "replace")
    except children.PrintedTooMuch as failure:
        return None, f"{failure.output.decode('utf-8', 'replace')}\n{failure}"
    except subprocess.TimeoutExpired:
        process.end()
        output, _ = process.communicate()
        return None, output.decode("utf-8", "replace")


def jobs():
    count = os.environ.get("LATCHKEY_JOBS", "0")
    return [] if count == "0" else ["--jobs", count]


def build(sanitizer, scratch, env, deadline=BUILD_DEADLINE):
    env = {name: value for name, value in env.items() if not name.endswith("SAN_OPTIONS") and name != "G_DEBUG"}
    status, output = swift(
        "build", "--build-tests", "--sanitize", sanitizer, "--scratch-path", scratch, *jobs(),
        deadline=deadline, env=env)
    if status == 0:
        return None
    errors = [line for line in output.splitlines() if "error:" in line]
    return "; ".join(errors[:3]) or ("the build took too long" if status is None else output[-400:])


def run(sanitizer, options):
    report = Report()
    name = {"address": "asan", "thread": "tsan"}[sanitizer]
    scratch = os.path.join(ROOT, f".build-{name}")
    with tempfile.TemporaryDirectory() as folder:
        env = environment(options, os.path.join(folder, "registry.bin"))
        if sys.argv[1:] == ["--build"]:
            sys.exit(build(sanitizer, scratch, env, BUILD_AHEAD_DEADLINE))
        problem = build(sanitizer, scratch, env)
        report.checked(f"{name}/build", problem)
        if problem:
            report.exit()

        def once(*patterns):
            events = os.path.join(folder, f"events-{len(runs)}")
            status, output = swift(
                "test", "--skip-build", "--disable-xctest", "--experimental-maximum-parallelization-width", "16", "--sanitize",
                sanitizer, "--scratch-path", scratch, "--event-stream-output-path", events,
                *(f"--filter={pattern}" for pattern in patterns), deadline=RUN_DEADLINE, env=env)
            runs.append((status, output, events))

        runs = []
        once(sys.argv[1] if len(sys.argv) > 1 else TARGETS[sanitizer])
        left = list(not_begun(tests_of(runs)))
        if left:
            # A test that ends the process hides them.
            print(f"NOTE {name}: {len(left)} tests run now, before which the process ended", file=sys.stderr, flush=True)
            once(*patterns_of(left))
        judge(report, name, runs)
    report.exit()


def not_begun(tests):
    """The names of those that were announced, and before which the process ended."""
    return (name for test, name in tests.names.items() if test not in tests.results and test not in tests.started)


def patterns_of(names):
    """What `--filter` chooses these tests with. One for each suite: each is tried on each test."""
    suites = {}
    for name in names:
        suite, slash, function = name.rpartition("/")
        suites.setdefault(suite + slash, []).append(re.escape(function))
    return [f"^{re.escape(suite)}({'|'.join(functions)})(/|$)" for suite, functions in suites.items()]


def tests_of(runs):
    """What is known of the tests: a later run counts for those alone that had not begun in the earlier ones."""
    tests = results.Tests()
    for _status, _output, events in runs:
        run = results.Tests()
        if os.path.exists(events):
            results.read_swift_testing(events, run)
        known = {*tests.results, *tests.started}
        tests.names |= {test: name for test, name in run.names.items() if test not in tests.names}
        tests.started |= run.started - known
        tests.results |= {test: result for test, result in run.results.items() if test not in known}
        tests.issues |= {test: issues for test, issues in run.issues.items() if test not in known}
    return tests


def judge(report, name, runs):
    """`runs`: of each its status, output and events. What one ended before, the next one ran."""
    # What is printed may be torn apart by what the code under test prints; the events are in files of their own.
    if not all(os.path.exists(events) for _status, _output, events in runs):
        report.failed(f"{name}/report", "the test process wrote no report")
    found = list(tests_of(runs).results_in_order())
    is_any_failed = any(result == "FAIL" for result, _test, _reason in found)
    for result, test, reason in found:
        if result == "PASS":
            report.passed(f"{name}/{test}")
        elif result == "SKIP":
            report.skipped(f"{name}/{test}", reason)
        else:
            report.failed(f"{name}/{test}", reason)
    findings = [finding for _status, output, _events in runs for finding in SUMMARY.findall(output)]
    count = sum(len(FINDING.findall(output)) for _status, output, _events in runs)
    is_found = count or findings
    if is_found:
        detail = "; ".join(sorted(set(findings)))[:600] or "see the output"
        report.failed(f"{name}/findings", f"{count} findings: {detail}")
        for _status, output, _events in runs:
            show_findings(output)
    else:
        report.passed(f"{name}/findings")
    for status, output, _events in runs:
        if status is None:
            report.failed(f"{name}/end", f"not at an end after {RUN_DEADLINE} s")
        elif status != 0 and not is_any_failed and not is_found:
            report.failed(f"{name}/end", f"exit status {status}: {output[-300:]}")
            sys.stderr.write(output[-SHOWN:])
    if not found and not is_found and runs[0][0] == 0:
        report.failed(f"{name}/end", "no test ran")


def show_findings(output):
    first = FINDING.search(output)
    if not first and not SUMMARY.search(output):
        return
    # What was found stands at the beginning of a report; what comes behind it may be long.
    start = output.rfind("\n", 0, first.start()) + 1 if first else max(len(output) - SHOWN, 0)
    # What GLib had to say may stand in front of it.
    sys.stderr.write(output[max(start - 4000, 0):start + SHOWN])

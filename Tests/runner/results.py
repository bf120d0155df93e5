# SPDX-License-Identifier: MPL-2.0
"""Turns the reports of test runners into the lines of a suite: PASS name, FAIL name: reason, SKIP name: reason.

A test that began and did not end, and one that was announced and never began, is a failure: the test process died.
"""

import json
import re


def one_line(text):
    """The text on one line, cut where it gets long. The log has all of it."""
    text = " ".join(text.split())
    return text if len(text) <= 600 else text[:600] + "…"


def json_lines(path):
    """The objects of a file with one on each line. The last line of a process that died may be cut off."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue


class Tests:
    """What is known of the tests of one run, by identifier and in the order of their announcement."""

    def __init__(self):
        self.names = {}
        self.started = set()
        self.results = {}
        self.issues = {}

    def results_in_order(self):
        """For each test: PASS, FAIL or SKIP, its name, and the reason."""
        for test, name in self.names.items():
            if test in self.results:
                result, reason = self.results[test]
            elif test in self.started:
                result, reason = "FAIL", "the test process ended while it ran"
            else:
                result, reason = "FAIL", "never ran: the test process ended before"
            if result == "FAIL" and test in self.issues:
                reason = "; ".join(self.issues[test][:3])
            yield result, name, reason

    def lines(self):
        for result, name, reason in self.results_in_order():
            yield f"{result} {name}" + (f": {reason}" if result != "PASS" else "")


def read_swift_testing(path, tests):
    for record in json_lines(path):
        payload = record["payload"]
        if record["kind"] == "test":
            if payload["kind"] == "function":
                # TargetTests.Suite/name()/File.swift:1:2
                tests.names[payload["id"]] = re.sub(r"/[^/]*:\d+:\d+$", "", payload["id"])
            continue
        test, messages = payload.get("testID"), payload.get("messages", [])
        if test is not None and test not in tests.names:
            continue  # a suite
        texts = [one_line(message["text"]) for message in messages]
        symbols = {message["symbol"] for message in messages}
        if payload["kind"] == "testStarted":
            tests.started.add(test)
        elif payload["kind"] == "testSkipped":
            tests.results[test] = ("SKIP", texts[0] if texts else "no reason given")
        elif payload["kind"] == "testEnded":
            tests.results[test] = ("FAIL", texts[0]) if "fail" in symbols else ("PASS", "")
        elif payload["kind"] == "issueRecorded" and "fail" in symbols:
            place = payload.get("issue", {}).get("sourceLocation", {})
            where = f"{place.get('fileID', '?')}:{place.get('line', '?')}: " if place else ""
            # Outside any test: a failure of the run.
            if test is None:
                test = "run"
                tests.names[test] = "the test run"
                tests.results[test] = ("FAIL", "")
            tests.issues.setdefault(test, []).append(where + " ".join(texts[:2]))


def read_xctest(path, tests):
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            case = re.match(r"Test Case '([^']+)' (started|passed|failed|skipped)", line)
            error = re.match(r"(\S+: error: )(\S+) : (.*)", line)
            if case and case.group(2) == "started":
                tests.names[case.group(1)] = case.group(1)
                tests.started.add(case.group(1))
            elif case:
                result = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP"}[case.group(2)]
                tests.results[case.group(1)] = (result, "" if result == "PASS" else "see the log")
            elif error:
                tests.issues.setdefault(error.group(2), []).append(one_line(error.group(1) + error.group(3)))


def swift(events, log):
    """Of `swift test` with --event-stream-output-path `events`, its output in `log`."""
    tests = Tests()
    try:
        read_swift_testing(events, tests)
    except FileNotFoundError:
        yield "FAIL swift testing: the test process wrote no report"
    read_xctest(log, tests)
    yield from tests.lines()


def meson(path):
    """Of `meson test`, its testlog.json."""
    results = {"OK": "PASS", "EXPECTEDFAIL": "PASS", "SKIP": "SKIP"}
    for record in json_lines(path):
        result = results.get(record["result"], "FAIL")
        reason = one_line(record.get("stdout", "") + " " + record.get("stderr", ""))
        reason = reason or "ended with status %s" % record.get("returncode")
        # Newer releases of Meson put the project's name in front: `shipping - latchkey:exports`.
        name = record["name"].rpartition(":")[2]
        yield f"{result} shipping/{name}" + (f": {reason}" if result != "PASS" else "")

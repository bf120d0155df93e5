#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks the table of gst-plugin/docs/agent.md: each row names tests, and each test is there and is not skipped.

A test is written `35-agent dash` or `long/56-protected plays`, a case of a suite; `AgentStateTests name`, a function of a Swift suite; or
`AgentStateTests`, all of one.
"""

import argparse
import os
import re
import sys

TITLE = "## Where the manuals' calls are"
DECLARATION = r"(?:final )?(?:struct|class|enum|actor) (\w+)"
SKIPPED = re.compile(r"\.disabled\b|\.enabled\(if|withKnownIssue|skipped\(")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rows(document):
    """The cells of each row of the table, without its head."""
    part = document.split(TITLE, 1)[-1].split("\n## ", 1)[0] if TITLE in document else ""
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def swift_tests(repository):
    """The text of each Swift suite, by its name."""
    found, inner = {}, {}
    for top in ("Tests", os.path.join("gst-plugin", "Tests")):
        for folder, folders, files in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if not name.startswith(".") and name != "Corpus"]
            for name in files:
                if name.endswith(".swift"):
                    text = read(os.path.join(folder, name))
                    for suite in re.findall(rf"^(?:@\S+.*\s)?{DECLARATION}", text, re.MULTILINE):
                        found[suite] = text
                    for suite in re.findall(rf"^\s+@Suite\b.*\s{DECLARATION}", text, re.MULTILINE):
                        inner[suite] = text
    return {**inner, **found}


def suite_problem(repository, suite, case):
    """Why the case of a suite does not count; None where it does."""
    path = os.path.join(repository, "Tests", "suites", suite)
    if not os.path.exists(path):
        return "there is no such suite"
    texts = [read(path)]
    modules = set(re.findall(r"^\s*import (\w+)", texts[0], re.MULTILINE))
    for module in modules:
        library = os.path.join(repository, "Tests", "suites", "lib", module + ".py")
        if os.path.exists(library):
            texts.append(read(library))
    # A name may stand for several cases: `token/dash`.
    named = re.compile(rf'["\']{re.escape(case)}(?:/[^"\']*)?["\']')
    holders = [text for text in texts if named.search(text)]
    if not holders:
        return "the suite has no such case"
    function = case.split("/")[0].replace("-", "_")
    for text in holders:
        body = re.search(rf"^def {function}\(.*?(?=^\S)", text, re.MULTILINE | re.DOTALL)
        if body and SKIPPED.search(body.group()):
            return "the case may be skipped"
    return None


def swift_problem(tests, suite, function):
    """Why a Swift test does not count; None where it does."""
    if suite not in tests:
        return "there is no such suite"
    text = tests[suite]
    if not function:
        return None if "@Test" in text else "it has no tests"
    found = re.search(rf"@Test(?P<traits>[^\n]*(?:\n[^\n]*)??)\bfunc {function}\b", text)
    if not found:
        return "the suite has no such test"
    return "it may be skipped" if SKIPPED.search(found.group("traits")) else None


def problems(repository):
    table = rows(read(os.path.join(repository, "gst-plugin", "docs", "agent.md")))
    if not table:
        yield f"agent.md has no table below “{TITLE}”"
    tests = swift_tests(repository)
    for row in table:
        named = re.findall(r"`([^`]+)`", row[2]) if len(row) == 3 else []
        if not named:
            yield f"“{row[0]}” names no test"
        for test in named:
            suite, _, case = test.partition(" ")
            is_suite = re.match(r"(?:long/)?\d\d-", suite)
            problem = suite_problem(repository, suite, case) if is_suite else swift_problem(tests, suite, case)
            if problem:
                yield f"“{row[0]}”: `{test}`: {problem}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", required=True)
    found = list(problems(parser.parse_args().repository))
    for problem in found:
        print(f"check_manual: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

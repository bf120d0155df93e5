#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks two tables of promises and their tests: that of gst-plugin/docs/manuals.md, which has what three manuals promise,
section by section, and that of SECURITY.md.

Each section of meson-helpers/manual_sections.txt has a row, and each row of both tables names tests that are there, are not
skipped, and check something. With the results of a test run, each of these tests has passed in it, but those of
Tests/suites/long and those from 40 on where these were left out; of each row at least one has.

A test is written `35-agent dash` or `long/56-protected plays`, a case of a suite; `AgentStateTests name`, a function of a
Swift suite; `AgentStateTests`, all of one; or `shipping/header`, a check of `meson test`.
"""

import argparse
import ast
import functools
import os
import re
import sys

DOCUMENT = os.path.join("gst-plugin", "docs", "manuals.md")
SECTIONS = os.path.join("meson-helpers", "manual_sections.txt")
TITLE = "## The table"
SECURITY = "SECURITY.md"
SECURITY_TITLE = "## What checks these promises"
SECTION = re.compile(r"(?:DA|TVSDK|CONNECT) (?:\d+(?:\.\d+)*|[AB])(?= |$)")
DECLARATION = r"(?:final )?(?:struct|class|enum|actor) (\w+)"
SKIPPED = re.compile(r"\.disabled\b|\.enabled\(if|withKnownIssue|skipped\(")
# What makes a Swift test fail. That a call throws nothing is no check.
CHECKS = re.compile(r"#expect\b|#require\b|Issue\.record|confirmation\(|XCTAssert|\bthrow ")
CALL = re.compile(r"\b(\w+)\s*[({]")
BRACE = re.compile("[{}]")
# An address has two slashes too.
COMMENT = re.compile(r"(?<!:)//[^\n]*")
# Where a Swift test is written and is none: whole lines of comments, and what is left out.
NO_CODE = re.compile(r"^ *//.*$|^ */\*[\s\S]*?\*/|^ *#if false\b[\s\S]*?^ *#endif", re.MULTILINE)
# What suites call the tables of their cases.
TABLES = {"ALL", "CASES", "CHECKS", "CHILDREN", "HERE", "LONG", "MODULE"}
# A script that is another suite with some arguments.
OTHER_SUITE = re.compile(r'^exec "\$\(dirname "\$\{BASH_SOURCE\[0\]\}"\)/((?:\.\./)?\d\d-[\w-]+)"', re.MULTILINE)
CHECK_NAMES = {"demand", "states", "checked", "failed", "demand_stop", "ends", "ends_with_error"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rows(repository, document, title):
    """The cells of each row of the table below the title, without its head."""
    path = os.path.join(repository, document)
    text = read(path) if os.path.exists(path) else ""
    part = text.split(title, 1)[-1].split("\n## ", 1)[0] if title in text else ""
    lines = [line for line in part.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
    return [row for row in cells if not all(set(cell) <= set("-: ") for cell in row)]


def sections(text):
    return [found.group() for found in map(SECTION.match, text.splitlines()) if found]


# Swift


@functools.cache
def swift_tests(repository):
    """Of each Swift suite its text, the folder of its module and whether it may be skipped, by its name; and of each such
    folder where its functions are, by theirs. Folders of what tests share end in Support, and are one."""
    found, inner, extensions, functions = {}, {}, {}, {"Support": {}}
    for top in ("Tests", os.path.join("gst-plugin", "Tests")):
        for folder, folders, files in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if not name.startswith(".") and name != "Corpus"]
            module = os.path.relpath(folder, os.path.join(repository, top)).split(os.sep)[0]
            own = functions.setdefault("Support" if module.endswith("Support") else module, {})
            for name in files:
                if name.endswith(".swift"):
                    text = NO_CODE.sub("", read(os.path.join(folder, name)))
                    for suite in re.finditer(rf"^(?:@\S+.*\s)?{DECLARATION}", text, re.MULTILINE):
                        found[suite[1]] = (body(text, suite.end()), module, is_skipped(text, suite.start(1)))
                    for suite in re.finditer(rf"^\s+@Suite\b.*\s{DECLARATION}", text, re.MULTILINE):
                        inner[suite[1]] = (body(text, suite.end()), module, is_skipped(text, suite.start(1)))
                    for suite in re.finditer(r"^extension (?:\w+\.)*(\w+)", text, re.MULTILINE):
                        extensions[suite[1]] = extensions.get(suite[1], "") + body(text, suite.end())
                    for function in re.finditer(r"\bfunc (\w+)", text):
                        own.setdefault(function[1], []).append((text, function.end()))
    suites = {name: (text + extensions.get(name, ""), *rest) for name, (text, *rest) in {**inner, **found}.items()}
    return suites, functions


def is_skipped(text, place):
    """Whether the traits of the declaration whose name is at that place skip it: they stand in its paragraph."""
    return SKIPPED.search(COMMENT.sub("", text[:place].rsplit("\n\n", 1)[-1])) is not None


# What is longer than a line comes first.
LITERAL = re.compile(r'"""[\s\S]*?"""|#"[^\n]*?"#|"(?:\\.|[^"\\\n])*"')


@functools.cache
def without_braces_in_strings(text):
    return LITERAL.sub(lambda literal: re.sub("[{}]", " ", literal[0]), text)


def body(text, start):
    """What stands between the first brace behind `start` and the one that closes it."""
    code = without_braces_in_strings(text)
    opening = code.find("{", start)
    depth = 0
    for brace in BRACE.finditer(code, opening) if opening >= 0 else ():
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[opening + 1:brace.start()]
    return ""


def swift_can_fail(functions, text, seen):
    """Whether such a body, or a function of the tests that it calls, has a check. `seen`: the functions that are not
    looked at again."""
    code = COMMENT.sub("", text)
    if CHECKS.search(code):
        return True
    called = set(CALL.findall(code)) - seen
    seen |= called
    return any(swift_can_fail(functions, body(*place), seen) for name in called for place in functions.get(name, []))


def swift_problem(tests, suite, function):
    """Why a Swift test, or one of a whole suite, does not count; None if each does."""
    suites, functions = tests
    if suite not in suites:
        return "there is no such suite"
    text, module, may_be_skipped = suites[suite]
    if may_be_skipped:
        return "the suite may be skipped"
    helpers = {**functions["Support"], **functions.get(module, {})}
    found = list(re.finditer(r"@Test(?P<traits>(?:(?!@Test)[\s\S])*?)\bfunc (?P<name>\w+)", text))
    if function:
        found = [one for one in found if one["name"] == function]
    if not found:
        return "the suite has no such test" if function else "it has no tests"
    for one in found:
        # A default argument or a trait may have braces, and the body is behind the list of parameters.
        if SKIPPED.search(one["traits"]):
            return "it may be skipped"
        if not swift_can_fail(helpers, body(text, one.end()), {one["name"]}):
            return f"{'it' if function else one['name']} is empty: nothing in it can fail"
    return None


# Suites


@functools.cache
def nodes(path):
    """Those of a file of Python; none where it is something else."""
    try:
        return list(ast.walk(ast.parse(read(path))))
    except SyntaxError:
        return []


@functools.cache
def suite_functions(repository, suite):
    """The functions of a suite and of the modules that it imports, by name, the functions behind each case, the text of the
    suite and of what it imports itself, and the strings in these: the names of cases are among them, and no comments."""
    functions, cases, texts, strings = {}, {}, [], set()
    todo, seen = [os.path.join(repository, "Tests", "suites", suite)], set()
    library = os.path.join(repository, "Tests", "suites", "lib")
    while todo:
        path = todo.pop(0)
        if path in seen or not os.path.exists(path):
            continue
        seen.add(path)
        # What a suite imports itself has its cases.
        has_cases = len(seen) <= 1 or os.path.basename(path)[:-3] in imported
        if has_cases:
            texts.append(read(path))
        names = {name.name for node in nodes(path) if isinstance(node, ast.Import) for name in node.names}
        names |= {node.module for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module}
        if len(seen) == 1:
            imported = names
        todo += [os.path.join(library, name + ".py") for name in sorted(names)]
        for node in nodes(path):
            if has_cases and isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        used = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
                        cases.setdefault(key.value, set()).update(used)
    return functions, cases, texts, strings


def can_fail(functions, name, depth=6, seen=frozenset()):
    """Whether a function, or one that it calls, has something that fails."""
    for node in functions.get(name, []):
        for part in ast.walk(node):
            if isinstance(part, (ast.Raise, ast.Assert)):
                return True
            if isinstance(part, ast.Return) and part.value is not None and not isinstance(part.value, ast.Constant):
                if any(isinstance(inner, (ast.Compare, ast.IfExp, ast.BoolOp)) for inner in ast.walk(part.value)):
                    return True
            if isinstance(part, ast.Call):
                called = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
                if called in CHECK_NAMES:
                    return True
                # With a reason, it reports a failure.
                if called == "tell" and isinstance(part.func, ast.Name) and len(part.args) > 1:
                    return True
                if depth and called not in seen and can_fail(functions, called, depth - 1, seen | {called}):
                    return True
    return False


def whole_suite_problem(repository, suite):
    """Why a suite does not count of which a row names no case; None if it does."""
    text = read(os.path.join(repository, "Tests", "suites", suite))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        other = OTHER_SUITE.search(text)
        if other:
            return whole_suite_problem(repository, os.path.normpath(os.path.join(os.path.dirname(suite), other[1])))
        # A shell script says FAIL itself.
        return None if re.search(r"^[^#\n]*\bFAIL\b", text, re.MULTILINE) else "it is empty: nothing in it can fail"
    functions, _, texts, _ = suite_functions(repository, suite)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    if not any(can_fail(functions, name) for name in own):
        return "it is empty: nothing in it can fail"
    for node in [node for part in texts for node in ast.walk(ast.parse(part)) if isinstance(node, ast.Assign)]:
        if not isinstance(node.value, ast.Dict) or not any(getattr(name, "id", "") in TABLES for name in node.targets):
            continue
        for key, value in zip(node.value.keys, node.value.values):
            behind = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)} & set(functions)
            if key and behind and not any(can_fail(functions, name) for name in behind):
                return f"its case {ast.unparse(key)} is empty: nothing in it can fail"
    return None


def suite_problem(repository, suite, case):
    """Why the case of a suite does not count; None where it does."""
    if not os.path.exists(os.path.join(repository, "Tests", "suites", suite)):
        return "there is no such suite"
    if not case:
        return whole_suite_problem(repository, suite)
    functions, cases, _, strings = suite_functions(repository, suite)
    # A name may stand for several cases: `token/dash`.
    if not any(string == case or string.startswith(case + "/") for string in strings):
        # The cases of some suites are those of the corpus.
        is_media = case and os.path.exists(os.path.join(repository, "Tests", "Corpus", case.split("/")[0], "case.json"))
        return None if is_media else "the suite has no such case"
    behind = set().union(*(used for name, used in cases.items() if name == case or name.startswith(case + "/")))
    behind = {name for name in behind or {case.split("/")[0].replace("-", "_")} if name in functions}
    for name in behind:
        for node in functions[name]:
            for part in ast.walk(node):
                if isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "skipped":
                    return "the case may be skipped"
    if behind and not any(can_fail(functions, name) for name in behind):
        return "it is empty: nothing in it can fail"
    return None


def shipping_problem(repository, name):
    if os.path.exists(os.path.join(repository, "meson-helpers", f"check_{name}.py")):
        return None
    path = os.path.join(repository, "gst-plugin", "Tests", "c", f"{name.removeprefix('c-').replace('-', '_')}_test.c")
    return None if name.startswith("c-") and os.path.exists(path) else "there is no such check"


# Results


class Results:
    """The lines of a test run: PASS name, FAIL name: reason, SKIP name: reason."""

    def __init__(self, paths):
        self.by_name = {}
        for path in paths:
            for line in read(path).splitlines():
                found = re.match(r"(PASS|FAIL|SKIP) (\S+?)(?:\(.*?\))?:?(?: |$)", line)
                if found:
                    self.by_name.setdefault(found[2], set()).add(found[1])

    def of(self, test):
        """What became of a test: all the results of its cases."""
        suite, _, case = test.partition(" ")
        results = set()
        for name, outcome in self.by_name.items():
            if re.match(r"(?:long/)?\d\d-|shipping/", suite):
                full = f"{suite}/{case}" if case else suite
                is_one = name == full or name.startswith(full + "/")
            else:
                is_one = re.search(rf"[./]{suite}/{case + '$' if case else ''}", name) is not None
            if is_one:
                results |= outcome
        return results

    def has_kind(self, suite):
        """Whether suites of its kind were in the run: those from 40 on and the long ones may be left out."""
        kind = re.match("long/|4[0-9]-", suite)
        if kind is None:
            return True
        pattern = "long/" if kind[0] == "long/" else "4[0-9]-"
        return any(re.match(pattern, name) for name in self.by_name)


def problems(repository, results=None):
    table, promises = rows(repository, DOCUMENT, TITLE), rows(repository, SECURITY, SECURITY_TITLE)
    for document, title, found in (DOCUMENT, TITLE, table), (SECURITY, SECURITY_TITLE, promises):
        if not found:
            yield f"{document} has no table below “{title}”"
    yield from section_problems(repository, table)
    for row in table:
        yield from row_problems(repository, row[0], row[2] if len(row) == 3 else "", results)
    for row in promises:
        yield from row_problems(repository, row[0], row[1] if len(row) > 1 else "", results)


def section_problems(repository, table):
    """Why not each section has a row, and each row a section."""
    wanted = sections(read(os.path.join(repository, SECTIONS)))
    present = [found.group() for found in (SECTION.match(row[0]) for row in table) if found]
    for section in wanted:
        if section not in present:
            yield f"no row is for {section}"
    for section in sorted(set(present) - set(wanted)):
        yield f"“{section}” is no section of {SECTIONS}"
    for row in table:
        if not SECTION.match(row[0]) and not row[0].startswith("beyond: "):
            yield f"“{row[0]}” names no section"


def row_problems(repository, promise, cell, results):
    """What is wrong with the tests that the cell of a row names."""
    named = re.findall(r"`([^`]+)`", cell)
    if not named:
        yield f"“{promise}” names no test"
    have_run = False
    for test in named:
        suite, _, case = test.partition(" ")
        if suite.startswith("shipping/"):
            problem = shipping_problem(repository, suite.removeprefix("shipping/"))
        elif re.match(r"(?:long/)?\d\d-", suite):
            problem = suite_problem(repository, suite, case)
        else:
            problem = swift_problem(swift_tests(repository), suite, case)
        if problem is None and results and results.has_kind(suite):
            outcome = results.of(test)
            have_run = have_run or outcome == {"PASS"}
            if outcome != {"PASS"}:
                problem = "it did not run" if not outcome else f"its results are {', '.join(sorted(outcome))}"
        if problem:
            yield f"“{promise}”: `{test}`: {problem}"
    if results and named and not have_run:
        yield f"“{promise}”: none of its tests has run"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", required=True)
    parser.add_argument("--results", action="append", default=[], metavar="FILE", help="result lines of a whole test run")
    arguments = parser.parse_args()
    found = list(problems(arguments.repository, Results(arguments.results) if arguments.results else None))
    for problem in found:
        print(f"check_manual: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

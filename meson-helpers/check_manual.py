#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks two tables of promises and their tests: that of gst-plugin/docs/manuals.md, which has what three manuals promise,
section by section, and that of SECURITY.md.

Each section of meson-helpers/manual_sections.txt has a row, and each row of both tables names tests that are there, are not
skipped, and check something. With the results of a test run, each of these tests has passed in it, but those of
Tests/suites/long and those from 40 on where these were left out; of each row at least one has. Of a group, each case that the
suite names has run. Cases that suites leave to --everywhere stand behind these words, up to the next semicolon.

A test is written `35-agent dash` or `long/56-protected plays`, a case of a suite; `AgentStateTests name`, a function of a
Swift suite; `AgentStateTests`, all of one; `LatchkeyAgentTests.FirstCallTests`, one whose name several targets have; or
`shipping/header`, a check of `meson test`.
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
# Within another type it says that it is one.
SUITE = re.compile(rf"^(?:(?:@\S+.*\s)?|[ \t]+@Suite\b.*\s){DECLARATION}", re.MULTILINE)
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
def swift_targets(repository):
    """The folder of each test target that Package.swift gives one. The others are in the folder of their name."""
    path = os.path.join(repository, "Package.swift")
    found = re.split(r"\.testTarget\(", read(path))[1:] if os.path.exists(path) else []
    found = [re.match(r'\s*name: "(\w+)"(?:(?!\n\s*\.\w+\()[\s\S])*?\bpath: "([^"]+)"', text) for text in found]
    return {one[2]: one[1] for one in found if one}


@functools.cache
def swift_tests(repository):
    """Of each Swift suite its text and whether it may be skipped, by its target and name; and of each target where its
    functions are, by their names. Folders of what tests share end in Support, and are one."""
    suites, functions, extensions = {}, {"Support": {}}, {}
    for top in ("Tests", os.path.join("gst-plugin", "Tests")):
        for folder, folders, files in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if not name.startswith(".") and name != "Corpus"]
            target = swift_target(repository, os.path.relpath(folder, repository))
            own = functions.setdefault(target, {})
            for name in files:
                if name.endswith(".swift"):
                    text = NO_CODE.sub("", read(os.path.join(folder, name)))
                    for suite in SUITE.finditer(text):
                        before, skipped = suites.get((target, suite[1]), ("", False))
                        suites[target, suite[1]] = (
                            before + body(text, suite.end()), skipped or is_skipped(text, suite.start(1)))
                    for suite in re.finditer(r"^extension (?:\w+\.)*(\w+)", text, re.MULTILINE):
                        extensions.setdefault((target, suite[1]), []).append(body(text, suite.end()))
                    for function in re.finditer(r"\bfunc (\w+)", text):
                        own.setdefault(function[1], []).append((text, function.end()))
    for name, texts in extensions.items():
        if name in suites:
            suites[name] = (suites[name][0] + "".join(texts), suites[name][1])
    return suites, functions


def swift_target(repository, folder):
    """The target of a folder of tests, or Support."""
    for place, target in swift_targets(repository).items():
        if folder == place or folder.startswith(place + os.sep):
            return target
    name = folder.removeprefix("gst-plugin" + os.sep).split(os.sep)[1:2]
    return "Support" if name and name[0].endswith("Support") else "".join(name)


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
    """Whether such a body, or a function of the tests that it calls, has a check. `functions`: those of the suite, of its
    target, and of all; the first that have a function of that name count. `seen`: the functions that are not looked at
    again."""
    code = COMMENT.sub("", text)
    if CHECKS.search(code):
        return True
    called = set(CALL.findall(code)) - seen
    seen |= called
    for name in called:
        places = next((places[name] for places in functions if name in places), [])
        if any(swift_can_fail(functions, body(*place), seen) for place in places):
            return True
    return False


def swift_suite(tests, suite):
    """The target and the name of a suite that a row names, or why there is none."""
    target, _, name = suite.rpartition(".")
    found = [one for one in tests[0] if one[1] == name and target in ("", one[0])]
    # Other types may have the name.
    found = [one for one in found if "@Test" in tests[0][one][0]] or found
    if len(found) > 1:
        return None, f"several targets have such a suite: name one, as in `{min(found)[0]}.{name}`"
    return (found[0], None) if found else (None, "there is no such suite")


def swift_functions(text, function):
    found = list(re.finditer(r"@Test(?P<traits>(?:(?!@Test)[\s\S])*?)\bfunc (?P<name>\w+)", text))
    return [one for one in found if function in ("", one["name"])]


def swift_problem(tests, suite, function):
    """Why a Swift test, or one of a whole suite, does not count; None if each does."""
    suites, functions = tests
    found, problem = swift_suite(tests, suite)
    if problem:
        return problem
    text, may_be_skipped = suites[found]
    if may_be_skipped:
        return "the suite may be skipped"
    own = {}
    for place in re.finditer(r"\bfunc (\w+)", text):
        own.setdefault(place[1], []).append((text, place.end()))
    helpers = own, functions[found[0]], functions["Support"]
    named = swift_functions(text, function)
    if not named:
        return "the suite has no such test" if function else "it has no tests"
    for one in named:
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


class Suite:
    """A suite and the modules of Tests/suites/lib that it imports, the nearest first."""

    def __init__(self, repository, suite):
        self.path = os.path.join(repository, "Tests", "suites", suite)
        library = os.path.join(repository, "Tests", "suites", "lib")
        # Of each module its functions by name; of a suite, and of what it imports itself, the functions behind each case.
        self.functions, self._cases, self._others, self.with_cases = {}, {}, {}, []
        # The strings in these: the names of cases are among them, and no comments.
        self.strings = set()
        todo, direct = [self.path], None
        while todo:
            path = todo.pop(0)
            if path in self.functions or not os.path.exists(path):
                continue
            own = self.functions[path] = {}
            imported = {name.name for node in nodes(path) if isinstance(node, ast.Import) for name in node.names}
            imported |= {node.module for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module}
            direct = imported if direct is None else direct
            todo += [os.path.join(library, name + ".py") for name in sorted(imported)]
            if path == self.path or os.path.basename(path)[:-3] in direct:
                self.with_cases.append(path)
            for node in nodes(path):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and path in self.with_cases:
                    self.strings.add(node.value)
                if isinstance(node, ast.FunctionDef):
                    own.setdefault(node.name, []).append(node)
            if path in self.with_cases:
                self._note_cases(path)

    def _note_cases(self, path):
        """Takes those of the tables of a module, and other keys of its dictionaries if no table has them."""
        def named(node):
            return [getattr(name, "id", "") for name in getattr(node, "targets", [getattr(node, "target", None)])]

        tables = {part for node in nodes(path) if isinstance(node, (ast.Assign, ast.AugAssign)) and TABLES & set(named(node))
                  for part in ast.walk(node.value) if isinstance(part, ast.Dict)}
        others = {node for node in nodes(path) if isinstance(node, ast.Dict)} - tables
        for cases, found in (self._cases, tables), (self._others, others):
            for key, value in [pair for node in found for pair in zip(node.keys, node.values)]:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    cases.setdefault(key.value, []).append((path, value))

    def behind(self, case):
        """The module and the name of each function behind a case, for each of the cases that the name stands for."""
        def is_one(name):
            return name == case or name.startswith(case + "/")

        cases = self._cases if any(map(is_one, self._cases)) else self._others
        found = [self.used(*place) for name, places in cases.items() if is_one(name) for place in places]
        name = case.split("/")[0].replace("-", "_")
        return [functions for functions in found if functions] or [
            [(path, name)] for path in self.with_cases if name in self.functions[path]][:1]

    def below(self, name):
        """The cases of the tables that the name of a group stands for; none if it is a case itself."""
        return [] if name in self._cases else [case for case in self._cases if case.startswith(name + "/")]

    def used(self, path, value):
        """The functions that an expression of a module names."""
        names = [(self._module(part.value), part.attr) for part in ast.walk(value)
                 if isinstance(part, ast.Attribute) and self._module(part.value)]
        names += [(self._owner(path, part.id), part.id) for part in ast.walk(value) if isinstance(part, ast.Name)]
        return [(place, name) for place, name in names if place and name in self.functions[place]]

    def _module(self, node):
        """The file of a module that a name stands for."""
        return next((path for path in self.functions if isinstance(node, ast.Name)
                     and os.path.basename(path) == f"{node.id}.py"), None)

    def _owner(self, path, name):
        """The module of a name: the same one, or one that has it."""
        return next((place for place in (path, *self.functions) if name in self.functions[place]), None)

    def can_fail(self, path, name, depth=7, seen=frozenset()):
        """Whether a function of a module, or one that it calls, has something that fails."""
        return any(self._part_can_fail(path, part, depth, seen | {(path, name)})
                   for node in self.functions[path].get(name, []) for part in ast.walk(node))

    def _part_can_fail(self, path, part, depth, seen):
        if isinstance(part, (ast.Raise, ast.Assert)):
            return True
        if isinstance(part, ast.Return) and part.value is not None and not isinstance(part.value, ast.Constant):
            return any(isinstance(inner, (ast.Compare, ast.IfExp, ast.BoolOp)) for inner in ast.walk(part.value))
        if not isinstance(part, ast.Call):
            return False
        is_method = isinstance(part.func, ast.Attribute)
        called = part.func.attr if is_method else getattr(part.func, "id", "")
        # With a reason, `tell` reports a failure.
        if called in CHECK_NAMES or (called == "tell" and not is_method and len(part.args) > 1):
            return True
        module = self._module(part.func.value) if is_method else self._owner(path, called)
        # The object of a method may be of any class.
        places = [module] if module else [place for place in self.functions if called in self.functions[place]]
        return depth > 0 and any(self.can_fail(place, called, depth - 1, seen)
                                 for place in places if (place, called) not in seen)


@functools.cache
def suite_of(repository, suite):
    return Suite(repository, suite)


def whole_suite_problem(repository, suite):
    """Why a suite does not count of which a row names no case; None if it does."""
    text = read(os.path.join(repository, "Tests", "suites", suite))
    try:
        ast.parse(text)
    except SyntaxError:
        other = OTHER_SUITE.search(text)
        if other:
            return whole_suite_problem(repository, os.path.normpath(os.path.join(os.path.dirname(suite), other[1])))
        # A shell script says FAIL itself.
        return None if re.search(r"^[^#\n]*\bFAIL\b", text, re.MULTILINE) else "it is empty: nothing in it can fail"
    found = suite_of(repository, suite)
    if not any(found.can_fail(found.path, name) for name in found.functions[found.path]):
        return "it is empty: nothing in it can fail"
    for path, node in [(path, node) for path in found.with_cases for node in nodes(path) if isinstance(node, ast.Assign)]:
        if not isinstance(node.value, ast.Dict) or not any(getattr(name, "id", "") in TABLES for name in node.targets):
            continue
        for key, value in zip(node.value.keys, node.value.values):
            behind = found.used(path, value)
            if key and behind and not any(found.can_fail(*one) for one in behind):
                return f"its case {ast.unparse(key)} is empty: nothing in it can fail"
    return None


def suite_problem(repository, suite, case):
    """Why the case of a suite does not count; None where it does."""
    if not os.path.exists(os.path.join(repository, "Tests", "suites", suite)):
        return "there is no such suite"
    if not case:
        return whole_suite_problem(repository, suite)
    found = suite_of(repository, suite)
    # A name may stand for several cases: `token/dash`.
    if not any(string == case or string.startswith(case + "/") for string in found.strings):
        # The cases of some suites are those of the corpus.
        is_media = case and os.path.exists(os.path.join(repository, "Tests", "Corpus", case.split("/")[0], "case.json"))
        return None if is_media else "the suite has no such case"
    for behind in found.behind(case):
        for part in (part for path, name in behind for node in found.functions[path][name] for part in ast.walk(node)):
            if isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "skipped":
                return "the case may be skipped"
        if not any(found.can_fail(*one) for one in behind):
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

    def __init__(self, paths, is_everywhere=False):
        self.is_everywhere = is_everywhere
        self.by_name = {}
        for path in paths:
            for line in read(path).splitlines():
                found = re.match(r"(PASS|FAIL|SKIP) (\S+?)(?:\(.*?\))?:?(?: |$)", line)
                if found:
                    self.by_name.setdefault(found[2], set()).add(found[1])

    def of(self, suite, case):
        """What became of a test: all the results of its cases."""
        full = f"{suite}/{case}" if case else suite
        return self._all(lambda name: name == full or name.startswith(full + "/"))

    def of_swift(self, tests, suite, function):
        """The same of a Swift test, or of those of a suite: nothing if one of them did not run."""
        (target, name), _ = swift_suite(tests, suite)
        of_each = [self._all(re.compile(rf"{target}\.(?:\w+/)*{name}/(?:\w+/)*{one['name']}").fullmatch)
                   for one in swift_functions(tests[0][target, name][0], function)]
        return set().union(*of_each) if all(of_each) else set()

    def _all(self, is_one):
        return set().union(*(outcome for name, outcome in self.by_name.items() if is_one(name)))

    def has_kind(self, suite, is_left):
        """Whether suites of its kind were in the run: those from 40 on and the long ones may be left out. Of others, cases may be
        left to --everywhere."""
        kind = re.match("long/|4[0-9]-", suite)
        if kind is None:
            return self.is_everywhere or not is_left
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
    named = [(test, "--everywhere" in part[:part.find(f"`{test}`")])
             for part in cell.split(";") for test in re.findall(r"`([^`]+)`", part)]
    if not named:
        yield f"“{promise}” names no test"
    have_run = False
    for test, is_left in named:
        suite, _, case = test.partition(" ")
        is_swift = False
        if suite.startswith("shipping/"):
            problem = shipping_problem(repository, suite.removeprefix("shipping/"))
        elif re.match(r"(?:long/)?\d\d-", suite):
            problem = suite_problem(repository, suite, case)
        else:
            is_swift = True
            problem = swift_problem(swift_tests(repository), suite, case)
        if problem is None and results and results.has_kind(suite, is_left):
            problem = result_problem(repository, results, suite, case, is_swift)
            have_run = have_run or problem is None
        if problem:
            yield f"“{promise}”: `{test}`: {problem}"
    if results and named and not have_run:
        yield f"“{promise}”: none of its tests has run"


def result_problem(repository, results, suite, case, is_swift):
    """Why the results of a test do not count; None: it has passed, and of a group each case."""
    outcome = results.of_swift(swift_tests(repository), suite, case) if is_swift else results.of(suite, case)
    if outcome != {"PASS"}:
        return "it did not run" if not outcome else f"its results are {', '.join(sorted(outcome))}"
    below = suite_of(repository, suite).below(case) if case and not is_swift else []
    left_out = next((name for name in below if not results.of(suite, name)), None)
    return f"its case `{left_out}` did not run" if left_out else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", required=True)
    parser.add_argument("--results", action="append", default=[], metavar="FILE", help="result lines of a whole test run")
    parser.add_argument("--everywhere", action="store_true", help="the run was one with --everywhere")
    arguments = parser.parse_args()
    results = Results(arguments.results, arguments.everywhere) if arguments.results else None
    found = list(problems(arguments.repository, results))
    for problem in found:
        print(f"check_manual: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks that each public function of the modules with GStreamer is the first call of a process in a test.

An application calls the library in any order, before or after it starts GStreamer. So the suites FirstCallTests call each
entry in a process of its own. An entry is a public function, initializer, static property or property of a class. In
ElementKit and Elements, whose functions work on objects of GStreamer, only what takes no such object is an entry: the rest
needs a call of one before. Modules below Sources do not use GStreamer (check_imports.py).

A call counts for a function of its name, with its labels, of its type: `Agent.licenses(` for a static one, `agent.close(` for
one of an object, which has to be called as its type is.
"""

import argparse
import os
import re
import sys

MODULES = {
    "Latchkey": ("AgentTests", False), "LatchkeyLogging": ("AgentTests", False), "Elements": ("AgentTests", True),
    "ElementKit": ("ElementKitTests", True),
}
TYPE = re.compile(r"\b(?:class|struct|enum|actor|protocol|extension) ([\w.]+)[^{}]*\{")
MODIFIERS = r"(?:@\w+ )*public (?P<modifiers>(?:static |final |convenience |override |mutating |borrowing |consuming )*)"
CLASS = re.compile(r"\bpublic (?:final )?(?:class|actor) (\w+)")
FUNCTION = re.compile(rf"{MODIFIERS}(?:func (?P<name>\w+)|(?P<init>init)[?!]?)(?:<[^>]*>)?\s*\(")
PROPERTY = re.compile(rf"{MODIFIERS}(?:var|let) (?P<name>\w+)")
OBJECTS = re.compile(r"Pointer\b|\b(?:Caps|Buffer|Event|Message|Context|ElementReference|PadReference|PadTemplate)\b")


def code(text):
    """Without comments, and with spaces in place of what texts say."""
    text = re.sub(r"(?<!:)//[^\n]*", "", text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', lambda found: '"' + " " * (len(found[0]) - 2) + '"', text)


def closing(text, opening):
    """Where the bracket at `opening` is closed."""
    depth = 0
    for place in range(opening, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0:
            return place
    return len(text)


def parts(text):
    """What stands between the commas that are in no brackets."""
    found, depth, last = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}" or character == ">" and text[place - 1] != "-")
        if character == "," and depth == 0:
            found.append(text[last:place])
            last = place + 1
    return [part.strip() for part in found + [text[last:]] if part.strip()]


class Entry:
    def __init__(self, type_, name, parameters, is_static):
        self.type, self.name, self.is_static = type_.split(".")[-1], name, is_static
        # Each with its label, and whether a call may leave it out.
        self.parameters = [(part.split(":")[0].split()[0], "=" in part) for part in parameters or []]
        self.is_property = parameters is None

    def __str__(self):
        labels = "" if self.is_property else "(" + "".join(f"{label}:" for label, _ in self.parameters) + ")"
        return f"{self.type}.{self.name}{labels}"

    def calls(self, text):
        """The texts of the calls in a test."""
        if self.name == "init":
            start = rf"\b{self.type}(?:<[^>]*>)?"
        elif self.is_static:
            start = rf"\b{self.type}\.{self.name}"
        else:
            words = [word.lower() for word in re.findall(r"[A-Z][a-z]*|[A-Z]+(?![a-z])", self.type)]
            names = "|".join("".join(words[place:]) for place in range(len(words)))
            start = rf"(?i:\b(?:{names}))(?:\(\))?\??\.{self.name}"
        if self.is_property:
            return set(re.findall(rf"{start}\b", text))
        found = set()
        for call in re.finditer(rf"{start}\s*(?=[({{])", text):
            place, arguments = call.end(), []
            if text[place] == "(":
                end = closing(text, place)
                arguments = parts(text[place + 1:end])
                place = end + 1
            # A closure behind the parentheses, or the body of a statement.
            trailing = re.match(r"\s*\{", text[place:]) is not None
            labels = [(re.match(r"(\w+):(?!:)", argument) or ["", "_"])[1] for argument in arguments]
            ways = [self.parameters]
            if trailing:
                ways += [self.parameters[:index] + self.parameters[index + 1:] for index in range(len(self.parameters))]
            if any(self._fit(parameters, labels) for parameters in ways):
                found.add(text[call.start():place])
        return found

    @staticmethod
    def _fit(parameters, labels):
        for label, is_optional in parameters:
            if labels and labels[0] == label:
                labels = labels[1:]
            elif not is_optional:
                return False
        return not labels


def entries(folder, only_without_objects):
    """The entries of a module."""
    texts = []
    for path in sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names):
        if path.endswith(".swift"):
            with open(path, encoding="utf-8") as file:
                texts.append(code(file.read()))
    classes = set() if only_without_objects else {name for text in texts for name in CLASS.findall(text)}
    for text in texts:
        types = [(found.end() - 1, closing(text, found.end() - 1), found[1]) for found in TYPE.finditer(text)]

        def type_at(place):
            return max(((start, name) for start, end, name in types if start < place < end), default=(0, ""))[1]

        for found in FUNCTION.finditer(text):
            given = text[found.end():closing(text, found.end() - 1)]
            is_free = found["init"] or "static" in found["modifiers"]
            if not only_without_objects or is_free and not OBJECTS.search(given):
                yield Entry(type_at(found.start()), found["init"] or found["name"], parts(given), bool(is_free))
        for found in PROPERTY.finditer(text):
            is_static, type_ = "static" in found["modifiers"], type_at(found.start())
            if is_static or type_ in classes:
                yield Entry(type_, found["name"], None, is_static)


def missing(repository):
    """The entries that no test calls first."""
    for module, (tests, only_without_objects) in MODULES.items():
        path = os.path.join(repository, "gst-plugin", "Tests", tests, "FirstCallTests.swift")
        with open(path, encoding="utf-8") as file:
            text = code(file.read())
        by_name = {}
        for entry in entries(os.path.join(repository, "gst-plugin", module), only_without_objects):
            by_name.setdefault(str(entry), []).append(entry)
        for name, same in by_name.items():
            # Functions that differ in their types alone need as many calls.
            if len(same[0].calls(text)) < len(same):
                yield f"{module}: {name}" + (f", {len(same)} of them" if len(same) > 1 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = list(missing(parser.parse_args().repository))
    for entry in found:
        print(f"check_first_calls: no test calls it first: {entry}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

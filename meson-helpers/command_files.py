#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Records what a command made with swift-argument-parser says of itself, and writes its manual page from that.

    command_files.py record COMMAND FOLDER     writes its description (JSON) and its completions for shells to FOLDER
    command_files.py man DESCRIPTION VERSION   writes the manual page to standard output
"""

import json
import os
import re
import subprocess
import sys


SHELLS = ("bash", "zsh", "fish")


def ask(program, *arguments):
    return subprocess.run([os.path.abspath(program), *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True).stdout


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"[^\x20-\x7e]", lambda match: f"\\[u{ord(match[0]):04X}]", text)
    return "\\&" + text if text[:1] in (".", "'") else text


def paragraphs(text):
    """Lines of roff. A line in capitals is a heading, indented lines are kept as they are."""
    lines, is_kept = [], False
    for line in text.split("\n"):
        if line.startswith("  ") != is_kept:
            is_kept = not is_kept
            lines += [".RS 4", ".nf"] if is_kept else [".fi", ".RE"]
        if is_kept:
            lines.append(escaped(line[2:]))
        elif not line:
            lines.append(".PP")
        elif re.fullmatch("[A-Z][A-Z ]+", line):
            lines += [".PP", ".B " + escaped(line)]
        else:
            lines.append(escaped(line))
    return lines + ([".fi", ".RE"] if is_kept else [])


def spelled(name):
    return ("-" if name["kind"] == "short" else "--") + name["name"]


def is_common(argument):
    """On every command."""
    return argument["valueName"] in ("help", "version") and argument["kind"] == "flag"


def usage(path, command):
    words = [".B " + escaped(" ".join(path))]
    for argument in command.get("arguments", []):
        if is_common(argument) or not argument["shouldDisplay"]:
            continue
        value = f"\\fI{escaped(argument['valueName'])}\\fR"
        if argument["kind"] == "positional":
            word = value
        else:
            word = f"\\fB{escaped(spelled(argument['preferredName']))}\\fR"
            if argument["kind"] == "option":
                word += " " + value
        if argument["isOptional"]:
            word = f"[{word}]"
        words.append(word + (" ..." if argument["isRepeating"] else ""))
    if command.get("subcommands"):
        words.append("\\fIcommand\\fR")
    return words + [".br"]


def options(command):
    for argument in command.get("arguments", []):
        if is_common(argument) or not argument["shouldDisplay"]:
            continue
        value = f"\\fI{escaped(argument['valueName'])}\\fR"
        if argument["kind"] == "positional":
            title = value
        else:
            title = ", ".join(f"\\fB{escaped(spelled(name))}\\fR" for name in argument["names"])
            if argument["kind"] == "option":
                title += " " + value
        yield from (".TP", title, escaped(argument.get("abstract", "")))


def commands(path, command):
    """The command and all below it, those of the help itself left out."""
    yield path, command
    for sub in command.get("subcommands", []):
        if sub["shouldDisplay"] and sub["commandName"] != "help":
            yield from commands([*path, sub["commandName"]], sub)


def recorded_files(program):
    """The text of each file that is recorded, by its name."""
    description = ask(program, "--experimental-dump-help")
    name = json.loads(description)["command"]["commandName"]
    completions = {f"{name}.{shell}": ask(program, "--generate-completion-script", shell) for shell in SHELLS}
    return {f"{name}.json": description, **completions}


def record(program, folder):
    for name, text in recorded_files(program).items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as output:
            output.write(text.rstrip("\n") + "\n")


def manual_page(description, version):
    with open(description, encoding="utf-8") as file:
        root = json.load(file)["command"]
    name = root["commandName"]
    every = list(commands([name], root))
    page = [f'.TH {name.upper()} 1 "" "{name} {escaped(version)}" "User Commands"',
            ".SH NAME", f"{name} \\- {escaped(root['abstract'].rstrip('.'))}", ".SH SYNOPSIS", ".nh", ".ad l"]
    for path, command in every:
        if not command.get("subcommands"):
            page += usage(path, command)
    page += [".ad b", ".hy", ".SH DESCRIPTION", *paragraphs(root.get("discussion", "")), ".PP",
             escaped("Every command has --help, and --version."), ".SH COMMANDS"]
    for path, command in every[1:]:
        page += [".SS " + escaped(" ".join(path)), escaped(command.get("abstract", ""))]
        if command.get("discussion"):
            page += [".PP", *paragraphs(command["discussion"])]
        page += options(command)
    print("\n".join(page))


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("record", "man"):
        sys.exit(__doc__)
    {"record": record, "man": manual_page}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()

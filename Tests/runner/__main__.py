# SPDX-License-Identifier: MPL-2.0
"""The options of Tests/run.sh, and its exit status."""

import os
import re
import signal
import sys

import units
from affected import Affected, changed_since
from test_run import BUDGET, SLOTS, Options, TestRun, build_folder
from units import say
from verdict import Verdict, source_now

USAGE = f"""\
Usage: Tests/run.sh [OPTION]...

Without an option: the gate, which .ci/run is. In half an hour on two quiet processors it runs the checks, the Swift tests,
the build that ships, the suites of pipelines here, and some of them on GStreamer {units.RELEASES["trixie"]}.

  --everywhere      the gate, all suites of pipelines on each release, the sanitizers, and the build without GStreamer
  --strict          one suite at a time, nothing runs twice, and bounds on time are not loosened
  --changed         what the files that changed since the newest commit that the gate passed can affect
  --since COMMIT    the same since another commit
  --long            also the suites of Tests/suites/long, of which two run on each release of --everywhere and --on, too
  --on RELEASE      the suites of pipelines in a folder of that Debian release (trixie or forky), with the binaries that
                    are built here; nothing else
  --only PATTERN    only the steps whose names match the extended regular expression
  --budget SECONDS  what has not begun then is skipped, but for what the gate is never without ({BUDGET} in the gate)
  --slots N         so many suites at a time ({SLOTS})
  --record          puts a line with the counts into Tests/suites/RESULTS.md
  --list            names the steps

LATCHKEY_BUILD            the build folder (build)
LATCHKEY_JOBS             parallel jobs of the Swift builds (all processors)
LATCHKEY_SUITES           the folder of the suites (Tests/suites)
LATCHKEY_SUITE_TIMEOUT    seconds that a suite may take (600; 1500 from 40 on; 3600 with --long)
LATCHKEY_SUITE_SILENCE    seconds for which it may print nothing (240; no limit from 40 on and with --long)
LATCHKEY_VERDICT          a file that gets the verdict, as build/gate.json does after a whole gate
"""


# Has the newest commit that the gate passed.
PASSED = "gate-passed"


class Wrong(Exception):
    """The options make no sense. The text says why, if it is not plain."""


def read(arguments):
    """The options, and whether to name the steps only, and to record the run."""
    since = None
    mode, is_strict, is_long, releases, pattern, budget, slots = "gate", False, False, [], ".", None, None
    is_list = is_recorded = False
    left = list(arguments)

    def value():
        if not left:
            raise Wrong
        return left.pop(0)

    def number():
        text = value()
        if not re.fullmatch("[0-9]+", text) or int(text) == 0:
            raise Wrong
        return int(text)

    while left:
        option = left.pop(0)
        if option == "--everywhere":
            mode = "everywhere" if mode == "gate" else mode
        elif option == "--strict":
            is_strict = True
        elif option == "--long":
            is_long = True
        elif option == "--on":
            releases.append(value())
            if releases[-1] not in units.RELEASES:
                raise Wrong
        elif option == "--only":
            pattern = value()
            try:
                re.compile(pattern)
            except re.error:
                raise Wrong from None
        elif option == "--budget":
            budget = number()
        elif option == "--slots":
            slots = number()
        elif option in ("--changed", "--since"):
            mode = "changed"
            since = value() if option == "--since" else since
        elif option == "--list":
            is_list = True
        elif option == "--record":
            is_recorded = True
        else:
            raise Wrong
    if releases:
        mode = "on"
    if is_recorded and (mode in ("on", "changed") or pattern != "."):
        raise Wrong("--record is for whole runs: the gate, and --everywhere")
    affected = find_affected(since or passed_commit()) if mode == "changed" else None
    return Options(mode, is_strict, is_long, releases, pattern, budget, slots, affected), is_list, is_recorded


def find_affected(commit):
    if commit is None:
        raise Wrong("The gate has passed no commit in this folder. Name one: --since COMMIT")
    try:
        affected = Affected(changed_since(commit))
    except ValueError as error:
        raise Wrong(str(error)) from None
    say(f"== changed since {commit[:12]}")
    say(f"Swift tests: {' '.join(sorted(affected.targets)) or 'none'}")
    say(f"steps: {' '.join(sorted(affected.steps)) or 'none'}")
    return affected


def passed_commit():
    try:
        with open(os.path.join(build_folder(), PASSED), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def end(_number, _frame):
    raise KeyboardInterrupt


def main(arguments):
    if "-h" in arguments or "--help" in arguments:
        print(USAGE, end="")
        return 0
    try:
        options, is_list, is_recorded = read(arguments)
    except Wrong as wrong:
        print(wrong if wrong.args else USAGE, end="\n" if wrong.args else "", file=sys.stderr)
        return 2
    run = TestRun(options)
    if is_list:
        for unit in run.units:
            print(unit.name)
        return 0
    # Also SIGINT, which a shell has ignored in what it starts in the background, and in all that this starts.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    paths = [os.environ["LATCHKEY_VERDICT"]] if os.environ.get("LATCHKEY_VERDICT") else []
    is_whole_gate = options.is_gate and options.is_whole and not options.is_long
    if is_whole_gate:
        paths.append(os.path.join(run.build, "gate.json"))
    # A run that is broken off leaves no verdict of another.
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)
    source = source_now()
    try:
        run.run()
    except KeyboardInterrupt:
        return 130
    verdict = Verdict(options.mode, run.units, run.versions, run.flaky, run.seconds, run.skipped_for_time, source)
    verdict.show()
    verdict.write(paths)
    if verdict.is_passed and is_whole_gate and verdict.is_clean and not verdict.skipped_for_time:
        with open(os.path.join(run.build, PASSED), "w", encoding="utf-8") as file:
            file.write(f"{verdict.commit}\n")
    if is_recorded:
        verdict.record()
    return 0 if verdict.is_passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

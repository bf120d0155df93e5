# SPDX-License-Identifier: MPL-2.0
"""What the suites of behaviors have in common: each behavior in three kinds of pipeline, `file` (filesrc ! qtdemux !
decryptors), `dash` (playbin3, two tracks) and `legacy` (playbin, the old DASH demuxer). Nothing here waits for a length of time
to make things happen in order."""

import os
import re
import sys

import children
from report import IS_EVERYWHERE, Report, is_wanted

# These measure time, or take all that the machine has.
ALONE = ("stop-before-key", "cycles", "pipelines-at-once")
# A crash of stock elements is what these look for.
UNFORGIVEN = ("one-track-refused",)
# With --everywhere, and where they are named.
LONG = ("one-track-refused/hls",)
DEADLINE = 120
# For the suite that runs alone: fifty playbacks, or 32 at once, may need that long beside other work.
LONG_DEADLINE = 200


def job(report, folder, chances, name, kind):
    from behavior_endurance import CRASHES, LEAK, TRACED

    title = f"{name}/{kind}"
    if name in CRASHES:
        report.checked(title, crash(name, kind))
        return
    extra = {}
    log = os.path.join(folder.path, f"{name}-{kind}.log")
    if name in TRACED:
        extra = {"GST_TRACERS": "leaks", "GST_DEBUG": "GST_TRACER:7", "GST_DEBUG_FILE": log, "GST_DEBUG_NO_COLOR": 1,
                 # The tracer warns where it cannot print a leak, and at the end that there are some.
                 "G_DEBUG": ""}
    if name in ("configuration-only", "server-never", "configuration-missing", "session-freed"):
        # The file is written by the child, which knows the address of its server.
        extra = {"LATCHKEY_CONFIG": os.path.join(folder.path, f"{name}-{kind}.conf")}
    if name in UNFORGIVEN:
        # GStreamer also warns of data before stream-start when it is stopped, as in `children.RACES`.
        extra = {"G_DEBUG": ""}
    fetches = kind != "file" and name not in UNFORGIVEN
    done = children.run_self(
        ["--child", name, kind], LONG_DEADLINE if name in ALONE else DEADLINE, children.environment(**extra), fetches,
        chances if fetches else None)
    reason = done.complete([title])[title]
    if reason is None and name in TRACED:
        reason = leaks(log, kind)
    if name == "leak-is-found":
        is_found = reason and f"<{LEAK}" in reason
        reason = None if is_found else f"an element that leaks is not found: {reason}"
    report.checked(title, reason)


def crash(name, kind):
    """Whether the origin of a crash is told."""
    command = [sys.executable, os.path.abspath(sys.argv[0]), "--child", name, kind]
    done = children.run(command, DEADLINE, children.with_stack(children.environment()))
    if "SIGSEGV" not in (done.ending or "") or "CRASH STACK" not in done.errors:
        return f"it leaves no stack: {done.ending} {done.errors[-400:]}"
    if (name == "crash-of-ours") != ("liblatchkey-1.0.so" in done.errors.split("CRASH STACK", 1)[1]):
        return f"another stack: {done.errors[-2000:]}"
    is_stock = children.is_stock_crash(done)
    # From 1.24 on, no such crash is known.
    expected = name == "crash-of-stock" and children.holds("<1.24")
    return None if is_stock == expected else f"judged wrong: {done.errors[-2000:]}"


def leaks(log, kind):
    """What the leaks tracer found, without what GStreamer 1.22 leaks by itself."""
    from behavior_endurance import LEFT_ALIVE

    with open(log) as text:
        alive = [line.split("object-alive, ", 1)[1].strip() for line in text if "object-alive, type-name=(string)" in line]
    # The tracer describes its own messages too.
    alive = [entry for entry in alive if "%s" not in entry]
    control = [entry for entry in alive if re.search(rf"\(string\)<{LEFT_ALIVE}[:>]", entry)]
    if not any(f"<{LEFT_ALIVE}>" in entry for entry in control):
        return "the leaks tracer has not reported what was left alive on purpose"
    # It and its pads.
    alive = [entry for entry in alive if entry not in control]
    # playbin3, stopped before it shows a stream, of clear media too.
    alive = [entry for entry in alive if "(string)GstStreamSyncPad," not in entry]
    # dashdemux2, stopped in a download: whole files.
    downloads = [entry for entry in alive if entry.startswith("type-name=(string)GstBuffer,") and is_file(entry, kind)]
    memories = [entry for entry in alive if entry.startswith("type-name=(string)GstMemory,")][:len(downloads)]
    alive = [entry for entry in alive if entry not in downloads and entry not in memories]
    return f"{len(alive)} objects leak, the first: {alive[0]}" if alive else None


def is_file(entry, kind):
    import corpus
    from behavior_scenes import CASES

    folder = corpus.case(CASES[kind]).folder
    sizes = {os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
    size = re.search(r" size (\d+),", entry)
    return bool(size) and int(size.group(1)) in sizes and "pts 99:99" in entry


def main(is_alone):
    """Runs the behaviors that the arguments of the suite choose: those that run alone, or all others."""
    import behaviors

    if sys.argv[1:2] == ["--child"]:
        behaviors.run(sys.argv[2], sys.argv[3])
        return
    report, chances, wanted = Report(), children.Chances(), sys.argv[1:]
    with children.Folder() as folder:
        checks = [(name, kind) for name, kinds in behaviors.ALL.items() for kind in kinds
                  if (name in ALONE) == is_alone and is_wanted(f"{name}/{kind}", wanted)
                  if wanted or IS_EVERYWHERE or f"{name}/{kind}" not in LONG]
        jobs = [lambda n=name, k=kind: job(report, folder, chances, n, k) for name, kind in checks]
        children.in_parallel(jobs, workers=1 if is_alone else None)
    report.exit(wanted)

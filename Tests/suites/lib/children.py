# SPDX-License-Identifier: MPL-2.0
"""Checks run in processes of their own: a crash or a hang is one failure, not the end of the suite."""

import atexit
import concurrent.futures
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from ranges import within

RESULT = "RESULT "
# Whether this process is a child that has told a result.
has_told = False


def tell(name, reason=None):
    """In a child: the result of one check; `reason` is None where it passed. It did not if a handler of a pipeline that it watched
    has failed."""
    global has_told
    has_told = True
    watching = sys.modules.get("pipelines")
    failed = watching.take_failures() if watching else None
    print(RESULT + json.dumps([name, reason or failed]), flush=True)


class Child:
    """What became of a process."""

    def __init__(self, results, output, errors, ending, threads=""):
        self.results = results
        self.output = output
        self.errors = errors
        # None: it ended by itself with status 0. Else words, beginning with "crash", "timeout", "status" or "printed".
        self.ending = ending
        # Where its threads were when its time was over, if the caller wanted to know.
        self.threads = threads

    def complete(self, names):
        """The result of each named check, with the process's end where it said nothing."""
        missing = f"{self.ending or 'no result'} {self.last_words()}".strip()
        results = {name: self.results.get(name, missing) if name in self.results else missing for name in names}
        if self.ending and not any(results.values()):
            # All was said and then the process died: that is a failure of its last check.
            results[names[-1]] = missing
        return results

    def last_words(self):
        """What it said last: of a crash, the stack too."""
        return stack_of(self.errors) or " | ".join(self.errors.strip().splitlines()[-3:])


def state_folder():
    """Where the stores of tests have their counters, which is not the user's home. It goes with the process that makes it."""
    folder = tempfile.mkdtemp(prefix="latchkey-state-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# Of the caller's settings, what a child gets: the patience of bounds, the seed of hostile inputs, and the folder for state.
KEPT = ("LATCHKEY_TEST_PATIENCE", "LATCHKEY_HOSTILE_SEED", "LATCHKEY_TEST_STATE")
STATE = os.environ.get("LATCHKEY_TEST_STATE") or state_folder()


def environment(**extra):
    """The environment of a child: nothing of the user's settings but for `KEPT`, and every GLib warning is fatal."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("LATCHKEY_") or key in KEPT}
    variables["G_DEBUG"] = "fatal-warnings"
    variables["XDG_CONFIG_HOME"] = "/dev/null/config"
    variables["XDG_STATE_HOME"] = variables["LATCHKEY_TEST_STATE"] = STATE
    variables["NO_AT_BRIDGE"] = "1"
    for key in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        variables.pop(key, None)
    variables.update({key: str(value) for key, value in extra.items()})
    return variables


# What a process may print, in all.
MOST_PRINTED = 64 << 20


class PrintedTooMuch(subprocess.SubprocessError):
    """`output` and `errors`: what was read until then."""

    output = errors = None

    def __str__(self):
        return f"printed more than {MOST_PRINTED >> 20} MiB"


class NotFinished(subprocess.TimeoutExpired):
    """Of text: it says what the process printed last, where the reason may be."""

    def __str__(self):
        printed = (" ".join((text or "").split())[-600:] for text in (self.output, self.stderr))
        return " | ".join(filter(None, [super().__str__(), *printed]))


class Pipe(io.RawIOBase):
    """What a `Process` prints."""

    def __init__(self, descriptor, process):
        self._descriptor = descriptor
        self._process = process

    def readable(self):
        return True

    def fileno(self):
        return self._descriptor

    def readinto(self, buffer):
        size = os.readv(self._descriptor, [buffer])
        self._process.count(size)
        return size

    def close(self):
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class Reader(threading.Thread):
    """Reads a stream to its end."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self._stream = stream
        self._parts = []
        self._empty = "" if isinstance(stream, io.TextIOBase) else b""
        self.failure = None
        self.start()

    def run(self):
        try:
            while part := self._stream.read(1 << 16):
                self._parts.append(part)
        except PrintedTooMuch as failure:
            self.failure = failure

    @property
    def read(self):
        return self._empty.join(self._parts)


class Process(subprocess.Popen):
    """A process that is killed when it has printed more than `MOST_PRINTED`. Each way of reading it fails then."""

    def __init__(self, arguments, **options):
        super().__init__(arguments, **options)
        self._printed = 0
        self._readers = []
        self.stdout = self._counted(self.stdout)
        self.stderr = self._counted(self.stderr)

    def _counted(self, stream):
        if stream is None:
            return None
        pipe = io.BufferedReader(Pipe(os.dup(stream.fileno()), self))
        is_text = isinstance(stream, io.TextIOBase)
        counted = io.TextIOWrapper(pipe, stream.encoding, stream.errors) if is_text else pipe
        stream.close()
        return counted

    def count(self, size):
        self._printed += size
        if self._printed > MOST_PRINTED:
            self.end()
            raise PrintedTooMuch()

    def end(self):
        """Kills it, and the others of its group if the group was made for it."""
        try:
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.kill()

    def communicate(self, input=None, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        if self.stdin:
            try:
                if input:
                    self.stdin.write(input)
                self.stdin.close()
            except BrokenPipeError:
                pass
        self._readers = self._readers or [stream and Reader(stream) for stream in (self.stdout, self.stderr)]
        for reader in filter(None, self._readers):
            reader.join(None if end is None else max(0, end - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout)
        read = [reader and reader.read for reader in self._readers]
        for failure in (reader.failure for reader in self._readers if reader and reader.failure):
            failure.output, failure.errors = read
            raise failure
        self.wait(None if end is None else max(0, end - time.monotonic()))
        return tuple(read)


def completed(arguments, timeout, check=False, **options):
    """As subprocess.run() of text, with a `Process`. Output and errors are read if `options` do not say otherwise."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    process = Process(arguments, text=True, **options)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        try:
            output, errors = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            # What it has started keeps its output open.
            output, errors = None, None
        raise NotFinished(arguments, timeout, output, errors) from None
    finally:
        process.kill()
    done = subprocess.CompletedProcess(arguments, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def run(arguments, deadline, variables=None, tells_threads=False):
    """Runs a program. It and all that it started end with it, at the latest after `deadline` seconds. `tells_threads`: whether
    to find out first where its threads are."""
    process = Process(
        arguments, env=variables or environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True, errors="replace")
    ending, threads = None, ""
    try:
        output, errors = process.communicate(timeout=deadline)
    except PrintedTooMuch as failure:
        ending, output, errors = str(failure), failure.output, failure.errors
        process.wait()
    except subprocess.TimeoutExpired:
        ending = f"timeout: not finished after {deadline} s"
        threads = threads_of(process.pid) if tells_threads else ""
        process.end()
        output, errors = process.communicate()
    if ending is None and process.returncode < 0:
        ending = f"crash: {signal.Signals(-process.returncode).name}"
    elif ending is None and process.returncode > 0:
        ending = f"status {process.returncode}"
    results = {}
    for line in output.splitlines():
        if line.startswith(RESULT):
            name, reason = json.loads(line[len(RESULT):])
            results[name] = reason
    return Child(results, output, errors, ending, threads)


# "#1  0x00007f0000000010 in function (argument=1) from /path/libx.so.0"
# or "… in function () at /path/libx.so.0"; a source file is left out.
FRAME = re.compile(r"#\d+ +(?:0x[0-9a-f]+ in )?(.*?) \(.*?(?: (?:from|at) (?:\S*/)?([^/\s]+\.so[.0-9]*))?$")


def threads_of(pid):
    """Where each thread of a process and of its group is, in one line, for what a check says of a process that does not end. Its
    first thread comes first. `|| cut` says where something was left out."""
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "runner"))
    import processes

    # What it has started may keep its output open.
    said = [] if processes.is_alive(pid) else [[f"process {pid} has ended, and its output is open"]]
    for line in processes.stacks([pid, *group(pid)]).splitlines():
        frame = FRAME.match(line)
        if not frame:
            said.append([re.sub(r"\(Thread 0x[0-9a-f]+ ", "(", line.removeprefix("---- "))])
        elif said and len(said[-1]) < 16:
            said[-1].append(frame[1] + (f" ({frame[2]})" if frame[2] else ""))
    text = " || ".join(" | ".join(part) for part in said)
    return text if len(text) <= 20_000 else f"{text[:20_000]} || cut"


def group(leader):
    """The other processes of its group."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) != leader and os.getpgid(int(name)) == leader:
                found.append(int(name))
        except ProcessLookupError:
            pass
    return found


CRASH = re.compile(r"CRASH STACK\n(.*?)(?:CRASH END|\Z)", re.DOTALL)


def stack_of(errors):
    """What the process said last before it crashed, and the stack of that thread, without the folders. None: no crash."""
    crash = CRASH.search(errors)
    if not crash:
        return None
    said = errors[:crash.start()].strip().splitlines()[-1:]
    frames = [os.path.basename(line.split(" [")[0]) for line in crash[1].splitlines()]
    return " | ".join(said + frames)


def crash_frames(errors):
    """The frames of the stack of a crash, the innermost first, without folders and addresses. None: there is no stack, or
    something of ours is on one: the crash may be ours."""
    # "/path/libx.so.0(function+0x1) [0xaddress]"
    stacks = [[os.path.basename(line.split("[")[0].strip()) for line in stack.splitlines()] for stack in CRASH.findall(errors)]
    is_ours = any("latchkey" in frame for frames in stacks for frame in frames)
    return None if is_ours or not stacks else stacks[0]


def crash_words(errors):
    """What a process said last and the stack of the thread that crashed, for a check that ran it: they tell a race of `RACES`. They
    also tell whether something of ours is on a stack, if the cut leaves that out. Without a crash, what it said."""
    stack = stack_of(errors)
    if not stack:
        return errors[:2000]
    return stack[:2000] + (" | latchkey is on a stack" if crash_frames(errors) is None else "")


def is_stock_crash(child):
    """Whether the process crashed as stock elements do in this version (`RACES`), with nothing of ours on a stack."""
    if crash_frames(child.errors) is None:
        return False
    return is_race(f"{child.ending} {child.last_words()}", here(), {k: v for k, v in RACES.items() if k.startswith("^crash")})


# The C library, and the libraries of GLib and GStreamer, in which it shows what was called wrong.
LIBRARIES = re.compile(r"libcrash-stack|libc\.so|libglib-|libgobject-|libgst\w+-1\.0\.so")


def stock_fault(child):
    """How the process ended, and where in which of GStreamer's plug-ins, if that was a crash, or a warning or an assertion of GLib's,
    with nothing of ours on the stack of that thread: hostile media may lead to such. Else None. The same fault gives the same text
    in each process with the same plug-ins."""
    frames = crash_frames(child.errors)
    if not (child.ending or "").startswith("crash") or not frames:
        return None
    return f"{child.ending} {cause_in(frames)}" if cause_in(frames).startswith("libgst") else None


def cause_in(frames):
    """The innermost frame that is none of `LIBRARIES`; empty: all are."""
    return next((frame for frame in frames if not LIBRARIES.match(frame)), "")


class Fault:
    """What is wrong with the end of a process or with what it did: in words, and its kind. None: a kind of its own, so that
    nothing excuses it."""

    def __init__(self, words, kind):
        self.words = words
        self.kind = kind


NO_END = "no end"
# GLib begins a warning with the name of the program and its process: "(player:10): GStreamer-WARNING **: …".
PROGRAM = re.compile(r"^(\*\* )?\([^()]*:\d+\): ")
# GStreamer takes a crash for one of a plug-in that another thread loads at that moment. It leaves no stack, and a status.
CRASH_IN_A_LOAD = "segmentation fault while loading plugin"


def fault_of(child):
    """What is wrong with the end of a process; None: it ended by itself with status 0. The kind of a crash is its signal, the
    module that caused it, and what the assertion says that failed. A crash that may be ours has none."""
    if child.ending is None:
        return None
    words = f"{child.ending} {child.last_words()}"
    if child.ending.startswith("timeout"):
        return Fault(words, NO_END)
    kind = [child.ending]
    if child.ending.startswith("crash"):
        frames = crash_frames(child.errors)
        if not frames:
            return Fault(words, None)
        kind.append(cause_in(frames).split("(")[0])
    elif CRASH_IN_A_LOAD in child.errors:
        return Fault(words, None)
    # Before a SIGSEGV, anything may have been said.
    if "SIGSEGV" not in child.ending:
        said = CRASH.split(child.errors)[0].strip().splitlines()[-1:]
        # Without programs, addresses, times and numbers of elements.
        kind += [re.sub(r"0x[0-9a-f]+|\d+", "N", PROGRAM.sub("", line)) for line in said]
    return Fault(words, " ".join(kind))


def excuse(fault, others):
    """The first of the other faults, which are made one after the other without Latchkey, that is of the same kind. None: no one
    is. Where nothing was wrong, a fault is None."""
    if fault.kind is None:
        return None
    return next((other for other in others if other is not None and other.kind == fault.kind), None)


def with_a_stack(run):
    """What `run` makes of a process. Once more if it crashed without a stack."""
    for _ in range(3):
        done = run()
        if CRASH_IN_A_LOAD not in done.errors:
            break
    return done


def with_stack(variables):
    """The environment, with what writes the stack of a crash."""
    folder = os.path.dirname(os.path.abspath(__file__))
    build = os.environ.get("LATCHKEY_BUILD", os.path.join(folder, "..", "..", "..", "build"))
    library = os.path.join(os.path.abspath(build), "libcrash-stack.so")
    if not os.path.exists(library):
        return variables
    # 44-delays preloads something, too.
    return {**variables, "LD_PRELOAD": " ".join(filter(None, (library, variables.get("LD_PRELOAD"))))}


def holds(range_):
    """Whether the version of GStreamer here is in a range."""
    return within(range_, here())


def here():
    """The version of GStreamer here. Loads the bindings when it is asked first."""
    import versions

    return versions.HERE


# Two threads that read encrypted Matroska at once register these types twice, which GLib warns of. Of processes with eight of
# filesrc ! matroskademux at once, without Latchkey: on 1.26 none of 250, and 13 of 600 where two such loops ran side by side;
# 1 of 250 on 1.28; on 1.22 too.
TYPE_RACE = re.compile("cannot register existing type 'Matroska")

# A thread of decodebin3's multiqueue that is in use, in the words of `threads_of`.
QUEUE_THREAD = r'"multiqueue0:src"\): \| syscall \| g_cond_wait \([^|]*\|(?! *(?:\?+ )?\(libgstreamer)'

# What stock elements do now and then without Latchkey and with clear media: a pattern of what a failed check says then, and
# the versions.
RACES = {
    # If all of a short presentation is fetched before the adaptive demuxer's output thread has begun, the demuxer says this,
    # although nothing failed. Of 300 presentations of one segment: 2 on 1.22, 65 on 1.26, 11 on 1.28.
    "Couldn't download fragments": ">=1.22",
    # playbin3 does not start with a file of sound alone. Of 200 on each: none on 1.22, 3 on 1.26, 3 on 1.28.
    r"no end after [0-9.]+ s of sound alone": ">=1.26",
    # playbin3 does not come to the end of a short file that plays faster than in real time. Of a clear file of pictures and sound,
    # beside a build: 2 of 3,117 on 1.22, and from a web server the 26th and the 703rd of two runs. None of 1,569 on 1.26 and of
    # 1,631 on 1.28. Of two streams, whose samples were all decrypted, one has no thread of decodebin3's multiqueue any more. Most
    # likely that was to bring the end.
    rf"^(?!.*LatchkeyElements)(?!.*\|\| cut)(?!.*{QUEUE_THREAD}.*{QUEUE_THREAD}).*no end after [0-9.]+ s, ended by signal 9: "
    rf".*decryption, (KID \w+): .*decryption, (?!\1)KID \w+: .*{QUEUE_THREAD}": ">=1.22 <1.24",
    # subtitleoverlay gets the caps of the subtitles after the last picture that the decoder gives without the end: it holds the
    # subtitles until the next picture, and decodebin3 on 1.22 or streamsynchronizer holds the end until that of the subtitles.
    # Clear HLS without a clock, if the subtitles wait in their queue for 0 to 240 ms: 6 of 6 on 1.22, 5 of 5 on 1.26, 5 of 6 on
    # 1.28. For 0 to 50 ms: 2 of 160 on 1.22. Otherwise none of 2,107 on 1.22.
    r"no end after [0-9.]+ s with subtitles": ">=1.22",
    # playbin3 is stopped while it starts or fetches. Of 1,800 playbacks of a clear file, stopped after up to 0.12 s: 2 on 1.22,
    # none of 1,200 on 1.26 and on 1.28. Of clear HLS and DASH, stopped within 0.45 s: 5 of 3,151 on 1.26, 2 of 2,509 on 1.28.
    # Of a clear file of pictures and sound that is stopped as soon as the first buffer leaves the parser of the sound: 3 of 84 on
    # 1.22; the demuxer: 4 of 104. So it is if an application stops when it hears of a wrong key, which is told by the first sample.
    r"<multiqueue\d+:\w+> Got data flow before stream-start event": ">=1.22",
    # playbin3 is stopped while its typefinder tells the type, which waits for a lock of the thread that stops it, and that for the
    # typefinder's. Of 1,550 playbacks of a clear file, stopped within 3 ms: 3 on 1.22. One more failed this assertion, and one of
    # at most 2,000 on 1.28. None of 2,000 on 1.26.
    r'gst_pad_stop_task (?:(?!\|\||\$s\d+Latchkey).)*\|\|.*"typefindelement"\): \| futex_wait (?:(?!\|\||\$s\d+Latchkey).)*ffi_call':
        ">=1.22 <1.24",
    r"gstparsebin\.c:\d+:analyze_new_pad: assertion failed": ">=1.22",
    # The demuxer for DASH does not come to PAUSED, or fails an assertion there. Of 400 starts with clear media, each
    # followed by a seek, six at a time: none on 1.22, one of either on 1.26, one of the first on 1.28.
    "clear DASH does not preroll": ">=1.26",
    "gst_adaptive_demux2_stream_load_a_fragment: code should not be reached": ">=1.26 <1.28",
    # playbin with the old DASH demuxer is stopped or sought while its HTTP client fetches: a stream of libsoup's is closed twice,
    # in the thread of souphttpsrc. Of 4,300 playbacks of clear DASH, each sought and then stopped within half a second: one of
    # each of the first two on 1.26, and one of the third; none on 1.28. Of 3,582 that were stopped within 0.1 s: one of the
    # second and one of the third on 1.22.
    r"^(?!.*latchkey).*g_atomic_ref_count_dec: assertion 'old_value > 0' failed.*libgstsoup": ">=1.26 <1.28",
    r"^crash: SIGSEGV (?!.*latchkey).*libsoup-3\.0\.so.*libgstsoup": ">=1.22 <1.28",
    r"<qtdemux\d+:\w+> Got data flow before stream-start event": ">=1.22 <1.28",
    # hlsdemux2 is stopped while it fetches, or a connection of it breaks: its HTTP client uses what is freed. Of playbacks of
    # clear HLS whose connections break, stopped within 0.45 s: of 1,773 on 1.26, 3 crashed in libsoup and 13 failed assertions
    # there; of 317 on 1.28, one failed one.
    r"^crash: SIGSEGV (?!.*latchkey).*libsoup-3\.0\.so.*libgstadaptivedemux2": ">=1.26 <1.28",
    r"^crash: SIG(ABRT|TRAP) (?!.*latchkey).*libsoup-3\.0\.so.*libgstadaptivedemux2": ">=1.26",
    # The same on 1.22: of 2,915 playbacks of clear HLS, stopped within 0.45 s, 6 crashed or failed assertions in the demuxer.
    r"^crash: SIG(SEGV|ABRT|TRAP) (?!.*latchkey).*libgstadaptivedemux2": ">=1.22 <1.24",
    # hlsdemux2 is stopped while the thread that brought the playlist waits for its first stream (wait_prepared): the stop wakes
    # that thread, which takes the stream's lock, and frees the stream. The lock is the demuxer's own. Of
    # 2,138 of these playbacks: 2 on 1.26.
    r"(SIGABRT|status -6).*g_mutex_clear\(\) called on [^|]*(\| *lib(crash|c\.|glib)[^|]*)+\| *libgstadaptivedemux2":
        ">=1.26 <1.28",
    # hlsdemux2 fails an assertion as a media playlist arrives. Of 654 playbacks of clear HLS with discontinuities, at a load of 12:
    # one on 1.26.
    r"gst_adaptive_demux2_stream_mark_prepared: assertion failed": ">=1.26 <1.28",
    # playbin3 is stopped after one of its streams ended before the first buffer of another: decodebin3 uses the stream that it has
    # freed. Of a clear file of pictures and sound (filesrc ! identity error-after=18 ! parsebin ! queue ! decodebin3, two queues),
    # stopped within 0.03 s of the error that ends the streams: 48 of 100 on 1.22. None of 40 if the error comes one read earlier.
    r"^crash: SIGSEGV (?!.*latchkey).*libgstreamer-1\.0\.so[^|]*gst_object_replace[^|]*\| libgstplayback": ">=1.22 <1.24",
    # dashdemux2 is stopped while it starts. Of 1,752 playbacks of clear DASH, stopped within 0.45 s: one on 1.28.
    r"gst_mpd_client2_is_live: assertion 'client->mpd_root_node != NULL' failed.*libgstadaptivedemux2": ">=1.28",
    # Most likely, dashdemux2 matches a pad of qtdemux with a stream that has no pad for it. Of clear DASH with sound of two
    # languages, played to its end beside a build: 3 of 805 on 1.26, 1 of 429 on 1.28.
    r"gst_pad_is_linked: assertion 'GST_IS_PAD \(pad\)' failed.*gst_pad_is_linked[^|]*\| *libgstadaptivedemux2": ">=1.26",
    # hlsdemux2 is stopped while it waits for the first media playlist. Most likely it frees the URI of the master playlist, which
    # another thread posts then. Of 900 clear presentations whose media playlist is refused: one on 1.28. Of those whose media
    # playlist never comes, stopped within 5 ms of the request for it: the 7th, 30th and 103rd of three runs on 1.26, each of which
    # ended there; none of 1,848 on 1.28.
    r"Trying to set string on structure field '(manifest-)?uri', but string is not valid UTF-8.*libgstadaptivedemux2": ">=1.26",
}


def is_race(why, version, races=RACES):
    """Whether a failed check says what a stock element does now and then in this version, such as (1, 22, 0)."""
    return any(re.search(pattern, why) and within(range_, version) for pattern, range_ in races.items())


class Chances:
    """How many checks of one suite may run again, after a failure that says what a stock element does now and then (`RACES`).
    All other failures are ours. Thread-safe."""

    def __init__(self, number=2):
        self._left = number
        self._lock = threading.Lock()

    def take(self, why):
        if not is_race(why, here()):
            return False
        with self._lock:
            self._left -= 1
            return self._left >= 0


def is_type_race(child, variables):
    """Whether the process ended with the warning of `TYPE_RACE`, which another thread may have followed up by then. If warnings end
    no process, whether it was written."""
    if "fatal-warnings" not in variables.get("G_DEBUG", ""):
        return TYPE_RACE.search(child.errors) is not None
    said = CRASH.split(child.errors)[0].strip().splitlines()[-3:]
    return (child.ending or "").startswith("crash") and TYPE_RACE.search("\n".join(said)) is not None


def run_self(arguments, deadline, variables=None, fetches=False, chances=None):
    """Runs this suite's script again, as a child. What ends in a known race of stock elements runs once more: without counting
    what registers a type twice, and what crashes so where it `fetches`. Other words of `RACES` need one of the `chances`. A NOTE
    tells of each."""
    variables = variables or environment()
    if fetches:
        variables = with_stack(variables)
    command = [sys.executable, os.path.abspath(sys.argv[0]), *arguments]
    for attempt in range(2):
        with Log(arguments, variables) as log:
            child = log.of(run(command, deadline, log.variables))
        failures = {name: reason for name, reason in child.results.items() if reason}
        if attempt or not (child.ending or failures):
            return child
        is_stock = is_type_race(child, log.variables) or (fetches and is_stock_crash(child))
        if child.ending:
            why = said = f"{child.ending} {child.last_words()}"
        else:
            why = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
            # A scene tells of another process that crashed in words that begin as those of its own end: without a name in front.
            said = "; ".join(str(reason) for reason in failures.values())
        if not is_stock and not (chances and chances.take(said)):
            return child
        print(f"NOTE {' '.join(arguments[1:])} runs again after: {why}", file=sys.stderr, flush=True)


class Log:
    """GStreamer's log of one child, where LATCHKEY_SUITE_LOGS names a folder. Only that of what fails is kept."""

    def __init__(self, arguments, variables):
        self.variables = variables
        self.path = None
        folder = os.environ.get("LATCHKEY_SUITE_LOGS")
        if folder:
            name = re.sub("[^A-Za-z0-9.]+", "-", "-".join([os.path.basename(sys.argv[0]), *arguments[1:]]))
            handle, self.path = tempfile.mkstemp(".log", f"{name[-100:]}-", folder)
            os.close(handle)
            levels = os.environ.get("GST_DEBUG", "3,hlsdemux2:5,adaptivedemux2:5")
            self.variables = {**variables, "GST_DEBUG_FILE": self.path, "GST_DEBUG": levels, "GST_DEBUG_NO_COLOR": "1"}
            # Logging a list of protection events is a critical warning of GStreamer's own.
            self.variables.pop("G_DEBUG", None)
        self.is_kept = True

    def __enter__(self):
        return self

    def of(self, child):
        self.is_kept = bool(child.ending or any(child.results.values()))
        return child

    def __exit__(self, *_):
        if self.path and not self.is_kept:
            os.unlink(self.path)


def in_parallel(jobs, workers=None):
    """Calls each function of `jobs`, a few at a time, and waits for all of them."""
    with concurrent.futures.ThreadPoolExecutor(workers or max(2, os.cpu_count() or 2)) as pool:
        for done in concurrent.futures.as_completed([pool.submit(job) for job in jobs]):
            done.result()


class Folder:
    """A temporary folder, for as long as the `with` block lasts."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="latchkey-suite-")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def write(self, name, content):
        path = os.path.join(self.path, name)
        with open(path, "wb" if isinstance(content, bytes) else "w") as out:
            out.write(content)
        return path

# SPDX-License-Identifier: MPL-2.0
"""Commands with a limit. What they leave behind ends with them."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid

# Each command and all that it starts have this variable in their environment, with a value of the command's own. It finds
# what has left the process group of the command. What has another environment is found by the group alone.
MARK = "TEST_RUN_MARK"
# Seconds for the stacks of one process, and for all of one command.
TRACE_DEADLINE = 20
TRACES_DEADLINE = 60
# Lines of one process, some ten for each thread.
MOST_FRAMES = 400


class Ended:
    """How a command ended."""

    def __init__(self, status, seconds, stopped=None):
        # None: it was stopped, and `stopped` says why.
        self.status = status
        self.seconds = seconds
        self.stopped = stopped

    @property
    def is_good(self):
        return self.status == 0


class Background:
    """A command that runs beside others, with what they leave of the processors."""

    def __init__(self, mark, process, end):
        self._mark = mark
        self._process = process
        self._end = end

    def wait(self):
        self._process.wait()
        self._end()

    def hurry(self):
        """Gives it the usual share of the processors from now on, if this process may."""
        for pid in family(self._mark):
            try:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    os.setpriority(os.PRIO_PROCESS, int(thread), 0)
                with open(f"/proc/{pid}/autogroup", "w", encoding="utf-8") as file:
                    file.write("0")
            except OSError:
                pass


class Commands:
    """Runs commands, and ends all that run when the test run is interrupted. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running = {}
        self._is_over = False

    def run(self, command, log, seconds, silence=None, environment=None):
        """Runs a command, its output in the file `log`. After `seconds`, or if it has printed nothing for `silence`
        seconds, the log gets the stack of each of its processes, and the command ends."""
        begun = time.monotonic()
        command_process, mark = self._start(command, log, environment)
        stopped, size, last = None, 0, begun
        try:
            while True:
                try:
                    command_process.wait(0.2)
                    break
                except subprocess.TimeoutExpired:
                    pass
                now = time.monotonic()
                written = os.path.getsize(log)
                if written != size:
                    size, last = written, now
                if now - begun > seconds:
                    stopped = f"took more than {seconds:.0f} s"
                elif silence and now - last > silence:
                    stopped = f"printed nothing for {silence:.0f} s"
                if stopped:
                    with open(log, "a", encoding="utf-8") as file:
                        file.write(f"\n---- {stopped}: the stacks of its processes\n{stacks(family(mark))}\n")
                    break
        finally:
            self._end(command_process, mark)
        return Ended(None if stopped else command_process.returncode, time.monotonic() - begun, stopped)

    def start(self, command, log, environment=None):
        """Starts a command that goes on by itself."""
        process, mark = self._start(command, log, environment)
        return Background(mark, process, lambda: self._end(process, mark))

    def _start(self, command, log, environment):
        mark = uuid.uuid4().hex
        variables = {**(environment or os.environ), MARK: mark}
        with self._lock, open(log, "wb") as output:
            if self._is_over:
                raise KeyboardInterrupt
            process = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            self._running[mark] = process
        return process, mark

    def _end(self, process, mark):
        end_family(mark)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        with self._lock:
            self._running.pop(mark, None)

    def end_all(self):
        with self._lock:
            self._is_over = True
            marks = list(self._running)
        for mark in marks:
            end_family(mark)


def family(mark):
    """The processes that have the mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue
        if wanted in variables:
            found.append(int(name))
    return sorted(found)


def end_family(mark):
    """Ends them: those that do not go by themselves within two seconds are killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 2
        members = family(mark)
        for pid in members:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        while members and time.monotonic() < end:
            time.sleep(0.05)
            members = [pid for pid in members if is_alive(pid)]
        if not members and not family(mark):
            return


def is_alive(pid):
    """Whether a process runs: one whose end was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def stacks(pids):
    """Where each thread of the processes is."""
    parts, end = [], time.monotonic() + TRACES_DEADLINE
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                name = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if not name:
            continue
        parts.append(f"---- process {pid}: {name[:200]}")
        if shutil.which("gdb") and time.monotonic() < end:
            try:
                # The process may be this one, which gdb stops: it could not read, nor keep the limit.
                with tempfile.TemporaryFile("w+", errors="replace") as told:
                    subprocess.run(
                        ["timeout", "--signal=KILL", str(TRACE_DEADLINE), "gdb", "--batch", "-nx", "-iex",
                         "set debuginfod enabled off", "-p", str(pid), "-ex", "thread apply all -ascending bt 30"],
                        stdin=subprocess.DEVNULL, stdout=told, stderr=subprocess.DEVNULL)
                    told.seek(0)
                    frames = [line for line in told.read().splitlines() if line.startswith(("#", "Thread"))]
                parts += frames[:MOST_FRAMES]
                if len(frames) > MOST_FRAMES:
                    parts.append("cut")
                if frames:
                    continue
            except OSError:
                pass
        try:
            for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
                name, wait, call = (known(f"/proc/{pid}/task/{thread}/{of}") for of in ("comm", "wchan", "syscall"))
                parts.append(f"Thread {thread} {name}: {wait}, system call {call}")
        except OSError:
            pass
    return "\n".join(parts)


def known(path):
    """What a file of the kernel's says; a question mark if this process may not read it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"

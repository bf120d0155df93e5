# SPDX-License-Identifier: MPL-2.0
"""A stand-in for logind, on a bus of its own: it says when the machine sleeps, and gives delay inhibitors."""

import os
import select
import subprocess
import threading
import time

NAME, PATH, MANAGER = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
INTERFACE = f"""<node><interface name='{MANAGER}'><method name='Inhibit'>
<arg type='s' direction='in'/><arg type='s' direction='in'/><arg type='s' direction='in'/><arg type='s' direction='in'/>
<arg type='h' direction='out'/></method></interface></node>"""
# What a logind may answer that gives no inhibitor.
NONSENSE = ("refuses", "no-descriptor", "other-descriptor", "negative-descriptor", "silent")


class Logind:
    """`answers`: one of NONSENSE for each of the first requests for an inhibitor; those behind them get one."""

    def __init__(self, answers=()):
        self._answers = list(answers)
        # What each request says.
        self.asked = []
        # The read ends: who holds an inhibitor has the other.
        self._pipes = []
        self._kept = []

    def __enter__(self):
        from gi.repository import Gio, GLib

        self._gio, self._variant = Gio, GLib.Variant
        self._context = GLib.MainContext.new()
        self._loop = GLib.MainLoop.new(self._context, False)
        self.process = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address"], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self._connection = Gio.DBusConnection.new_for_address_sync(self.address, flags, None, None)
        is_ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(is_ready,))
        self._thread.start()
        is_ready.wait()
        self._connection.call_sync(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
            GLib.Variant("(su)", (NAME, 0)), None, Gio.DBusCallFlags.NONE, -1, None)
        return self

    def __exit__(self, *_):
        self._loop.quit()
        self._thread.join()
        self.process.kill()
        self.process.communicate()
        for pipe in self._pipes:
            os.close(pipe)

    def _serve(self, is_ready):
        """Requests come by the main context that is there when the object is registered."""
        self._context.push_thread_default()
        interface = self._gio.DBusNodeInfo.new_for_xml(INTERFACE).interfaces[0]
        self._connection.register_object(PATH, interface, self._called, None, None)
        self._context.invoke_full(0, is_ready.set)
        self._loop.run()
        self._context.pop_thread_default()

    def _called(self, _connection, _sender, _path, _interface, _method, parameters, invocation):
        answer = self._answers.pop(0) if self._answers else None
        if answer == "refuses":
            invocation.return_dbus_error(f"{NAME}.OperationInProgress", "not now")
        elif answer == "silent":
            self._kept.append(invocation)
        else:
            end, given = os.pipe()
            descriptors = self._gio.UnixFDList.new()
            number = descriptors.append(given)
            os.close(given)
            if answer is None:
                self._pipes.append(end)
            else:
                os.close(end)
            number = {"other-descriptor": 7, "negative-descriptor": -1}.get(answer, number)
            if answer == "no-descriptor":
                descriptors = None
            invocation.return_value_with_unix_fd_list(self._variant("(h)", (number,)), descriptors)
        # Behind the answer: the inhibitor is counted when the request is.
        self.asked.append(parameters.unpack())

    def tell(self, sleeps):
        self._connection.emit_signal(None, PATH, MANAGER, "PrepareForSleep", self._variant("(b)", (sleeps,)))
        self._connection.flush_sync(None)

    @property
    def held(self):
        """How many inhibitors are held."""
        poll = select.poll()
        for pipe in self._pipes:
            poll.register(pipe, 0)
        return len(self._pipes) - len(poll.poll(0))

    def wait(self, condition, deadline=30.0):
        """Whether it comes true: a condition on this."""
        end = time.monotonic() + deadline
        while not condition(self):
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

# SPDX-License-Identifier: MPL-2.0
"""A display device that is not there: `kms_emulator.c`, under umockdev."""

import os
import subprocess

import children

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kms_emulator.c")


def build(folder):
    """The emulator's program."""
    program = os.path.join(folder, "kms-emulator")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "umockdev-1.0", "libdrm"], check=True, capture_output=True, text=True)
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", program, SOURCE, *flags.stdout.split()], check=True)
    return program


class Emulator:
    """The device, which lasts as long as this object is open. Processes under umockdev-wrapper with `environment` see
    it."""

    def __init__(self, program, environment):
        self.process = children.Process(
            ["umockdev-wrapper", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.environment = {**environment, "UMOCKDEV_DIR": self.process.stdout.readline().strip()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)

    def tell(self, command):
        """Changes the device; kms_emulator.c lists the commands."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ok\n":
            raise OSError("the emulator is gone")

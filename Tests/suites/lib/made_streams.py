# SPDX-License-Identifier: MPL-2.0
"""Segments that no packager makes, for decryptors: every size of NAL unit and frame around the limits, slices full of
emulation prevention, and packets of every shape. What is in them is as random as ciphertext, so they are not encrypted
first."""

import random
import struct

import sample_aes

SYNC = 0x47
MAP_PID, VIDEO_PID, AUDIO_PID = 0x1000, 0x100, 0x101
VIDEO_TYPE = 0xDB
AUDIO_TYPES = {"aac": 0xCF, "ac3": 0xC1, "eac3": 0xC2}
# The descriptors of Apple's text: private data indicator, and for audio a registration with its setup.
VIDEO_MARK = b"\x0f\x04zavc"
AUDIO_MARKS = {
    "aac": b"\x0f\x04aacd" + b"\x05\x0eapadzaac\0\0\1\2\x11\x90", "ac3": b"\x0f\x04ac3d" + b"\x05\x0capadzac3\0\0\1\0",
    "eac3": b"\x0f\x04ec3d" + b"\x05\x0capadzec3\0\0\1\0"}


class Maker:
    """Makes the same from the same number."""

    def __init__(self, number):
        self.random = random.Random(number)
        self.counters = {}

    # What is in it

    def noise(self, size):
        """Bytes among which zeros and what follows them are frequent."""
        pick = self.random.random()
        if pick < 0.4:
            return self.random.randbytes(size)
        return bytes(self.random.choices((0, 0, 0, 1, 2, 3, 0x80, self.random.randrange(256)), k=size))

    def size(self):
        """Often one at which something changes: 48, and 16 more than a multiple of 160 behind the first 32."""
        pick = self.random.random()
        if pick < 0.3:
            return self.random.randint(46, 52)
        if pick < 0.7:
            return max(1, 32 + 160 * self.random.randint(0, 5) + self.random.choice((0, 16)) + self.random.randint(-2, 2))
        return self.random.randint(1, 3000)

    def nal_unit(self):
        kind = self.random.choice((1, 5, 1, 5, 6, 7, 8, 9, 12))
        body = bytearray([self.random.choice((0, 0x20, 0x60)) | kind])
        zeros = 0
        for byte in self.noise(self.size() - 1):
            if zeros == 2 and byte <= 3:
                body.append(3)
                zeros = 0
            body.append(byte)
            zeros = zeros + 1 if byte == 0 else 0
        # The last byte of a NAL unit is never zero; nor is it encrypted.
        return bytes(body) + (b"\x80" if body[-1] == 0 else b"")

    def access_unit(self):
        codes = (b"\0\0\1", b"\0\0\0\1", b"\0\0\0\0\1")
        unit = b"".join(
            self.random.choice(codes) + self.nal_unit() for _ in range(self.random.choice((1, 2, 3, 8, 34))))
        return unit + bytes(self.random.choice((0, 0, 0, 1, 3)))

    def frames(self, kind, count):
        return b"".join(getattr(self, kind)() for _ in range(count))

    def aac(self):
        has_checksum = self.random.random() < 0.3
        header = 9 if has_checksum else 7
        size = header + max(0, self.random.choice((0, 15, 16, 31, 32, 33, 48, self.random.randint(0, 1500))))
        return bytes([
            0xFF, 0xF0 if has_checksum else 0xF1, 0x4C, 0x80 | size >> 11, size >> 3 & 0xFF, (size & 7) << 5 | 0x1F,
            0xFC]) + self.noise(size - 7)

    def ac3(self):
        sampling, code = self.random.randrange(3), self.random.randrange(38)
        start = bytes([0x0B, 0x77, *self.random.randbytes(2), sampling << 6 | code, 8 << 3])
        _header, size = sample_aes.frame(start, 0)
        return start + self.noise(size - 6)

    def eac3(self):
        words = self.random.choice((4, 8, 15, 16, 17, self.random.randint(4, 1000)))
        start = bytes([0x0B, 0x77, words - 1 >> 8, words - 1 & 0xFF, 0x3F, 16 << 3])
        return start + self.noise(2 * words - 6)

    # Packed audio

    def packed(self, kind):
        time = b"com.apple.streaming.transportStreamTimestamp\0" + struct.pack(">Q", self.random.randrange(1 << 33))
        setup = b"com.apple.streaming.audioDescription\0" + AUDIO_MARKS[kind].partition(b"apad")[2]
        tag = b"".join(b"PRIV" + struct.pack(">IH", len(value), 0) + value for value in (time, setup))
        size = bytes(len(tag) >> shift & 0x7F for shift in (21, 14, 7, 0))
        return b"ID3\4\0\0" + size + tag + self.frames(kind, 40)

    # Transport streams

    def transport_stream(self, kind):
        """Video and audio of that kind."""
        waiting = {
            VIDEO_PID: [self.pes(0xE0, self.access_unit(), number) for number in range(12)],
            AUDIO_PID: [self.pes(0xC0, self.frames(kind, self.random.randint(1, 4)), number) for number in range(12)]}
        rest = {pid: None for pid in waiting}
        data = self.tables(kind)
        while any(waiting.values()) or any(rest.values()):
            pid = self.random.choice([pid for pid in waiting if waiting[pid] or rest[pid]])
            is_first = not rest[pid]
            if is_first:
                rest[pid] = waiting[pid].pop(0)
                if self.random.random() < 0.1:
                    data += self.tables(kind)
            packet, rest[pid] = self.packet(pid, is_first, rest[pid])
            data += packet
        return data

    def pes(self, stream, payload, number):
        time = 90_000 + 3600 * number
        stamp = bytes([
            0x21 | time >> 29 & 0x0E, time >> 22 & 0xFF, time >> 14 & 0xFE | 1, time >> 7 & 0xFF, time << 1 & 0xFE | 1])
        # Players are given the size of audio; that of video may be zero.
        size = len(payload) + 8
        knows_size = size <= 0xFFFF and (stream != 0xE0 or self.random.random() < 0.5)
        return b"\0\0\1" + struct.pack(">BHBBB", stream, size if knows_size else 0, 0x84, 0x80, 5) + stamp + payload

    def packet(self, pid, is_first, payload):
        """The next packet of a PID, with as much of the payload as it takes, and the rest of that."""
        room = 184
        # A field in front now and then, of any size, with a clock or without.
        wanted = self.random.choice((0, 0, 0, 0, 0, 1, 2, 8, 30, 180))
        room = min(room - wanted, len(payload))
        stuffing = 184 - room
        counter = self.counters[pid] = (self.counters.get(pid, -1) + 1) & 0x0F
        head = bytes([SYNC, (0x40 if is_first else 0) | pid >> 8, pid & 0xFF, (0x30 if stuffing else 0x10) | counter])
        field = b""
        if stuffing:
            has_clock = stuffing >= 8 and pid == VIDEO_PID and self.random.random() < 0.5
            field = bytes([stuffing - 1])
            if stuffing > 1:
                clock = struct.pack(">IH", self.random.randrange(1 << 32), 0x7E00) if has_clock else b""
                field += bytes([0x10 if has_clock else 0]) + clock
                field += b"\xff" * (stuffing - len(field))
        return head + field + payload[:room], payload[room:]

    def tables(self, kind):
        association = self.section(0, struct.pack(">HH", 1, 0xE000 | MAP_PID))
        audio = AUDIO_MARKS[kind]
        streams = struct.pack(">BHH", VIDEO_TYPE, 0xE000 | VIDEO_PID, 0xF000 | len(VIDEO_MARK)) + VIDEO_MARK
        streams += struct.pack(">BHH", AUDIO_TYPES[kind], 0xE000 | AUDIO_PID, 0xF000 | len(audio)) + audio
        program = self.section(2, struct.pack(">HH", 0xE000 | VIDEO_PID, 0xF000) + streams)
        return self.table_packet(0, association) + self.table_packet(MAP_PID, program)

    def section(self, table, body):
        data = struct.pack(">BHHBBB", table, 0xB000 | len(body) + 9, 1, 0xC1, 0, 0) + body
        return data + struct.pack(">I", sample_aes.remainder(data))

    def table_packet(self, pid, section):
        counter = self.counters[pid] = (self.counters.get(pid, -1) + 1) & 0x0F
        head = bytes([SYNC, 0x40 | pid >> 8, pid & 0xFF, 0x10 | counter, 0])
        return head + section + b"\xff" * (183 - len(section))

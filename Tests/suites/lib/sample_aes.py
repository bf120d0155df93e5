# SPDX-License-Identifier: MPL-2.0
"""An exact decryptor of SAMPLE-AES in transport streams and packed audio, to compare others with. Slow and plain: it goes
through Apple's "MPEG-2 Stream Encryption Format for HTTP Live Streaming" sentence by sentence, and has nothing in common
with the library, neither code nor the way it goes about it.

Other programs are no measure: of the usual one, the last access unit of a stream stays encrypted, and one of several
slices goes wrong now and then.
"""

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

PACKET = 188
# Stream types (ISO/IEC 13818-1, table 2-34, ATSC A/53 part 3), encrypted ones as in Apple's text, by codec.
ENCRYPTED = {0xDB: "h264", 0xCF: "aac", 0xC1: "ac3", 0xC2: "eac3"}
CLEAR = {0x1B: "h264", 0x0F: "aac", 0x81: "ac3", 0x87: "eac3"}
# ETSI TS 102 366, table 4.13: kbit/s by half the frame size code.
AC3_RATES = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640]


class Stream:
    """The PES packets of one PID: what is in their headers, and what they carry."""

    def __init__(self, kind):
        self.kind = kind
        self.units = []


def decrypted(segment, key, vector):
    """What an exact decryptor makes of a segment: its streams by PID; for packed audio, one by the name of its codec."""
    if segment[:1] == b"\x47":
        streams = transport_streams(segment, ENCRYPTED)
        for stream in streams.values():
            work = clear_video if stream.kind == "h264" else clear_audio
            stream.units = [(header, work(unit, key, vector)) for header, unit in stream.units]
        return streams
    tag, audio = split_tag(segment)
    stream = Stream(codec_of(audio))
    stream.units = [(timestamp(tag), clear_audio(audio, key, vector))]
    return {"audio": stream}


def as_it_is(segment):
    """The streams of a clear segment, as those above."""
    if segment[:1] == b"\x47":
        return transport_streams(segment, CLEAR)
    tag, audio = split_tag(segment)
    stream = Stream(codec_of(audio))
    stream.units = [(timestamp(tag), audio)]
    return {"audio": stream}


# Transport streams


def transport_streams(segment, types):
    """The streams of these types."""
    packets = [segment[at:at + PACKET] for at in range(0, len(segment), PACKET)]
    programs = sections(packets, 0)
    streams = {}
    for association in programs[:1]:
        for at in range(8, len(association) - 4, 4):
            if association[at:at + 2] != b"\0\0":
                map_pid = (association[at + 2] & 0x1F) << 8 | association[at + 3]
                for pid, kind in entries(sections(packets, map_pid)[0]):
                    if kind in types:
                        streams[pid] = Stream(types[kind])
    for pid, stream in streams.items():
        for start, payload in payloads(packets, pid):
            if start:
                stream.units.append(bytearray())
            if stream.units:
                stream.units[-1] += payload
        # Behind the flags: presentation and decoding time and what else is in the header.
        stream.units = [(bytes(unit[6:9 + unit[8]]), bytes(unit[9 + unit[8]:])) for unit in stream.units]
    return streams


def payloads(packets, pid):
    """Of each packet of a PID: whether a unit starts in it, and its payload."""
    for packet in packets:
        if packet[0] != 0x47 or len(packet) != PACKET:
            raise ValueError("this is no transport stream")
        if (packet[1] & 0x1F) << 8 | packet[2] == pid and packet[3] & 0x10:
            at = 4 + (1 + packet[4] if packet[3] & 0x20 else 0)
            yield bool(packet[1] & 0x40), packet[at:]


def sections(packets, pid):
    """Those that begin and end in one packet, as these tables have to."""
    found = []
    for start, payload in payloads(packets, pid):
        if start:
            section = payload[1 + payload[0]:]
            size = 3 + ((section[1] & 0x0F) << 8 | section[2])
            if remainder(section[:size]):
                raise ValueError(f"a table of PID {pid} has the wrong checksum")
            found.append(section[:size])
    return found


def entries(program_map):
    """PID and type of each stream."""
    at = 12 + ((program_map[10] & 0x0F) << 8 | program_map[11])
    while at < len(program_map) - 4:
        yield (program_map[at + 1] & 0x1F) << 8 | program_map[at + 2], program_map[at]
        at += 5 + ((program_map[at + 3] & 0x0F) << 8 | program_map[at + 4])


def remainder(data):
    """ISO/IEC 13818-1, annex A: zero over a section with its checksum."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
    return value


# Packed audio


def split_tag(segment):
    """The ID3 tags in front, and the frames."""
    at = 0
    while segment[at:at + 3] == b"ID3":
        size = 0
        for byte in segment[at + 6:at + 10]:
            size = size << 7 | byte
        at += 10 + size
    return segment[:at], segment[at:]


def timestamp(tag):
    """The time that the tag says (RFC 8216, 3.4)."""
    name = b"com.apple.streaming.transportStreamTimestamp\0"
    at = tag.find(name)
    return tag[at + len(name):at + len(name) + 8] if at >= 0 else b""


def codec_of(audio):
    if audio[0] == 0xFF:
        return "aac"
    return "eac3" if audio[5] >> 3 > 10 else "ac3"


# Samples


def cbc(key, vector):
    return Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()


def clear_video(unit, key, vector):
    """One access unit. NAL units of type 1 and 5 with more than 48 bytes are encrypted; the encryptor put emulation
    prevention bytes in after that."""
    result = bytearray()
    for front, nal in nal_units(unit):
        if nal and nal[0] & 0x1F in (1, 5) and len(nal) > 48:
            nal = clear_nal(without_prevention(nal), key, vector)
        result += front + nal
    return bytes(result)


def nal_units(unit):
    """Each NAL unit, and what is in front of it: zeros and a start code (ITU-T H.264, annex B). What is behind the last
    one comes as the front of an empty one."""
    starts = []
    at = unit.find(b"\0\0\1")
    while at >= 0:
        starts.append(at)
        at = unit.find(b"\0\0\1", at + 3)
    behind = 0
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(unit)
        while end > start + 3 and unit[end - 1] == 0:
            end -= 1
        yield unit[behind:start + 3], unit[start + 3:end]
        behind = end
    yield unit[behind:], b""


def without_prevention(nal):
    """ITU-T H.264, 7.3.1: a 3 behind two zeros goes."""
    result, zeros = bytearray(), 0
    for byte in nal:
        if zeros >= 2 and byte == 3:
            zeros = 0
            continue
        result.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return result


def clear_nal(nal, key, vector):
    """The pseudo code of Apple's text: 32 bytes are clear; then one block in ten is encrypted while more than a block is
    left. The chain runs through the blocks of a NAL unit, and starts anew in the next."""
    cipher, at = cbc(key, vector), 32
    while at < len(nal):
        if len(nal) - at > 16:
            nal[at:at + 16] = cipher.update(bytes(nal[at:at + 16]))
            at += 16
        at += min(144, len(nal) - at)
    return bytes(nal)


def clear_audio(unit, key, vector):
    """Frames: 16 bytes behind an ADTS header, or at the start of an AC-3 one, are clear; then all whole blocks are
    encrypted, each frame by itself."""
    result, at = bytearray(unit), 0
    while at < len(unit):
        header, size = frame(unit, at)
        start = at + header + 16
        count = (at + size - start) // 16 * 16
        if count > 0:
            result[start:start + count] = cbc(key, vector).update(bytes(unit[start:start + count]))
        at += size
    return bytes(result)


def frame(data, at):
    """The sizes of the header that is clear anyway, and of the whole frame."""
    if data[at] == 0xFF:
        size = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
        return (7 if data[at + 1] & 1 else 9), size
    if data[at:at + 2] != b"\x0b\x77":
        raise ValueError(f"no frame begins at byte {at}")
    if data[at + 5] >> 3 > 10:
        return 0, 2 * (((data[at + 2] & 7) << 8 | data[at + 3]) + 1)
    rate, code = AC3_RATES[(data[at + 4] & 0x3F) // 2], data[at + 4] & 1
    sampling = data[at + 4] >> 6
    # 1536 samples at 48, 44.1 or 32 kHz, in words of 16 bits.
    return 0, 2 * (rate * 1536 * 1000 // 16 // (48000, 44100, 32000)[sampling] + (code if sampling == 1 else 0))

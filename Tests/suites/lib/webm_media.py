# SPDX-License-Identifier: MPL-2.0
"""WebM files in another layout than packagers give them (RFC 8794, RFC 9559)."""

SEGMENT, SEEK_HEAD, SEEK, SEEK_ID, SEEK_POSITION = 0x18538067, 0x114D9B74, 0x4DBB, 0x53AB, 0x53AC
CUES, VOID = 0x1C53BB6B, 0xEC


def elements(data, start, end):
    """(identifier, start, start of the body, end) of each element between two places."""
    while start < end:
        identifier, place = _number(data, start, True)
        size, body = _number(data, place, False)
        yield identifier, start, body, body + size
        start = body + size


def _number(data, start, with_length):
    length = 9 - data[start].bit_length()
    number = int.from_bytes(data[start:start + length], "big")
    return (number if with_length else number & (1 << 7 * length) - 1), start + length


def element(identifier, body):
    """With a length of one byte, or of eight."""
    length = bytes([0x80 | len(body)]) if len(body) < 0x7F else (1 << 56 | len(body)).to_bytes(8, "big")
    return identifier.to_bytes((identifier.bit_length() + 7) // 8, "big") + length + body


def void(size):
    """Of so many bytes in all: below 129 or above 136."""
    body = size - 2 if size < 0x81 else size - 9
    return element(VOID, bytes(body))


def with_cues_last(data):
    """The file with its index behind its media, as a muxer writes it in one go. All that is in front of the media stays where it
    is, or is void."""
    _, begin, media, end = next(found for found in elements(data, 0, len(data)) if found[0] == SEGMENT)
    parts = list(elements(data, media, end))
    kinds = [part[0] for part in parts]
    # The element that the packager left room with stands behind the list of places.
    head, room = parts[kinds.index(SEEK_HEAD)], parts[kinds.index(VOID)]
    cues = parts[kinds.index(CUES)]
    places = b""
    for _, _, entry, entry_end in elements(data, head[2], head[3]):
        fields = {kind: data[body:stop] for kind, _, body, stop in elements(data, entry, entry_end)}
        if fields[SEEK_ID] == CUES.to_bytes(4, "big"):
            fields[SEEK_POSITION] = (end - media).to_bytes(4, "big")
        places += element(SEEK, b"".join(element(kind, body) for kind, body in fields.items()))
    places = element(SEEK_HEAD, places)
    left = room[3] - head[1] - len(places)
    if room[1] != head[3] or left < 2:
        raise ValueError("there is no room for the list of places")
    return data[:begin] + element(SEGMENT, data[media:head[1]] + places + void(left) + data[room[3]:cues[1]]
                                  + void(cues[3] - cues[1]) + data[cues[3]:end] + data[cues[1]:cues[3]])

# SPDX-License-Identifier: MPL-2.0
"""Looks for content keys where they must not be: in logs, in messages, and in the memory of a process."""

import base64
import re

# A line of GStreamer's or GLib's hexadecimal dumps: an offset, then up to 16 bytes.
DUMP_LINE = re.compile(rb"(?:0x)?[0-9a-fA-F]{4,8}:((?: ?[0-9a-fA-F]{2}){1,16})(?: |$)", re.MULTILINE)


def in_base64(key):
    """The characters that the key gives at each alignment, without those that its neighbors decide too."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + key).rstrip(b"=")
        whole = (before + len(key)) * 8 // 6
        yield text[(before * 8 + 5) // 6:whole]


def forms(key):
    """Names and byte strings of what a key may look like. Hexadecimal is looked for in lower case."""
    yield "raw bytes", key
    for text in in_base64(key):
        yield "base64", text
        url = text.translate(bytes.maketrans(b"+/", b"-_"))
        if url != text:
            yield "base64url", url


def in_text(data, key):
    """How the key is found in the bytes of a log; None where it is not."""
    for name, form in forms(key):
        if form in data:
            return name
    lower = data.lower()
    if key.hex().encode() in lower:
        return "hexadecimal"
    for separator in (b" ", b":", b"-", b", ", b",", b", 0x", b" 0x"):
        if key.hex(" ").encode().replace(b" ", separator) in lower:
            return "hexadecimal with separators"
    # As Swift and Python print an array of bytes.
    if any(separator.join(map(str, key)).encode() in data for separator in (", ", ",", " ")):
        return "numbers"
    dumps = b"".join(re.sub(rb"\s", b"", match.group(1)) for match in DUMP_LINE.finditer(lower))
    if key.hex().encode() in dumps:
        return "a hexadecimal dump"
    uuid = re.compile(b"-?".join(f"{byte:02x}".encode() for byte in key))
    return "a UUID" if key[:4].hex().encode() + b"-" in lower and uuid.search(lower) else None


class Mapping:
    def __init__(self, first, last, name):
        self.first, self.last, self.name = first, last, name
        self.flags = set()


def mappings(pid):
    """The mappings of a process with their VmFlags."""
    found = []
    with open(f"/proc/{pid}/smaps") as lines:
        for line in lines:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)", line)
            if head:
                found.append(Mapping(int(head.group(1), 16), int(head.group(2), 16), head.group(4)))
                found[-1].is_readable = head.group(3).startswith("r")
            elif line.startswith("VmFlags:"):
                found[-1].flags = set(line.split()[1:])
    return found


def in_memory(pid, needles):
    """(needle, mapping) for each place of each needle in the memory of a process that we may trace."""
    places = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for mapping in mappings(pid):
            if not mapping.is_readable or mapping.name in ("[vvar]", "[vsyscall]", "[vdso]"):
                continue
            try:
                memory.seek(mapping.first)
                data = memory.read(mapping.last - mapping.first)
            except (OSError, OverflowError, ValueError):
                continue
            for needle in needles:
                start = data.find(needle)
                while start >= 0:
                    places.append((needle, mapping))
                    start = data.find(needle, start + 1)
    return places

#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Golden SPC and CKC files, put together by hand from the published tables.

Shares nothing with Latchkey's own code: AES and RSA-OAEP are written out here from FIPS 197 and RFC 8017, and the
layouts come from the tables that TLLV.swift names. So a mistake that client and server of Latchkey make together shows.

    golden.py make                 write the files of this folder again (the same bytes: nothing here is random)
    golden.py open-spc < SPC       open an SPC for one of the two certificates of this folder, print JSON
    golden.py open-ckc SECRETS < CKC
                                   open a CKC; SECRETS is the JSON that open-spc printed

The keys of key-v1.pem and key-v2.pem were made for these files by
`openssl req -x509 -newkey rsa:1024 -nodes -keyout key-v1.pem -outform DER -out certificate-v1.cer …` and protect nothing.
"""

import base64
import hashlib
import hmac
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


# AES (FIPS 197)

def _make_sbox():
    sbox = [0] * 256
    p = q = 1
    while True:
        p = p ^ ((p << 1) & 0xFF) ^ (0x1B if p & 0x80 else 0)
        q ^= q << 1
        q ^= q << 2
        q ^= q << 4
        q &= 0xFF
        if q & 0x80:
            q ^= 0x09
        x = q
        for shift in (1, 2, 3, 4):
            x ^= ((q << shift) | (q >> (8 - shift))) & 0xFF
        sbox[p] = x ^ 0x63
        if p == 1:
            break
    sbox[0] = 0x63
    return sbox


SBOX = _make_sbox()
INVERSE = [SBOX.index(i) for i in range(256)]


def _times(a, b):
    result = 0
    while b:
        if b & 1:
            result ^= a
        a = ((a << 1) & 0xFF) ^ (0x1B if a & 0x80 else 0)
        b >>= 1
    return result


def _round_keys(key):
    words = [list(key[i:i + 4]) for i in range(0, 16, 4)]
    constant = 1
    for i in range(4, 44):
        word = list(words[i - 1])
        if i % 4 == 0:
            word = [SBOX[x] for x in word[1:] + word[:1]]
            word[0] ^= constant
            constant = _times(constant, 2)
        words.append([a ^ b for a, b in zip(words[i - 4], word)])
    return [sum(words[i:i + 4], []) for i in range(0, 44, 4)]


def _mix(state, row):
    output = []
    for column in range(0, 16, 4):
        for i in range(4):
            value = 0
            for j in range(4):
                value ^= _times(state[column + j], row[(j - i) % 4])
            output.append(value)
    return output


def aes_encrypt(key, block):
    keys = _round_keys(key)
    state = [a ^ b for a, b in zip(block, keys[0])]
    for number in range(1, 11):
        state = [SBOX[x] for x in state]
        state = [state[(i + 4 * (i % 4)) % 16] for i in range(16)]
        if number < 10:
            state = _mix(state, (2, 3, 1, 1))
        state = [a ^ b for a, b in zip(state, keys[number])]
    return bytes(state)


def aes_decrypt(key, block):
    keys = _round_keys(key)
    state = [a ^ b for a, b in zip(block, keys[10])]
    for number in range(9, -1, -1):
        state = [state[(i - 4 * (i % 4)) % 16] for i in range(16)]
        state = [INVERSE[x] for x in state]
        state = [a ^ b for a, b in zip(state, keys[number])]
        if number:
            state = _mix(state, (14, 11, 13, 9))
    return bytes(state)


def cbc_encrypt(key, iv, data):
    assert len(data) % 16 == 0
    output = b""
    for i in range(0, len(data), 16):
        iv = aes_encrypt(key, bytes(a ^ b for a, b in zip(data[i:i + 16], iv)))
        output += iv
    return output


def cbc_decrypt(key, iv, data):
    assert len(data) % 16 == 0
    output = b""
    for i in range(0, len(data), 16):
        output += bytes(a ^ b for a, b in zip(aes_decrypt(key, data[i:i + 16]), iv))
        iv = data[i:i + 16]
    return output


# RSA-OAEP (RFC 8017, 7.1) with SHA-1 and an empty label

def _mask(seed, size):
    output = b""
    counter = 0
    while len(output) < size:
        output += hashlib.sha1(seed + counter.to_bytes(4, "big")).digest()
        counter += 1
    return output[:size]


def _xor(left, right):
    return bytes(a ^ b for a, b in zip(left, right))


def oaep_encrypt(n, e, message, seed):
    size = (n.bit_length() + 7) // 8
    block = hashlib.sha1(b"").digest() + bytes(size - len(message) - 42) + b"\x01" + message
    masked = _xor(block, _mask(seed, len(block)))
    masked_seed = _xor(seed, _mask(masked, 20))
    return pow(int.from_bytes(b"\x00" + masked_seed + masked, "big"), e, n).to_bytes(size, "big")


def oaep_decrypt(n, d, data):
    size = (n.bit_length() + 7) // 8
    clear = pow(int.from_bytes(data, "big"), d, n).to_bytes(size, "big")
    seed = _xor(clear[1:21], _mask(clear[21:], 20))
    block = _xor(clear[21:], _mask(seed, size - 21))
    assert clear[0] == 0 and block[:20] == hashlib.sha1(b"").digest(), "OAEP"
    message = block[20:].lstrip(b"\x00")
    assert message[:1] == b"\x01", "OAEP"
    return message[1:]


def _der(data):
    """The elements of one level: (tag, content)."""
    while data:
        tag, size, start = data[0], data[1], 2
        if size & 0x80:
            start = 2 + (size & 0x7F)
            size = int.from_bytes(data[2:start], "big")
        yield tag, data[start:start + size]
        data = data[start + size:]


def read_key(version):
    """n, e, d out of the PKCS #8 file."""
    with open(os.path.join(HERE, f"key-v{version}.pem"), encoding="ascii") as file:
        text = "".join(line for line in file if not line.startswith("-"))
    info = list(_der(next(_der(base64.b64decode(text)))[1]))
    numbers = [int.from_bytes(content, "big") for _, content in _der(next(_der(info[2][1]))[1])]
    return numbers[1], numbers[2], numbers[3]


def read_certificate(version):
    with open(os.path.join(HERE, f"certificate-v{version}.cer"), "rb") as file:
        return file.read()


# The tables

SK_R1 = 0x3D1A10B8BFFAC2EC
SK_R1_INTEGRITY = 0xB349D4809E910687
AR_SEED = 0x89C90F12204106B2
R2 = 0x71B5595AC1521133
RETURN_REQUEST = 0x19F9D4E5AB7609CB
ASSET_ID = 0x1BF7F53F5D5D5A1F
TRANSACTION_ID = 0x47AA7AD3440577DE
VERSIONS_SUPPORTED = 0x67B8FB79ECCE1A13
VERSION_USED = 0x5D81BCBCC7F61703
STREAMING_INDICATOR = 0xABB0256A31843974
MEDIA_PLAYBACK_STATE = 0xEB8EFDF2B25AB3A0
DEVICE_IDENTITY = 0x94C17CD676C69B59
ENCRYPTED_CK = 0x58B38165AF0E3D5A
R1 = 0xEA74C4645D5EFEE9
CONTENT_KEY_DURATION = 0x47ACF6A418CD091A
HDCP = 0x2E52F1530D8DDB4A
OFFLINE_KEY = 0x6375D9727060218C
UNKNOWN = 0x0123456789ABCDEF
# Latchkey's own blocks
SPC_INTEGRITY = int.from_bytes(hashlib.sha256(b"latchkey: SPC integrity").digest()[:8], "big")
CKC_INTEGRITY = int.from_bytes(hashlib.sha256(b"latchkey: CKC integrity").digest()[:8], "big")


def u32(value):
    return value.to_bytes(4, "big")


def u64(value):
    return value.to_bytes(8, "big")


def fixed(label, size):
    """Bytes that look random and are the same every time."""
    output = b""
    while len(output) < size:
        output += hashlib.sha256(f"golden {label} {len(output)}".encode()).digest()
    return output[:size]


def tllv(tag, value, extra=16):
    padding = -len(value) % 16 + extra
    return (u64(tag) + u32(len(value) + padding) + u32(len(value)) + value
            + fixed(f"padding {tag:x} {extra}", padding))


def read_tllvs(data):
    blocks = {}
    while data:
        tag = int.from_bytes(data[:8], "big")
        block, value = int.from_bytes(data[8:12], "big"), int.from_bytes(data[12:16], "big")
        assert value <= block <= len(data) - 16 and block % 16 == 0, "TLLV"
        assert tag not in blocks, "TLLV twice"
        blocks[tag] = data[16:16 + value]
        data = data[16 + block:]
    return blocks


ASK = fixed("ASk", 16)
CONTENT_KEY = fixed("content key", 16)
CONTENT_IV = fixed("content IV", 16)


def dask(r2):
    """The project's own test derivation."""
    return aes_encrypt(ASK, hashlib.sha1(r2).digest()[:16])


def response_key(r1, seed):
    return aes_encrypt(hashlib.sha1(r1).digest()[:16], seed)


class Request:
    def __init__(self, name, version, asset, playback=None, full=False):
        self.name, self.version, self.full = name, version, full
        self.asset = asset
        self.sk, self.hu, self.r1 = (fixed(f"{name} {x}", s) for x, s in (("SK", 16), ("HU", 20), ("R1", 44)))
        self.integrity, self.seed, self.r2 = (
            fixed(f"{name} {x}", s) for x, s in (("integrity", 16), ("seed", 16), ("R2", 21)))
        self.spck, self.iv = fixed(f"{name} SPCK", 16), fixed(f"{name} IV", 16)
        self.transaction = fixed(f"{name} transaction", 8)
        self.playback = playback

    def spc(self):
        sk_iv = fixed(f"{self.name} SK..R1 IV", 16)
        sealed = sk_iv + cbc_encrypt(dask(self.r2), sk_iv, self.sk + self.hu + self.r1 + self.integrity)
        wanted = [TRANSACTION_ID]
        blocks = [(ASSET_ID, self.asset), (SK_R1, sealed), (VERSION_USED, u32(self.version)), (R2, self.r2)]
        if self.playback:
            blocks.append((MEDIA_PLAYBACK_STATE, u32(self.playback[0]) + u32(self.playback[1]) + u64(self.playback[2])))
        if self.full:
            blocks += [
                (STREAMING_INDICATOR, u64(0x5F9C8132B59F2FDE)), (UNKNOWN, b"not known"),
                (DEVICE_IDENTITY, u32(1) + u32(2) + u64(3) + u64(4) + u32(5) + u32(6) + u32(7) + b"rest"),
                (SPC_INTEGRITY, bytes(32)),
            ]
            wanted = [UNKNOWN, TRANSACTION_ID, MEDIA_PLAYBACK_STATE, SPC_INTEGRITY]
        blocks += [
            (TRANSACTION_ID, self.transaction), (AR_SEED, self.seed),
            (RETURN_REQUEST, b"".join(u64(tag) for tag in wanted)),
            (VERSIONS_SUPPORTED, b"".join(u32(v) for v in range(1, self.version + 1))),
            (SK_R1_INTEGRITY, self.integrity),
        ]

        def payload(code):
            return b"".join(tllv(tag, code if tag == SPC_INTEGRITY else value) for tag, value in blocks)

        n, e, _ = read_key(self.version)
        clear = payload(bytes(32))
        header = (u32(self.version) + u32(0) + self.iv + oaep_encrypt(n, e, self.spck, fixed(self.name + " OAEP", 20))
                  + hashlib.sha1(read_certificate(self.version)).digest() + u32(len(clear)))
        clear = payload(hmac.digest(self.spck, header + clear, "sha256"))
        return header + cbc_encrypt(self.spck, self.iv, clear)

    def encrypted_key(self):
        return CONTENT_IV + aes_encrypt(self.sk, CONTENT_KEY)

    def ckc(self, name, blocks, reserved=0, integrity=False, extra=16, key=True):
        key_blocks = [(ENCRYPTED_CK, self.encrypted_key())] if key else []
        blocks = [(TRANSACTION_ID, self.transaction)] + key_blocks + blocks + [(R1, self.r1)]
        if integrity:
            blocks.append((CKC_INTEGRITY, bytes(32)))
        ark, iv = response_key(self.r1, self.seed), fixed(f"{name} IV", 16)

        def payload(code):
            return b"".join(tllv(tag, code if tag == CKC_INTEGRITY else value, extra) for tag, value in blocks)

        clear = payload(bytes(32))
        header = u32(self.version) + u32(reserved) + iv + u32(len(clear))
        clear = payload(hmac.digest(ark, header + clear, "sha256"))
        return header + cbc_encrypt(ark, iv, clear)

    def values(self):
        names = {
            "sk": self.sk, "hu": self.hu, "r1": self.r1, "integrity": self.integrity, "seed": self.seed, "r2": self.r2,
            "spck": self.spck, "transaction": self.transaction, "asset": self.asset, "dask": dask(self.r2),
            "responseKey": response_key(self.r1, self.seed), "encryptedKey": self.encrypted_key(),
        }
        return {name: value.hex() for name, value in names.items()}


def make():
    ready = (1_700_000_000, 0xF4DEE5A2, 0x1122334455667788)
    requests = [
        Request("spc-v1", 1, "skd://golden/asset?é".encode()),
        Request("spc-v1-full", 1, b"ab", ready, full=True),
        Request("spc-v2", 2, b"x" * 200),
        Request("spc-v2-full", 2, b"golden", ready, full=True),
    ]
    by_name = {request.name: request for request in requests}
    files = {request.name: request.spc() for request in requests}
    no_end = 0xFFFFFFFF

    def duration(lease, rental, kind):
        return (CONTENT_KEY_DURATION, u32(lease) + u32(rental) + u32(kind) + u32(0x86D34A3A))

    offline = u32(2) + u32(0) + fixed("stream", 16) + u32(86400) + u32(3600) + fixed("title", 16)
    answers = {
        "ckc-v1": ("spc-v1", [], {}),
        "ckc-v1-nopadding": ("spc-v1", [], {"extra": 0}),
        "ckc-v1-nokey": ("spc-v1", [], {"key": False}),
        "ckc-v1-lease": ("spc-v1", [duration(60, no_end, 0x1A4BDE7E), (HDCP, u64(0xEF72894CA7895B78))], {}),
        "ckc-v1-rental": ("spc-v1", [duration(no_end, 7200, 0x3DFE45A0), (HDCP, u64(0x40791AC78BD5C571) + u64(0))], {}),
        "ckc-v1-rental-persistent": ("spc-v1", [duration(no_end, 3600, 0x18F06048)], {}),
        "ckc-v1-persistent": (
            "spc-v1", [duration(no_end, no_end, 0x3DF2D9FB),
                       (OFFLINE_KEY, u32(1) + u32(0) + fixed("stream", 16) + u32(86400) + u32(3600))], {}),
        "ckc-v1-full": (
            "spc-v1", [duration(60, 7200, 0x27B59BDE), (HDCP, u64(0x285A0863BBA8E1D3) + u64(0)),
                       (OFFLINE_KEY, offline), (UNKNOWN, b"?")], {"reserved": 0xDEADBEEF, "integrity": True}),
        "ckc-v2": ("spc-v2", [], {"integrity": True}),
    }
    files.update({name: by_name[spc].ckc(name, blocks, **options) for name, (spc, blocks, options) in answers.items()})
    known = {
        "ask": ASK.hex(), "contentKey": CONTENT_KEY.hex(), "contentIV": CONTENT_IV.hex(),
        "requests": {request.name: request.values() for request in requests},
    }
    files["known"] = (json.dumps(known, indent=1) + "\n").encode()
    for name, data in files.items():
        path = os.path.join(HERE, name + (".json" if name == "known" else ".bin"))
        with open(path, "wb") as file:
            file.write(data)


def open_spc(data):
    version = int.from_bytes(data[:4], "big")
    size = {1: 128, 2: 256}[version]
    n, _, d = read_key(version)
    assert data[24 + size:44 + size] == hashlib.sha1(read_certificate(version)).digest(), "certificate hash"
    length = int.from_bytes(data[44 + size:48 + size], "big")
    assert len(data) == 48 + size + length, "length"
    spck = oaep_decrypt(n, d, data[24:24 + size])
    blocks = read_tllvs(cbc_decrypt(spck, data[8:24], data[48 + size:]))
    sealed = blocks[SK_R1]
    clear = cbc_decrypt(dask(blocks[R2]), sealed[:16], sealed[16:])
    assert clear[80:] == blocks[SK_R1_INTEGRITY], "integrity"
    return {
        "asset": blocks[ASSET_ID].hex(), "hu": clear[16:36].hex(), "sk": clear[:16].hex(), "r1": clear[36:80].hex(),
        "seed": blocks[AR_SEED].hex(), "transaction": blocks[TRANSACTION_ID].hex(),
        "blocks": {f"{tag:016x}": value.hex() for tag, value in blocks.items()},
    }


def open_ckc(secrets, data):
    r1, seed, sk = (bytes.fromhex(secrets[name]) for name in ("r1", "seed", "sk"))
    assert len(data) == 28 + int.from_bytes(data[24:28], "big"), "length"
    blocks = read_tllvs(cbc_decrypt(response_key(r1, seed), data[8:24], data[28:]))
    assert blocks[R1] == r1, "R1"
    result = {"version": int.from_bytes(data[:4], "big"),
              "blocks": {f"{tag:016x}": value.hex() for tag, value in blocks.items()}}
    if ENCRYPTED_CK in blocks:
        result["iv"] = blocks[ENCRYPTED_CK][:16].hex()
        result["key"] = aes_decrypt(sk, blocks[ENCRYPTED_CK][16:]).hex()
    return result


def main():
    # The vector of FIPS 197, appendix C.1, both ways.
    key, clear = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
    secret = bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")
    assert aes_encrypt(key, clear) == secret and aes_decrypt(key, secret) == clear
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "make":
        make()
    elif command == "open-spc":
        print(json.dumps(open_spc(sys.stdin.buffer.read())))
    elif command == "open-ckc":
        print(json.dumps(open_ckc(json.loads(sys.argv[2]), sys.stdin.buffer.read())))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Puts the golden files of the PlayReady-style formats together by hand, from the public tables and without Latchkey's
code. Curve arithmetic is written out here; AES and CMAC come from the package "cryptography".

    python3 golden.py        writes the files next to it; the same bytes each time

All keys are made here, from hashes of their names. No vendor knows the root.
"""
import base64
import hashlib
import json
import pathlib
import struct
import uuid
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.cmac import CMAC

here = pathlib.Path(__file__).parent

# P-256 (FIPS 186-4, D.1.2.3)
P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
G = (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
     0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)


def add(a, b):
    if a is None:
        return b
    if b is None:
        return a
    if a[0] == b[0]:
        if (a[1] + b[1]) % P == 0:
            return None
        slope = (3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def times(k, point):
    result = None
    while k:
        if k & 1:
            result = add(result, point)
        point = add(point, point)
        k >>= 1
    return result


def wire(point):
    return point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def secret(name):
    return int.from_bytes(hashlib.sha256(b"latchkey golden " + name.encode()).digest(), "big") % (N - 1) + 1


def public(name):
    return wire(times(secret(name), G))


def sign(name, message):
    e = int.from_bytes(hashlib.sha256(message).digest(), "big")
    k = secret(f"k {name} {message.hex()}")
    r = times(k, G)[0] % N
    s = pow(k, -1, N) * (e + r * secret(name)) % N
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def fill(name, size):
    return hashlib.sha256(b"latchkey golden " + name.encode()).digest()[:size]


def encrypt_point(m, receiver_name, k):
    q = times(secret(receiver_name), G)
    return wire(times(k, G)) + wire(add(m, times(k, q)))


def lift(x):
    square = (x * x * x - 3 * x + B) % P
    y = pow(square, (P + 1) // 4, P)
    if x >= P or y * y % P != square:
        return None
    return x, y if y % 2 == 0 else P - y


def b64(data):
    return base64.b64encode(data).decode()


def guid(text):
    return uuid.UUID(text).bytes_le


# --- certificates -----------------------------------------------------------------------------------------------

def bobject(tag, body, flags=1):
    return struct.pack(">HHI", flags, tag, len(body) + 8) + body


def basic(name, level, kind, key):
    return bobject(1, fill("id " + name, 16) + struct.pack(">III", level, 0, kind)
                   + hashlib.sha256(key).digest() + b"\xff\xff\xff\xff" + bytes(16))


def keys(*entries):
    body = struct.pack(">I", len(entries))
    for key, usages in entries:
        body += struct.pack(">HHI", 1, 512, 0) + key + struct.pack(f">I{len(usages)}I", len(usages), *usages)
    return bobject(6, body)


def manufacturer(*texts):
    body = struct.pack(">I", 0)
    for text in texts:
        data = text.encode()
        body += struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)
    return bobject(7, body)


def certificate(objects, issuer):
    body = b"".join(objects)
    head = b"CERT" + struct.pack(">III", 1, 16 + len(body) + 144, 16 + len(body))
    signature = struct.pack(">HH", 1, 64) + sign(issuer, head + body) + struct.pack(">I", 512) + public(issuer)
    return head + body + bobject(8, signature)


def chain(*certificates):
    body = b"".join(certificates)
    return b"CHAI" + struct.pack(">IIII", 1, 20 + len(body), 0, len(certificates)) + body


maker = manufacturer("Latchkey", "Golden", "1")
model = certificate([basic("model", 2000, 4, public("model")), keys((public("model"), [6])), maker], "root")
device = certificate([
    basic("device", 2000, 2, public("device sign")),
    bobject(4, struct.pack(">III", 10240, 15360, 2)),
    bobject(5, struct.pack(">IIII", 3, 4, 9, 0xD)),
    keys((public("device sign"), [1]), (public("device encrypt"), [2])),
    maker], "model")
issuer = certificate([basic("license issuer", 2000, 4, public("license issuer")),
                      keys((public("license issuer"), [0x12])), maker], "root")
signer = certificate([basic("license signer", 2000, 0xC, public("license signer")),
                      keys((public("license signer"), [0x14, 0x13])), maker], "license issuer")
device_chain, server_chain = chain(device, model), chain(signer, issuer)

# --- header ----------------------------------------------------------------------------------------------------

kid = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
key = fill("content key", 16)
ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
checksum = b64(ecb.update(kid.bytes_le)[:8])
name_space = "http://schemas.microsoft.com/DRM/2007/03/PlayReadyHeader"
rest = ("<LA_URL>https://example.com/rightsmanager.asmx?a=1&amp;b=2</LA_URL>"
        "<LUI_URL>https://example.com/page</LUI_URL>"
        f"<DS_ID>{b64(guid('AA6CB5D1-8D3B-4E5F-9B0F-2B8C5E1A7D42'))}</DS_ID>"
        '<CUSTOMATTRIBUTES xmlns=""><ContentID id="7">ä &lt; ß</ContentID></CUSTOMATTRIBUTES>')
k = b64(kid.bytes_le)
headers = {
    "4.0.0.0": f"<PROTECTINFO><KEYLEN>16</KEYLEN><ALGID>AESCTR</ALGID></PROTECTINFO><KID>{k}</KID>"
               f"<CHECKSUM>{checksum}</CHECKSUM>{rest}",
    "4.1.0.0": f'<PROTECTINFO><KID ALGID="AESCTR" CHECKSUM="{checksum}" VALUE="{k}"></KID></PROTECTINFO>{rest}'
               "<DECRYPTORSETUP>ONDEMAND</DECRYPTORSETUP>",
    "4.2.0.0": f'<PROTECTINFO><KIDS><KID ALGID="AESCTR" CHECKSUM="{checksum}" VALUE="{k}"></KID>'
               f'<KID ALGID="AESCTR" VALUE="{b64(fill("kid 2", 16))}"></KID></KIDS></PROTECTINFO>{rest}',
    "4.3.0.0": f'<PROTECTINFO LICENSEREQUESTED="false"><KIDS><KID ALGID="AESCBC" VALUE="{k}"></KID></KIDS>'
               f"</PROTECTINFO>{rest}",
}
objects = {}
for version, data in headers.items():
    text = f'<WRMHEADER xmlns="{name_space}" version="{version}"><DATA>{data}</DATA></WRMHEADER>'
    headers[version] = text
    record = text.encode("utf-16-le")
    store = bytes(64)
    body = struct.pack("<HHH", 2, 1, len(record)) + record + struct.pack("<HH", 3, len(store)) + store
    objects[version] = struct.pack("<I", len(body) + 4) + body

# --- license ---------------------------------------------------------------------------------------------------

def xobject(kind, body, flags=1):
    return struct.pack(">HHI", flags, kind, len(body) + 8) + body


counter = 0
while True:
    integrity = fill(f"integrity {counter}", 16)
    point = lift(int.from_bytes(integrity + key, "big"))
    if point:
        break
    counter += 1


def license(rights_id, extra):
    wrapped = encrypt_point(point, "device encrypt", secret("license k"))
    playback = xobject(4, b"".join([
        xobject(5, struct.pack(">HHHHH", 500, 250, 150, 100, 100)),
        xobject(7, xobject(8, guid("C3FD11C6-F8B7-4D20-B008-1DB17D61F2DA") + struct.pack(">I", 2)), 3),
        xobject(0x58, xobject(0x59, guid("9645E831-E01D-4FFF-8342-0A720E3E028F")
                              + struct.pack(">II", 1080, 1920)), 3),
        xobject(0x36, xobject(0x39, guid("786627D8-C2A6-44BE-8F88-08AE255B01A7")), 3),
    ]), 2)
    policy = xobject(2, b"".join([
        xobject(0x12, struct.pack(">II", 0, 1446224230)),
        xobject(0x13, struct.pack(">I", 1446224170), 0),
        xobject(0x32, struct.pack(">I", 30)),
        xobject(0x34, struct.pack(">H", 2000)),
        xobject(0x33, struct.pack(">H", 1), 0),
    ]) + extra, 3)
    material = xobject(9, b"".join([
        xobject(0xA, kid.bytes_le + struct.pack(">HHH", 1, 3, 128) + wrapped),
        xobject(0x2A, struct.pack(">HH", 1, 64) + public("device encrypt"), 0),
    ]), 3)
    content = playback + policy + material
    data = b"XMR\0" + struct.pack(">I", 3) + rights_id + struct.pack(">HHI", 3, 1, 8 + len(content) + 28) + content
    mac = CMAC(algorithms.AES(integrity))
    mac.update(data)
    return data + xobject(0xB, struct.pack(">HH", 1, 16) + mac.finalize())


nonce = fill("nonce", 16)
persistent = license(fill("rights id", 16), xobject(0x30, struct.pack(">I", 3600)))
temporary = license(nonce, xobject(0xD, struct.pack(">H", 1)))

# --- challenge and response ------------------------------------------------------------------------------------

protocols = "http://schemas.microsoft.com/DRM/2007/03/protocols"
xmlenc, xmldsig = "http://www.w3.org/2001/04/xmlenc#", "http://www.w3.org/2000/09/xmldsig#"


def signature(signed, signer_name, key_info):
    info = (f'<SignedInfo xmlns="{xmldsig}"><CanonicalizationMethod Algorithm="http://www.w3.org/TR/2001/'
            f'REC-xml-c14n-20010315"></CanonicalizationMethod><SignatureMethod Algorithm="{protocols}#ecdsa-sha256">'
            f'</SignatureMethod><Reference URI="#SignedData"><DigestMethod Algorithm="{protocols}#sha256">'
            f"</DigestMethod><DigestValue>{b64(hashlib.sha256(signed.encode()).digest())}</DigestValue></Reference>"
            "</SignedInfo>")
    value = b64(sign(signer_name, info.encode()))
    return f'<Signature xmlns="{xmldsig}">{info}<SignatureValue>{value}</SignatureValue>{key_info}</Signature>'


session = times(secret("session point"), G)
iv, session_key = session[0].to_bytes(32, "big")[:16], session[0].to_bytes(32, "big")[16:]
clear = (f"<Data><CertificateChains><CertificateChain>{b64(device_chain)}</CertificateChain></CertificateChains>"
         '<Features><Feature Name="AESCBC"></Feature></Features></Data>').encode()
padding = 16 - len(clear) % 16
cbc = Cipher(algorithms.AES(session_key), modes.CBC(iv)).encryptor()
cipher_text = iv + cbc.update(clear + bytes([padding]) * padding)
wrapped_session = encrypt_point(session, "server encrypt", secret("session k"))
lists = "".join(f"<RevListInfo><ListID>{b64(guid(i))}</ListID><Version>{v}</Version></RevListInfo>" for i, v in [
    ("52D1FF11-D388-4EDD-82B7-68EA4C20A16C", 31), ("4E9D8C8A-B652-45A7-9791-6925A6B4791F", 8)])
la = (f'<LA xmlns="{protocols}" Id="SignedData" xml:space="preserve"><Version>4</Version>'
      f'<ContentHeader>{headers["4.2.0.0"]}</ContentHeader>'
      "<CLIENTINFO><CLIENTVERSION>4.3.0.0</CLIENTVERSION></CLIENTINFO>"
      f"<RevocationLists>{lists}</RevocationLists>"
      "<CustomData>User=&lt;Jürgen&gt; &amp; co</CustomData>"
      f"<LicenseNonce>{b64(nonce)}</LicenseNonce><ClientTime>1446224160</ClientTime>"
      f'<EncryptedData xmlns="{xmlenc}" Type="{xmlenc}Element"><EncryptionMethod Algorithm="{xmlenc}aes128-cbc">'
      f'</EncryptionMethod><KeyInfo xmlns="{xmldsig}"><EncryptedKey xmlns="{xmlenc}"><EncryptionMethod '
      f'Algorithm="{protocols}#ecc256"></EncryptionMethod><KeyInfo xmlns="{xmldsig}"><KeyName>WMRMServer</KeyName>'
      f"</KeyInfo><CipherData><CipherValue>{b64(wrapped_session)}</CipherValue></CipherData></EncryptedKey></KeyInfo>"
      f"<CipherData><CipherValue>{b64(cipher_text)}</CipherValue></CipherData></EncryptedData></LA>")
key_info = (f'<KeyInfo xmlns="{xmldsig}"><KeyValue><ECCKeyValue><PublicKey>{b64(public("device sign"))}</PublicKey>'
            "</ECCKeyValue></KeyValue></KeyInfo>")
soap = ('<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">'
        "<soap:Body>{}</soap:Body></soap:Envelope>")
challenge = soap.format(
    f'<AcquireLicense xmlns="{protocols}"><challenge><Challenge xmlns="{protocols}/messages">{la}'
    f'{signature(la, "device sign", key_info)}</Challenge></challenge></AcquireLicense>')


def response(xmr, parts):
    body = (f'<LicenseResponse xmlns="{protocols}" Id="SignedData"><Version>1</Version><Licenses><License>{b64(xmr)}'
            f"</License></Licenses>{parts}<SigningCertificateChain>{b64(server_chain)}</SigningCertificateChain>"
            "</LicenseResponse>")
    return soap.format(
        f'<AcquireLicenseResponse xmlns="{protocols}"><AcquireLicenseResult><Response xmlns="{protocols}/messages">'
        f'{body}{signature(body, "license signer", "")}</Response></AcquireLicenseResult></AcquireLicenseResponse>')


persistent_response = response(
    persistent,
    f"<RevInfo><Revocation><ListID>{b64(guid('52D1FF11-D388-4EDD-82B7-68EA4C20A16C'))}</ListID>"
    f"<ListData>{b64(b'list data')}</ListData></Revocation></RevInfo>"
    f"<Acknowledgement><TransactionID>{b64(fill('transaction', 16))}</TransactionID></Acknowledgement>"
    f"<CustomData>hello</CustomData><LicenseNonce>{b64(nonce)}</LicenseNonce><ResponseID>cnNw</ResponseID>")
temporary_response = response(temporary, "<ResponseID>cnNw</ResponseID>")

for name, data in {
    **{f"header-{version[:3]}.xml": text.encode() for version, text in headers.items()},
    **{f"object-{version[:3]}.bin": data for version, data in objects.items()},
    "chain-device.bin": device_chain, "chain-server.bin": server_chain,
    "license.bin": persistent, "license-temporary.bin": temporary,
    "challenge.xml": challenge.encode(), "response.xml": persistent_response.encode(),
    "response-temporary.xml": temporary_response.encode(),
}.items():
    (here / name).write_bytes(data)
names = ["root", "model", "device sign", "device encrypt", "server encrypt", "license issuer", "license signer",
         "session point", "session k", "license k"]
(here / "known.json").write_text(json.dumps({
    "scalars": {name: secret(name).to_bytes(32, "big").hex() for name in names},
    "publicKeys": {name: public(name).hex() for name in names},
    "keyID": kid.hex, "otherKeyID": uuid.UUID(bytes_le=fill("kid 2", 16)).hex, "contentKey": key.hex(),
    "integrityKey": integrity.hex(), "nonce": nonce.hex(), "rightsID": fill("rights id", 16).hex(),
    "certificateIDs": {name: fill("id " + name, 16).hex() for name in
                       ["model", "device", "license issuer", "license signer"]},
    "transaction": fill("transaction", 16).hex(),
}, indent=1) + "\n")

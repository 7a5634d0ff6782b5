"""Prints vector.txt: a sealed file and a file of slots, made from the description in file.go and
slots.go alone, with the package cryptography. Run: python3 vector.py > vector.txt"""

import struct

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def derive(key, purpose, salt):
    info = b"headroom " + purpose.encode()
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(key)


def sealed_file(key, name, content, chunk, slot, salt):
    head = b"HRSEAL01" + derive(key, "id", None)[:8]
    head += struct.pack("<IIQ", chunk, slot, len(content)) + salt
    gcm = AESGCM(derive(key, "file", salt))
    count = max(1, -(-len(content) // chunk))
    out = head
    for i in range(count):
        nonce = bytes(3) + struct.pack(">Q", i) + bytes([i == count - 1])
        out += gcm.encrypt(nonce, content[i * chunk:(i + 1) * chunk], head + name)
    return out


def slots(installation, folder, wrapping, salts):
    head = b"HRSLOTS1" + derive(folder, "id", None)[:8]
    gcm = AESGCM(derive(installation, "folder", wrapping))
    out = head + wrapping + gcm.encrypt(bytes(12), folder, head)
    return out.ljust(128, b"\0") + b"".join(salts)


installation = bytes(range(32))
folder = bytes(range(32, 64))
salts = [bytes(range(64, 96)), bytes(32), bytes(range(96, 128))]
content = bytes(i * 7 % 251 for i in range(2500))
entry = derive(folder, "entry", salts[2])
print("slots", slots(installation, folder, bytes(range(128, 160)), salts).hex())
print("file", sealed_file(entry, b"a name", content, 1024, 2, bytes(range(160, 192))).hex())
print("empty", sealed_file(entry, b"", b"", 1024, 0, bytes(range(192, 224))).hex())

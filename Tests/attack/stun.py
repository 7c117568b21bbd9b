"""STUN messages as an attacker or a client makes them (RFC 8489, RFC 8445). Builds anything, right or wrong."""
import hashlib
import hmac
import os
import struct
import zlib

COOKIE = 0x2112A442
REQUEST, SUCCESS, FAILURE = 0x0001, 0x0101, 0x0111


def attribute(kind, value):
    return struct.pack("!HH", kind, len(value)) + value + bytes(-len(value) % 4)


def message(kind, attributes, password=None, transaction=None, fingerprint=True):
    """A message; `password` None: without MESSAGE-INTEGRITY."""
    body = b"".join(attribute(*one) for one in attributes)
    transaction = transaction or os.urandom(12)

    def head(length):
        return struct.pack("!HHI", kind, length, COOKIE) + transaction

    if password is not None:
        mac = hmac.new(password.encode(), head(len(body) + 24) + body, hashlib.sha1).digest()
        body += attribute(0x0008, mac)
    if fingerprint:
        crc = zlib.crc32(head(len(body) + 8) + body) ^ 0x5354554E
        body += attribute(0x8028, struct.pack("!I", crc))
    return head(len(body)) + body


def check(username, password, nominates=True, controlling=True, transaction=None, fingerprint=True, priority=0x7EFFFFFF, more=()):
    """A connectivity check of the client behind `username` (`relay's fragment:client's`)."""
    attributes = [(0x0006, username.encode()), (0x0024, struct.pack("!I", priority))]
    attributes.append((0x802A if controlling else 0x8029, os.urandom(8)))
    if nominates and controlling:
        attributes.append((0x0025, b""))
    return message(REQUEST, [*attributes, *more], password, transaction, fingerprint)


def answer_to(request, password, peer):
    """The client's answer to a check of the relay's."""
    transaction = request[8:20]
    mapped = struct.pack("!BBH", 0, 1, peer[1] ^ (COOKIE >> 16)) + bytes(
        int(part) ^ key for part, key in zip(peer[0].split("."), struct.pack("!I", COOKIE)))
    return message(SUCCESS, [(0x0020, mapped)], password, transaction)


def kind(data):
    return struct.unpack_from("!H", data)[0] if len(data) >= 20 else 0


def error_code(data):
    """The code of an error answer, or None."""
    at = 20
    while at + 4 <= len(data):
        name, length = struct.unpack_from("!HH", data, at)
        if name == 0x0009 and length >= 4:
            return data[at + 6] * 100 + data[at + 7]
        at += 4 + length + (-length % 4)
    return None

// The reference that the relay is measured against: what forwarding costs when nothing is left but the
// kernel, the cipher and one table lookup. Static tables, no RTCP, ICE, timers, statistics or control; must
// not be used as a relay.
#pragma once
#include <stdint.h>

typedef struct limit limit;

/// How much of the work is done.
enum {
    /// L0: datagrams are received, looked up, copied with a new header, and sent. No cipher.
    LIMIT_IO = 0,
    /// L1: and opened and sealed with AES-128-GCM by the best back end of the host.
    LIMIT_CRYPTO = 1,
    /// L1g: and neighbours of equal size to one receiver leave as one message (UDP GSO).
    LIMIT_SEGMENTED = 2,
};

/// A limit loop with a UDP socket of its own on 127.0.0.1 and room for `capacity` participants. NULL: see
/// errno.
limit *limit_create(int level, unsigned capacity);
void limit_destroy(limit *loop);
uint16_t limit_port(const limit *loop);

/// Adds a participant at 127.0.0.1:`port` and returns its number. Keys are SRTP masters of AEAD_AES_128_GCM
/// (16 and 12 bytes): what it sends with, and what it is sent with.
unsigned limit_add(
    limit *loop, uint16_t port, const uint8_t *receive_key, const uint8_t *receive_salt, const uint8_t *send_key,
    const uint8_t *send_salt);
/// Forwards what `from` sends to `to`, as SSRC `ssrc` with `payload_type`.
void limit_connect(limit *loop, unsigned from, unsigned to, uint32_t ssrc, uint8_t payload_type);

/// One turn: receives up to 64 queued datagrams, forwards them, and returns how many were sent.
unsigned limit_step(limit *loop);

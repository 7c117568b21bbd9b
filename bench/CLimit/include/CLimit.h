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
    /// L1g: and packets of equal size to one receiver leave as one message (UDP GSO), a receive batch at a time.
    LIMIT_SEGMENTED = 2,
};

/// A limit loop with a UDP socket of its own on 127.0.0.1 and room for `capacity` participants. NULL: see
/// errno.
limit *limit_create(int level, unsigned capacity);
void limit_destroy(limit *loop);
uint16_t limit_port(const limit *loop);

/// Its socket, readable when `limit_step` has work.
int limit_descriptor(const limit *loop);

/// Adds a participant at `ipv4` (most significant byte first) and `port`, and returns its number. Keys are SRTP masters
/// of AEAD_AES_128_GCM (16 and 12 bytes): what it sends with, and what it is sent with.
unsigned limit_add(
    limit *loop, uint32_t ipv4, uint16_t port, const uint8_t *receive_key, const uint8_t *receive_salt,
    const uint8_t *send_key, const uint8_t *send_salt);
/// Forwards what `from` sends as SSRC `from_ssrc` (at most two a participant) to `to` as well, as SSRC `to_ssrc` with
/// `payload_type`.
void limit_connect(
    limit *loop, unsigned from, uint32_t from_ssrc, unsigned to, uint32_t to_ssrc, uint8_t payload_type);

/// One turn: receives up to 64 queued datagrams, forwards them, and returns how many were sent. `taken` (or NULL) gets
/// how many were received.
unsigned limit_step(limit *loop, unsigned *taken);

/// How a forwarder waits: the relay's `--gather` (Sources/MediaRelay/Worker/GatherPolicy.swift has the same rule).
enum { LIMIT_GATHER_AUTO = 0, LIMIT_GATHER_ON = 1, LIMIT_GATHER_OFF = 2 };
/// Forwards until a signal handler calls `limit_stop`.
void limit_serve(limit *loop, int gather);
void limit_stop(void);

/// Pins a thread of any process (0: the calling one) to a CPU, or lets it have all (-1); gives it SCHED_FIFO 1, or SCHED_OTHER again. Return 0 or -errno.
int limit_pin_thread(int32_t thread, int cpu);
int limit_set_real_time(int32_t thread, int is_real_time);

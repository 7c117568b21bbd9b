// The ciphers and MACs of the packet path, for Swift. Owns key schedules and the choice of the AES-GCM back
// end; refuses every packet format and policy (those are in RelayCore/SRTP). Nothing here allocates per
// operation.
//
// Threads: `mc_init` and `mc_backend*` from any thread. One key object is used by one thread at a time.
#pragma once
#include <stddef.h>
#include <stdint.h>

// AES-GCM back ends. Values are stable: they are stored with keys.
#define MC_BACKEND_NONE 0
/// OpenSSL's EVP with a context kept per key. Always there.
#define MC_BACKEND_EVP 1
/// Intel ipsec-mb, loaded at run time (x86-64 only).
#define MC_BACKEND_IPSEC_MB 2

/// Chooses the back end of keys made without naming one: `preference` when it is available and passes its
/// self-test (RFC 7714 §16.1), else the fastest that does. 0: the fastest. Returns the choice,
/// MC_BACKEND_NONE when even EVP fails.
int mc_init(int preference);
/// The chosen back end; chooses the fastest at the first call when `mc_init` was not called.
int mc_backend(void);
/// 1 when `backend` can be used on this host (loaded and proven), else 0.
int mc_backend_available(int backend);
/// "ipsec-mb", "openssl-evp" or "none": the chosen back end.
const char *mc_backend_name(void);

// AES-128-GCM, 96-bit IV given as two integers (its first eight bytes and its last four, read big-endian),
// 16-byte tag.

typedef struct mc_gcm_key mc_gcm_key;
#define MC_GCM_TAG_BYTES 16
/// Expands a 16-byte key on a back end (0: the chosen one). NULL when memory is out or the back end is not
/// available.
mc_gcm_key *mc_gcm_create(int backend, const uint8_t *key);
/// Zeroes and frees. NULL is ignored.
void mc_gcm_destroy(mc_gcm_key *key);
/// Encrypts `count` bytes from `source` to `target` (the same or disjoint) and writes the tag.
void mc_gcm_seal(
    mc_gcm_key *key, uint64_t iv_high, uint32_t iv_low, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, uint8_t *tag);
/// Decrypts and verifies: 0, or -1 when the tag is wrong (compared in constant time); then `target` is
/// undefined.
int mc_gcm_open(
    mc_gcm_key *key, uint64_t iv_high, uint32_t iv_low, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, const uint8_t *tag);
/// The same with a raw 16-byte key that is expanded for this one use and forgotten: for rare packets (SRTCP),
/// whose schedules would cost 1 KB each. A few hundred nanoseconds more. Thread-local scratch, so any thread.
void mc_gcm_seal_raw(
    int backend, const uint8_t *key, uint64_t iv_high, uint32_t iv_low, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, uint8_t *tag);
int mc_gcm_open_raw(
    int backend, const uint8_t *key, uint64_t iv_high, uint32_t iv_low, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, const uint8_t *tag);

/// Asks for a cache line that will soon be read. A hint.
static inline void mc_prefetch(const void *address) { __builtin_prefetch(address); }
/// Asks for what a packet of a key that was not used lately needs first: round keys and the low powers of the hash key.
static inline void mc_gcm_prefetch(const mc_gcm_key *key) {
    const char *lines = (const char *)((uintptr_t)key & ~(uintptr_t)63);
    for (int line = 0; line < 3; line++) __builtin_prefetch(lines + 64 * line);
    for (int line = 12; line < 16; line++) __builtin_prefetch(lines + 64 * line);
}

// AES-128 in counter mode with HMAC-SHA1 (AES_CM_128_HMAC_SHA1_80). The IV is the first counter block as two
// integers.

typedef struct mc_cm_key mc_cm_key;
/// Expands a 16-byte cipher key and a 20-byte authentication key. NULL when memory is out.
mc_cm_key *mc_cm_create(const uint8_t *cipher_key, const uint8_t *auth_key);
void mc_cm_destroy(mc_cm_key *key);
/// XORs the key stream onto `count` bytes from `source` to `target` (the same or disjoint).
void mc_cm_crypt(
    mc_cm_key *key, uint64_t iv_high, uint64_t iv_low, const uint8_t *source, size_t count, uint8_t *target);
/// HMAC-SHA1 of two segments one after the other: 20 bytes.
void mc_cm_mac(
    const mc_cm_key *key, const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count, uint8_t *mac);
/// Counter mode with a raw 16-byte key, expanded for this one use.
void mc_cm_crypt_raw(
    const uint8_t *cipher_key, uint64_t iv_high, uint64_t iv_low, const uint8_t *source, size_t count,
    uint8_t *target);

/// SRTP key derivation with AES-CM, key derivation rate 0 (RFC 3711 §4.3): `count` bytes for `label` from a
/// 16-byte master key and a salt of up to 14 bytes (shorter ones are padded with zeros, RFC 7714 §11).
void mc_srtp_kdf(
    const uint8_t *master_key, const uint8_t *salt, size_t salt_count, uint8_t label, uint8_t *out,
    size_t count);

// MACs and helpers.

/// HMAC-SHA1 over up to three segments (unused ones: count 0). Writes 20 bytes.
void mc_hmac_sha1_segments(
    const uint8_t *key, size_t key_count, const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count,
    const uint8_t *c, size_t c_count, uint8_t *mac);
/// HMAC-SHA256. Writes 32 bytes.
void mc_hmac_sha256(
    const uint8_t *key, size_t key_count, const uint8_t *data, size_t count, uint8_t *mac);
/// 1 when both have the same `count` bytes; takes the same time whatever they hold.
int mc_equal(const uint8_t *a, const uint8_t *b, size_t count);
/// Zeroes memory in a way that no optimizer removes.
void mc_wipe(void *bytes, size_t count);
/// Zeroes and frees memory that malloc or posix_memalign gave.
void mc_wipe_free(void *bytes, size_t count);

/// Writes two words, `count` bytes of `source` behind them and zeros up to the next multiple of 64 to `target`, which is a
/// multiple of 64, past the caches: for what is seldom read again. Whole lines only, so that none has to be fetched first.
static inline void mc_store_past_cache(
    void *target, uint64_t first, uint64_t second, const void *source, size_t count) {
    typedef uint64_t pair __attribute__((vector_size(16)));
    pair *out = (pair *)target, *line;
    const char *in = (const char *)source;
    pair words = {first, second};
    __builtin_nontemporal_store(words, out++);
    for (; count >= 16; count -= 16, in += 16) {
        __builtin_memcpy(&words, in, 16);
        __builtin_nontemporal_store(words, out++);
    }
    if (count > 0) {
        words = (pair){0, 0};
        __builtin_memcpy(&words, in, count);
        __builtin_nontemporal_store(words, out++);
    }
    line = (pair *)(((uintptr_t)out + 63) & ~(uintptr_t)63);
    for (words = (pair){0, 0}; out < line; out++) __builtin_nontemporal_store(words, out);
}

// Shared by the .c files of this target only.
#pragma once
#include <openssl/evp.h>

#include "CMediaCrypto.h"

#define MC_GCM_SCHEDULE_BYTES 1008

// Key material of one GCM key: ipsec-mb's schedule, or EVP's context. It lies at a multiple of 64 bytes, and the
// handle that callers hold carries the back end in the bits that are free because of that: so a packet never has to
// fetch the end of the schedule only to learn whose it is.
union mc_gcm_state {
    uint8_t schedule[MC_GCM_SCHEDULE_BYTES];
    EVP_CIPHER_CTX *context;
};

static inline union mc_gcm_state *mc_gcm_state_of(const mc_gcm_key *key) {
    return (union mc_gcm_state *)((uintptr_t)key & ~(uintptr_t)63);
}
static inline int mc_gcm_backend_of(const mc_gcm_key *key) { return (int)((uintptr_t)key & 63); }

static inline void mc_put64(uint8_t *out, uint64_t value) {
    value = __builtin_bswap64(value);
    __builtin_memcpy(out, &value, 8);
}
static inline void mc_put32(uint8_t *out, uint32_t value) {
    value = __builtin_bswap32(value);
    __builtin_memcpy(out, &value, 4);
}
static inline void mc_gcm_iv(uint8_t iv[12], uint64_t high, uint32_t low) {
    mc_put64(iv, high);
    mc_put32(iv + 8, low);
}

// IPsecMB.c
int mc_mb_load(void);
void mc_mb_expand(const uint8_t *key, uint8_t *schedule);
void mc_mb_seal(
    const uint8_t *schedule, const uint8_t *iv, const uint8_t *aad, size_t aad_count, const uint8_t *source,
    size_t count, uint8_t *target, uint8_t *tag);
void mc_mb_decrypt(
    const uint8_t *schedule, const uint8_t *iv, const uint8_t *aad, size_t aad_count, const uint8_t *source,
    size_t count, uint8_t *target, uint8_t *tag);

// EVP.c
int mc_evp_load(void);
EVP_CIPHER_CTX *mc_evp_gcm_create(const uint8_t *key);
void mc_evp_gcm_seal(
    EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, uint8_t *tag);
int mc_evp_gcm_open(
    EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, const uint8_t *tag);
EVP_CIPHER_CTX *mc_evp_ctr_create(const uint8_t *key);
void mc_evp_ctr_crypt(
    EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *source, size_t count,
    uint8_t *target);
// Contexts of this thread that raw keys are loaded into; freed when the thread ends.
EVP_CIPHER_CTX *mc_evp_scratch_gcm(void);
EVP_CIPHER_CTX *mc_evp_scratch_ctr(void);

// Stops the process: a call into the crypto library failed that cannot fail with valid arguments (memory is
// out, or the program is broken). Going on would send or accept bytes that nobody protected.
_Noreturn void mc_broken(const char *what);

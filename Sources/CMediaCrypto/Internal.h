// Shared by the .c files of this target only.
#pragma once
#include <openssl/evp.h>

#include "CMediaCrypto.h"

#define MC_GCM_SCHEDULE_BYTES 1008

// Key material of one GCM key. ipsec-mb wants its schedule at a multiple of 64 bytes; EVP keeps its own
// context.
struct mc_gcm_key {
    union {
        uint8_t schedule[MC_GCM_SCHEDULE_BYTES];
        EVP_CIPHER_CTX *context;
    } state;
    int backend;
};

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

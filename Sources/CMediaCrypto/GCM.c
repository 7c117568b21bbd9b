// The AES-GCM keys and the choice of their back end.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "Internal.h"

static pthread_once_t probed = PTHREAD_ONCE_INIT;
static int available[3];
static atomic_int chosen;

static mc_gcm_key *create_unchecked(int backend, const uint8_t *key);

// RFC 7714 §16.1: session key, IV, header, "Gallia est omnis divisa in partes tres", and what they give.
static int self_test(int backend) {
    static const uint8_t key[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static const uint8_t header[12] = {
        0x80, 0x40, 0xf1, 0x7b, 0x80, 0x41, 0xf8, 0xd3, 0x55, 0x01, 0xa0, 0xb2};
    static const uint8_t plain[] = "Gallia est omnis divisa in partes tres";
    static const uint8_t sealed[54] = {
        0xf2, 0x4d, 0xe3, 0xa3, 0xfb, 0x34, 0xde, 0x6c, 0xac, 0xba, 0x86, 0x1c, 0x9d, 0x7e,
        0x4b, 0xca, 0xbe, 0x63, 0x3b, 0xd5, 0x0d, 0x29, 0x4e, 0x6f, 0x42, 0xa5, 0xf4, 0x7a,
        0x51, 0xc7, 0xd1, 0x9b, 0x36, 0xde, 0x3a, 0xdf, 0x88, 0x33, 0x89, 0x9d, 0x7f, 0x27,
        0xbe, 0xb1, 0x6a, 0x91, 0x52, 0xcf, 0x76, 0x5e, 0xe4, 0x39, 0x0c, 0xce};
    const uint64_t iv_high = 0x51753c6580c2726fULL;
    const uint32_t iv_low = 0x20718414;
    uint8_t out[38], tag[MC_GCM_TAG_BYTES];

    mc_gcm_key *expanded = create_unchecked(backend, key);
    if (!expanded) return 0;
    mc_gcm_seal(expanded, iv_high, iv_low, header, 12, plain, 38, out, tag);
    int good = memcmp(out, sealed, 38) == 0 && memcmp(tag, sealed + 38, 16) == 0;
    good = good && mc_gcm_open(expanded, iv_high, iv_low, header, 12, sealed, 38, out, sealed + 38) == 0
        && memcmp(out, plain, 38) == 0;
    tag[15] ^= 1;
    good = good && mc_gcm_open(expanded, iv_high, iv_low, header, 12, sealed, 38, out, tag) == -1;
    mc_gcm_destroy(expanded);
    return good;
}

static void probe(void) {
    if (mc_evp_load()) available[MC_BACKEND_EVP] = self_test(MC_BACKEND_EVP);
    if (mc_mb_load()) available[MC_BACKEND_IPSEC_MB] = self_test(MC_BACKEND_IPSEC_MB);
}

int mc_backend_available(int backend) {
    pthread_once(&probed, probe);
    return backend > 0 && backend < 3 && available[backend];
}

int mc_init(int preference) {
    int choice = MC_BACKEND_NONE;
    if (mc_backend_available(preference)) choice = preference;
    else if (mc_backend_available(MC_BACKEND_IPSEC_MB)) choice = MC_BACKEND_IPSEC_MB;
    else if (mc_backend_available(MC_BACKEND_EVP)) choice = MC_BACKEND_EVP;
    atomic_store(&chosen, choice);
    return choice;
}

int mc_backend(void) {
    int choice = atomic_load_explicit(&chosen, memory_order_relaxed);
    return choice ? choice : mc_init(MC_BACKEND_NONE);
}

const char *mc_backend_name(void) {
    switch (mc_backend()) {
    case MC_BACKEND_IPSEC_MB: return "ipsec-mb";
    case MC_BACKEND_EVP: return "openssl-evp";
    default: return "none";
    }
}

static mc_gcm_key *create_unchecked(int backend, const uint8_t *key) {
    void *memory;
    if (posix_memalign(&memory, 64, sizeof(union mc_gcm_state)) != 0) return NULL;
    union mc_gcm_state *state = memory;
    if (backend == MC_BACKEND_IPSEC_MB) {
        mc_mb_expand(key, state->schedule);
    } else if (!(state->context = mc_evp_gcm_create(key))) {
        free(state);
        return NULL;
    }
    return (mc_gcm_key *)((uintptr_t)memory | (uintptr_t)backend);
}

mc_gcm_key *mc_gcm_create(int backend, const uint8_t *key) {
    if (backend == MC_BACKEND_NONE) backend = mc_backend();
    return mc_backend_available(backend) ? create_unchecked(backend, key) : NULL;
}

void mc_gcm_destroy(mc_gcm_key *key) {
    if (!key) return;
    union mc_gcm_state *state = mc_gcm_state_of(key);
    if (mc_gcm_backend_of(key) == MC_BACKEND_EVP) EVP_CIPHER_CTX_free(state->context);
    mc_wipe_free(state, sizeof *state);
}

void mc_gcm_seal(
    mc_gcm_key *key, uint64_t iv_high, uint32_t iv_low, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, uint8_t *tag) {
    uint8_t iv[12];
    mc_gcm_iv(iv, iv_high, iv_low);
    if (mc_gcm_backend_of(key) == MC_BACKEND_IPSEC_MB)
        mc_mb_seal(mc_gcm_state_of(key)->schedule, iv, aad, aad_count, source, count, target, tag);
    else
        mc_evp_gcm_seal(mc_gcm_state_of(key)->context, NULL, iv, aad, aad_count, source, count, target, tag);
}

int mc_gcm_open(
    mc_gcm_key *key, uint64_t iv_high, uint32_t iv_low, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, const uint8_t *tag) {
    uint8_t iv[12], computed[MC_GCM_TAG_BYTES];
    mc_gcm_iv(iv, iv_high, iv_low);
    if (mc_gcm_backend_of(key) == MC_BACKEND_IPSEC_MB) {
        mc_mb_decrypt(mc_gcm_state_of(key)->schedule, iv, aad, aad_count, source, count, target, computed);
        return mc_equal(computed, tag, MC_GCM_TAG_BYTES) ? 0 : -1;
    }
    return mc_evp_gcm_open(mc_gcm_state_of(key)->context, NULL, iv, aad, aad_count, source, count, target, tag);
}

void mc_gcm_seal_raw(
    int backend, const uint8_t *key, uint64_t iv_high, uint32_t iv_low, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, uint8_t *tag) {
    uint8_t iv[12];
    mc_gcm_iv(iv, iv_high, iv_low);
    if (backend == MC_BACKEND_IPSEC_MB) {
        _Alignas(64) uint8_t schedule[MC_GCM_SCHEDULE_BYTES];
        mc_mb_expand(key, schedule);
        mc_mb_seal(schedule, iv, aad, aad_count, source, count, target, tag);
        mc_wipe(schedule, sizeof schedule);
    } else {
        mc_evp_gcm_seal(mc_evp_scratch_gcm(), key, iv, aad, aad_count, source, count, target, tag);
    }
}

int mc_gcm_open_raw(
    int backend, const uint8_t *key, uint64_t iv_high, uint32_t iv_low, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, const uint8_t *tag) {
    uint8_t iv[12], computed[MC_GCM_TAG_BYTES];
    mc_gcm_iv(iv, iv_high, iv_low);
    if (backend == MC_BACKEND_IPSEC_MB) {
        _Alignas(64) uint8_t schedule[MC_GCM_SCHEDULE_BYTES];
        mc_mb_expand(key, schedule);
        mc_mb_decrypt(schedule, iv, aad, aad_count, source, count, target, computed);
        mc_wipe(schedule, sizeof schedule);
        return mc_equal(computed, tag, MC_GCM_TAG_BYTES) ? 0 : -1;
    }
    return mc_evp_gcm_open(mc_evp_scratch_gcm(), key, iv, aad, aad_count, source, count, target, tag);
}

// Counter mode with HMAC-SHA1, the SRTP key derivation, HMACs and constant-time helpers. SHA contexts are
// used directly: OpenSSL 3 deprecates them in favour of EVP_MAC, which costs three times as much for a short
// packet and allocates.
#define OPENSSL_SUPPRESS_DEPRECATED 1
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "Internal.h"

struct mc_cm_key {
    EVP_CIPHER_CTX *context;
    // States after the inner and the outer padded key: copied for every packet.
    SHA_CTX inner, outer;
};

static void hmac_sha1_begin(SHA_CTX *inner, SHA_CTX *outer, const uint8_t *key, size_t key_count) {
    uint8_t block[64] = {0};
    if (key_count > 64) {
        SHA1_Init(inner);
        SHA1_Update(inner, key, key_count);
        SHA1_Final(block, inner);
    } else if (key_count) {
        memcpy(block, key, key_count);
    }
    for (int i = 0; i < 64; i++) block[i] ^= 0x36;
    SHA1_Init(inner);
    SHA1_Update(inner, block, 64);
    for (int i = 0; i < 64; i++) block[i] ^= 0x36 ^ 0x5c;
    SHA1_Init(outer);
    SHA1_Update(outer, block, 64);
    mc_wipe(block, sizeof block);
}

static void hmac_sha1_end(SHA_CTX *inner, SHA_CTX *outer, uint8_t *mac) {
    SHA1_Final(mac, inner);
    SHA1_Update(outer, mac, 20);
    SHA1_Final(mac, outer);
}

static void iv_bytes(uint8_t iv[16], uint64_t high, uint64_t low) {
    mc_put64(iv, high);
    mc_put64(iv + 8, low);
}

mc_cm_key *mc_cm_create(const uint8_t *cipher_key, const uint8_t *auth_key) {
    if (!mc_backend_available(MC_BACKEND_EVP)) return NULL;
    mc_cm_key *created = malloc(sizeof *created);
    if (!created) return NULL;
    created->context = mc_evp_ctr_create(cipher_key);
    if (!created->context) {
        free(created);
        return NULL;
    }
    hmac_sha1_begin(&created->inner, &created->outer, auth_key, 20);
    return created;
}

void mc_cm_destroy(mc_cm_key *key) {
    if (!key) return;
    EVP_CIPHER_CTX_free(key->context);
    mc_wipe_free(key, sizeof *key);
}

void mc_cm_crypt(
    mc_cm_key *key, uint64_t iv_high, uint64_t iv_low, const uint8_t *source, size_t count, uint8_t *target) {
    uint8_t iv[16];
    iv_bytes(iv, iv_high, iv_low);
    mc_evp_ctr_crypt(key->context, NULL, iv, source, count, target);
}

void mc_cm_mac(
    const mc_cm_key *key, const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count, uint8_t *mac) {
    SHA_CTX inner = key->inner, outer = key->outer;
    SHA1_Update(&inner, a, a_count);
    SHA1_Update(&inner, b, b_count);
    hmac_sha1_end(&inner, &outer, mac);
}

void mc_cm_crypt_raw(
    const uint8_t *cipher_key, uint64_t iv_high, uint64_t iv_low, const uint8_t *source, size_t count,
    uint8_t *target) {
    if (!mc_backend_available(MC_BACKEND_EVP)) mc_broken("OpenSSL has no AES-CTR");
    uint8_t iv[16];
    iv_bytes(iv, iv_high, iv_low);
    mc_evp_ctr_crypt(mc_evp_scratch_ctr(), cipher_key, iv, source, count, target);
}

void mc_srtp_kdf(
    const uint8_t *master_key, const uint8_t *salt, size_t salt_count, uint8_t label, uint8_t *out,
    size_t count) {
    if (!mc_backend_available(MC_BACKEND_EVP) || salt_count > 14) mc_broken("SRTP key derivation failed");
    uint8_t iv[16] = {0};
    memcpy(iv, salt, salt_count);
    iv[7] ^= label;
    memset(out, 0, count);
    mc_evp_ctr_crypt(mc_evp_scratch_ctr(), master_key, iv, out, count, out);
}

void mc_hmac_sha1_segments(
    const uint8_t *key, size_t key_count, const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count,
    const uint8_t *c, size_t c_count, uint8_t *mac) {
    SHA_CTX inner, outer;
    hmac_sha1_begin(&inner, &outer, key, key_count);
    if (a_count) SHA1_Update(&inner, a, a_count);
    if (b_count) SHA1_Update(&inner, b, b_count);
    if (c_count) SHA1_Update(&inner, c, c_count);
    hmac_sha1_end(&inner, &outer, mac);
    mc_wipe(&inner, sizeof inner);
    mc_wipe(&outer, sizeof outer);
}

void mc_hmac_sha256(
    const uint8_t *key, size_t key_count, const uint8_t *data, size_t count, uint8_t *mac) {
    uint8_t block[64] = {0};
    SHA256_CTX state;
    if (key_count > 64) SHA256(key, key_count, block);
    else if (key_count) memcpy(block, key, key_count);
    for (int i = 0; i < 64; i++) block[i] ^= 0x36;
    SHA256_Init(&state);
    SHA256_Update(&state, block, 64);
    if (count) SHA256_Update(&state, data, count);
    SHA256_Final(mac, &state);
    for (int i = 0; i < 64; i++) block[i] ^= 0x36 ^ 0x5c;
    SHA256_Init(&state);
    SHA256_Update(&state, block, 64);
    SHA256_Update(&state, mac, 32);
    SHA256_Final(mac, &state);
    mc_wipe(&state, sizeof state);
    mc_wipe(block, sizeof block);
}

int mc_equal(const uint8_t *a, const uint8_t *b, size_t count) { return CRYPTO_memcmp(a, b, count) == 0; }

void mc_wipe(void *bytes, size_t count) { OPENSSL_cleanse(bytes, count); }

void mc_wipe_free(void *bytes, size_t count) {
    if (!bytes) return;
    OPENSSL_cleanse(bytes, count);
    free(bytes);
}

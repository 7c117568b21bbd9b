// AES-128-GCM and AES-128-CTR by OpenSSL's EVP: contexts are made once per key and only get a new IV per
// packet, ciphers are fetched once per process.
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "Internal.h"

static EVP_CIPHER *gcm, *ctr;
static pthread_key_t scratch_key;

struct scratch {
    EVP_CIPHER_CTX *gcm, *ctr;
};

_Noreturn void mc_broken(const char *what) {
    fprintf(stderr, "media crypto: %s\n", what);
    abort();
}

static void free_scratch(void *pointer) {
    struct scratch *scratch = pointer;
    EVP_CIPHER_CTX_free(scratch->gcm);
    EVP_CIPHER_CTX_free(scratch->ctr);
    free(scratch);
}

int mc_evp_load(void) {
    gcm = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
    ctr = EVP_CIPHER_fetch(NULL, "AES-128-CTR", NULL);
    return gcm && ctr && pthread_key_create(&scratch_key, free_scratch) == 0;
}

static EVP_CIPHER_CTX *create(EVP_CIPHER *cipher, const uint8_t *key) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (context && EVP_EncryptInit_ex(context, cipher, NULL, key, NULL) == 1) return context;
    EVP_CIPHER_CTX_free(context);
    return NULL;
}

static struct scratch *scratch(void) {
    struct scratch *mine = pthread_getspecific(scratch_key);
    if (mine) return mine;
    mine = calloc(1, sizeof *mine);
    if (!mine) mc_broken("out of memory");
    mine->gcm = create(gcm, NULL);
    mine->ctr = create(ctr, NULL);
    if (!mine->gcm || !mine->ctr || pthread_setspecific(scratch_key, mine) != 0) mc_broken("out of memory");
    return mine;
}

EVP_CIPHER_CTX *mc_evp_scratch_gcm(void) { return scratch()->gcm; }
EVP_CIPHER_CTX *mc_evp_scratch_ctr(void) { return scratch()->ctr; }

EVP_CIPHER_CTX *mc_evp_gcm_create(const uint8_t *key) { return create(gcm, key); }
EVP_CIPHER_CTX *mc_evp_ctr_create(const uint8_t *key) { return create(ctr, key); }

void mc_evp_gcm_seal(
    EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, uint8_t *tag) {
    OSSL_PARAM get_tag[2] = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, tag, MC_GCM_TAG_BYTES),
        OSSL_PARAM_construct_end()};
    if (EVP_CipherInit_ex(context, NULL, NULL, key, iv, 1) != 1
        || (aad_count && EVP_Cipher(context, NULL, aad, (unsigned)aad_count) < 0)
        || (count && EVP_Cipher(context, target, source, (unsigned)count) < 0)
        || EVP_Cipher(context, NULL, NULL, 0) < 0 || EVP_CIPHER_CTX_get_params(context, get_tag) != 1)
        mc_broken("AES-GCM encryption failed");
}

int mc_evp_gcm_open(
    EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_count,
    const uint8_t *source, size_t count, uint8_t *target, const uint8_t *tag) {
    // The parameter is only read, in spite of its type.
    OSSL_PARAM set_tag[2] = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, (void *)tag, MC_GCM_TAG_BYTES),
        OSSL_PARAM_construct_end()};
    if (EVP_CipherInit_ex(context, NULL, NULL, key, iv, 0) != 1
        || EVP_CIPHER_CTX_set_params(context, set_tag) != 1
        || (aad_count && EVP_Cipher(context, NULL, aad, (unsigned)aad_count) < 0)
        || (count && EVP_Cipher(context, target, source, (unsigned)count) < 0))
        mc_broken("AES-GCM decryption failed");
    return EVP_Cipher(context, NULL, NULL, 0) < 0 ? -1 : 0;
}

void mc_evp_ctr_crypt(
    EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *source, size_t count,
    uint8_t *target) {
    if (EVP_CipherInit_ex(context, NULL, NULL, key, iv, 1) != 1
        || (count && EVP_Cipher(context, target, source, (unsigned)count) < 0))
        mc_broken("AES-CTR failed");
}

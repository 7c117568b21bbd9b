// OpenSSL 3 for Swift. Macros and variadic calls that Swift cannot import stand here as static inline functions.
#pragma once
// Engines are deprecated: `COpenSSL_decode_ec_keys_directly` needs one, and is nothing where they are gone.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/engine.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/srtp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>

// DTLS: how the relay's one server context and the tests' client contexts are set up.

/// No session tickets, no path MTU questions to the BIO, no renegotiation, no compression.
static inline void COpenSSL_CTX_set_dtls_options(SSL_CTX *ctx) {
    SSL_CTX_set_options(
        ctx, SSL_OP_NO_TICKET | SSL_OP_NO_QUERY_MTU | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION
                 | SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
}
static inline int COpenSSL_CTX_set_dtls12_only(SSL_CTX *ctx) {
    return SSL_CTX_set_min_proto_version(ctx, DTLS1_2_VERSION) == 1
        && SSL_CTX_set_max_proto_version(ctx, DTLS1_2_VERSION) == 1;
}
static inline void COpenSSL_CTX_set_max_cert_list(SSL_CTX *ctx, long count) {
    (void)SSL_CTX_set_max_cert_list(ctx, count);
}
static inline void COpenSSL_set_mtu(SSL *ssl, long count) { (void)SSL_set_mtu(ssl, count); }
static inline int COpenSSL_BIO_reset(BIO *bio) { return BIO_reset(bio); }
static inline EVP_PKEY *COpenSSL_P256_keygen(void) { return EVP_EC_gen("P-256"); }
static inline int COpenSSL_ERR_reason(unsigned long error) { return ERR_GET_REASON(error); }

#if !defined(OPENSSL_NO_ENGINE) && OPENSSL_VERSION_NUMBER < 0x30200000L
static inline int COpenSSL_ec_methods(ENGINE *engine, EVP_PKEY_METHOD **method, const int **kinds, int kind) {
    static const int ours[] = {EVP_PKEY_EC};
    (void)engine;
    if (!method) {
        *kinds = ours;
        return 1;
    }
    *method = kind == EVP_PKEY_EC ? (EVP_PKEY_METHOD *)(uintptr_t)EVP_PKEY_meth_find(EVP_PKEY_EC) : NULL;
    return *method != NULL;
}
#endif

/// Public keys on elliptic curves, as in the certificate of each DTLS client, are read by OpenSSL's own reader at once. Before 3.2
/// it gathers every decoder of every provider for each of them, which is a third of a handshake; keys that an engine might want
/// take the direct way, and this is an engine that has nothing but OpenSSL's own methods. It holds for the whole process, and keys
/// that are made afterwards are of the old kind, so: once, behind all keys of one's own. Returns 1 where it was needed and is done.
static inline int COpenSSL_decode_ec_keys_directly(void) {
#if !defined(OPENSSL_NO_ENGINE) && OPENSSL_VERSION_NUMBER < 0x30200000L
    if (OPENSSL_version_major() == 3 && OPENSSL_version_minor() < 2) {
        ENGINE *engine = ENGINE_new();
        return engine && ENGINE_set_id(engine, "ec-direct") && ENGINE_set_name(engine, "EC keys, read directly")
            && ENGINE_set_pkey_meths(engine, COpenSSL_ec_methods) && ENGINE_register_pkey_meths(engine);
    }
#endif
    return 0;
}

/// The key block of a finished TLS 1.2 handshake with a SHA-256 suite (RFC 5246 §6.3). In C because parameters keep the
/// pointers they are given. 1 on success.
static inline int COpenSSL_tls12_key_block(SSL *ssl, unsigned char *block, size_t count) {
    static const char label[] = "key expansion";
    unsigned char master[SSL_MAX_MASTER_KEY_LENGTH];
    unsigned char seed[sizeof label - 1 + 2 * SSL3_RANDOM_SIZE];
    char digest[] = "SHA256";
    int derived = 0;
    SSL_SESSION *session = SSL_get_session(ssl);
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS1-PRF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    size_t length = session ? SSL_SESSION_get_master_key(session, master, sizeof master) : 0;
    if (context && length > 0) {
        memcpy(seed, label, sizeof label - 1);
        SSL_get_server_random(ssl, seed + sizeof label - 1, SSL3_RANDOM_SIZE);
        SSL_get_client_random(ssl, seed + sizeof label - 1 + SSL3_RANDOM_SIZE, SSL3_RANDOM_SIZE);
        OSSL_PARAM parameters[] = {
            OSSL_PARAM_construct_utf8_string("digest", digest, 0),
            OSSL_PARAM_construct_octet_string("secret", master, length),
            OSSL_PARAM_construct_octet_string("seed", seed, sizeof seed), OSSL_PARAM_construct_end()};
        derived = EVP_KDF_derive(context, block, count, parameters) == 1;
    }
    OPENSSL_cleanse(master, sizeof master);
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    return derived;
}

/// For tests: a P-256 key with the public half of one pair and the private half of another, so that it fits a certificate
/// but its signatures do not verify. In C because the builder keeps the pointers it is given. Null on failure.
static inline EVP_PKEY *COpenSSL_P256_mixed(EVP_PKEY *public_half, EVP_PKEY *private_half) {
    unsigned char point[133];
    size_t count = 0;
    BIGNUM *number = NULL;
    EVP_PKEY *key = NULL;
    OSSL_PARAM *parameters = NULL;
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    if (builder && context && EVP_PKEY_get_octet_string_param(public_half, "pub", point, sizeof point, &count)
        && EVP_PKEY_get_bn_param(private_half, "priv", &number)
        && OSSL_PARAM_BLD_push_utf8_string(builder, "group", "prime256v1", 0)
        && OSSL_PARAM_BLD_push_octet_string(builder, "pub", point, count)
        && OSSL_PARAM_BLD_push_BN(builder, "priv", number)
        && (parameters = OSSL_PARAM_BLD_to_param(builder)) && EVP_PKEY_fromdata_init(context) == 1)
        (void)EVP_PKEY_fromdata(context, &key, EVP_PKEY_KEYPAIR, parameters);
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    EVP_PKEY_CTX_free(context);
    BN_free(number);
    return key;
}

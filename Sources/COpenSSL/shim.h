// OpenSSL 3 for Swift. Macros and variadic calls that Swift cannot import stand here as static inline functions.
#pragma once
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/srtp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

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
static inline int COpenSSL_PKEY_fromdata_keypair(EVP_PKEY_CTX *ctx, EVP_PKEY **key, OSSL_PARAM *parameters) {
    return EVP_PKEY_fromdata(ctx, key, EVP_PKEY_KEYPAIR, parameters);
}

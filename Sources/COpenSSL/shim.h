/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_COPENSSL_H
#define LATCHKEY_COPENSSL_H

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

/* Macros that Swift does not see. */
enum { LATCHKEY_PKEY_KEYPAIR = EVP_PKEY_KEYPAIR, LATCHKEY_PKEY_PUBLIC_KEY = EVP_PKEY_PUBLIC_KEY };

/* OpenSSL keeps pointers to the names and values of its parameters, which Swift's strings would not outlive. */

/* HKDF with SHA-256 (RFC 5869). 1 where `size` bytes were made. */
static inline int latchkey_hkdf_sha256(
    unsigned char *output, size_t size, const unsigned char *secret, size_t secret_size, const unsigned char *salt,
    size_t salt_size, const unsigned char *info, size_t info_size)
{
    EVP_KDF *algorithm = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
    EVP_KDF_CTX *context = algorithm ? EVP_KDF_CTX_new(algorithm) : NULL;
    OSSL_PARAM parameters[5], *next = parameters;
    *next++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0);
    *next++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret, secret_size);
    *next++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)info, info_size);
    if (salt_size > 0)
        *next++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt, salt_size);
    *next = OSSL_PARAM_construct_end();
    int is_done = context && EVP_KDF_derive(context, output, size, parameters) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(algorithm);
    return is_done;
}

/* A context for HMAC with SHA-256 under this key; null where it cannot be made. */
static inline EVP_MAC_CTX *latchkey_hmac_sha256(const unsigned char *key, size_t size)
{
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, OSSL_MAC_NAME_HMAC, NULL);
    EVP_MAC_CTX *context = algorithm ? EVP_MAC_CTX_new(algorithm) : NULL;
    OSSL_PARAM parameters[2] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC_free(algorithm);
    if (context && EVP_MAC_init(context, key, size, parameters) == 1)
        return context;
    EVP_MAC_CTX_free(context);
    return NULL;
}

#endif

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
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <openssl/store.h>
#include <openssl/x509.h>
#ifndef OPENSSL_NO_ENGINE
#include <openssl/engine.h>
#endif
#include <openssl/ui.h>

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

#pragma GCC diagnostic push
/* Engines are on their way out, and Debian 12 has nothing else. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static inline EVP_PKEY *latchkey_engine_private_key(const char *uri)
{
    EVP_PKEY *key = NULL;
#ifndef OPENSSL_NO_ENGINE
    ENGINE *engine = ENGINE_by_id("pkcs11");
    if (engine && ENGINE_init(engine)) {
        key = ENGINE_load_private_key(engine, uri, (UI_METHOD *)UI_null(), NULL);
        ENGINE_finish(engine);
    }
    ENGINE_free(engine);
#endif
    return key;
}

#pragma GCC diagnostic pop

/* The private key that a PKCS #11 URI names: by the provider where there is one, else by the engine. Never asks a
 * terminal for a PIN. Null where it cannot be had. */
static inline EVP_PKEY *latchkey_token_private_key(const char *uri)
{
    /* Loaded by name, a provider would otherwise switch the built-in ones off. They come first: a token in software calls
     * OpenSSL itself, and must not end up in the provider that is waiting for it. */
    OSSL_PROVIDER_load(NULL, "default");
    if (!OSSL_PROVIDER_try_load(NULL, "pkcs11", 1)) {
        ERR_clear_error();
        return latchkey_engine_private_key(uri);
    }
    EVP_PKEY *key = NULL;
    OSSL_STORE_CTX *store = OSSL_STORE_open(uri, UI_null(), NULL, NULL, NULL);
    if (store)
        OSSL_STORE_expect(store, OSSL_STORE_INFO_PKEY);
    while (store && !key && !OSSL_STORE_eof(store)) {
        OSSL_STORE_INFO *info = OSSL_STORE_load(store);
        if (!info)
            break;
        key = OSSL_STORE_INFO_get1_PKEY(info);
        OSSL_STORE_INFO_free(info);
    }
    OSSL_STORE_close(store);
    return key;
}

#endif

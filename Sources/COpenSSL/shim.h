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
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

/* Macros that Swift does not see. */
enum { LATCHKEY_PKEY_KEYPAIR = EVP_PKEY_KEYPAIR, LATCHKEY_PKEY_PUBLIC_KEY = EVP_PKEY_PUBLIC_KEY };

#endif

/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CGCRYPT_H
#define LATCHKEY_CGCRYPT_H

#define GCRYPT_NO_DEPRECATED
#include <gcrypt.h>

#endif

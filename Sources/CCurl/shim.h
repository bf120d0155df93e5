/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CCURL_H
#define LATCHKEY_CCURL_H

#include <curl/curl.h>

#endif

/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CCURL_H
#define LATCHKEY_CCURL_H

#include <curl/curl.h>

/* Swift cannot call variadic functions. One function for each type that an option takes. */

static inline CURLcode latchkey_curl_set_long(CURL *handle, CURLoption option, long value)
{
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode latchkey_curl_set_offset(CURL *handle, CURLoption option, curl_off_t value)
{
    return curl_easy_setopt(handle, option, value);
}

/* libcurl copies the string. */
static inline CURLcode latchkey_curl_set_string(CURL *handle, CURLoption option, const char *value)
{
    return curl_easy_setopt(handle, option, value);
}

/* libcurl keeps the pointer, except for CURLOPT_COPYPOSTFIELDS. */
static inline CURLcode latchkey_curl_set_pointer(CURL *handle, CURLoption option, const void *value)
{
    return curl_easy_setopt(handle, option, value);
}

/* libcurl keeps the list; it must outlive the transfer. */
static inline CURLcode latchkey_curl_set_list(CURL *handle, CURLoption option, struct curl_slist *value)
{
    return curl_easy_setopt(handle, option, value);
}

/* For CURLOPT_WRITEFUNCTION and CURLOPT_HEADERFUNCTION, which have one signature. */
static inline CURLcode latchkey_curl_set_function(CURL *handle, CURLoption option, curl_write_callback value)
{
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode latchkey_curl_get_long(CURL *handle, CURLINFO info, long *value)
{
    return curl_easy_getinfo(handle, info, value);
}

static inline CURLMcode latchkey_curl_multi_set_long(CURLM *handle, CURLMoption option, long value)
{
    return curl_multi_setopt(handle, option, value);
}

/* http and https only; the option has another name since libcurl 7.85. */
static inline CURLcode latchkey_curl_allow_http_only(CURL *handle)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    return curl_easy_setopt(handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

/* Without this, ending a transfer waits for its name look-up, and holds up all others. Since libcurl 7.87. */
static inline CURLcode latchkey_curl_abandon_lookups(CURL *handle)
{
#if LIBCURL_VERSION_NUM >= 0x075700
    return curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
#else
    (void)handle;
    return CURLE_OK;
#endif
}

#endif

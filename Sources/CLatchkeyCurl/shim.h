/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CCURL_H
#define LATCHKEY_CCURL_H

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* The functions that are used, with the types that libcurl's header gives them. They are found at run time: libcurl brings
 * thirty other libraries, which a process that sends no request does without. */
#define LATCHKEY_CURL_FUNCTIONS(USE) \
    USE(global_init) \
    USE(easy_init) \
    USE(easy_setopt) \
    USE(easy_getinfo) \
    USE(easy_pause) \
    USE(easy_cleanup) \
    USE(easy_strerror) \
    USE(multi_init) \
    USE(multi_setopt) \
    USE(multi_add_handle) \
    USE(multi_remove_handle) \
    USE(multi_perform) \
    USE(multi_poll) \
    USE(multi_wakeup) \
    USE(multi_info_read) \
    USE(multi_cleanup) \
    USE(share_init) \
    USE(share_setopt) \
    USE(share_cleanup) \
    USE(getdate) \
    USE(slist_append) \
    USE(slist_free_all) \
    USE(url) \
    USE(url_set) \
    USE(url_get) \
    USE(url_cleanup) \
    USE(free)

struct latchkey_curl {
#define LATCHKEY_CURL_FIELD(name) __typeof__(&curl_##name) name;
    LATCHKEY_CURL_FUNCTIONS(LATCHKEY_CURL_FIELD)
#undef LATCHKEY_CURL_FIELD
    /* Of libpsl; both are NULL where this libcurl does without it. */
    const void *(*psl_builtin)(void);
    int (*psl_is_cookie_domain_acceptable)(const void *list, const char *host, const char *domain);
};

/* Loads the library, for ever, and fills the table. Gives NULL where all is well, the name of a function that it
 * lacks where *loaded is 1, and otherwise why it cannot be loaded, which is valid until this thread's next call. */
static inline const char *latchkey_curl_load(struct latchkey_curl *curl, const char *file, int *loaded)
{
    void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    *loaded = library != NULL;
    if (!library) {
        const char *reason = dlerror();
        return reason ? reason : file;
    }
#define LATCHKEY_CURL_FIND(name) \
    if (!(curl->name = (__typeof__(curl->name))dlsym(library, "curl_" #name))) \
        return "curl_" #name;
    LATCHKEY_CURL_FUNCTIONS(LATCHKEY_CURL_FIND)
#undef LATCHKEY_CURL_FIND
    /* These look in the libraries that libcurl is linked with, too. */
    curl->psl_builtin = (__typeof__(curl->psl_builtin))dlsym(library, "psl_builtin");
    curl->psl_is_cookie_domain_acceptable = (__typeof__(curl->psl_is_cookie_domain_acceptable))dlsym(
        library, "psl_is_cookie_domain_acceptable");
    return NULL;
}

/* Swift cannot call variadic functions. One function for each type that an option takes. */

static inline CURLcode latchkey_curl_set_long(
    const struct latchkey_curl *curl, CURL *handle, CURLoption option, long value)
{
    return curl->easy_setopt(handle, option, value);
}

static inline CURLcode latchkey_curl_set_offset(
    const struct latchkey_curl *curl, CURL *handle, CURLoption option, curl_off_t value)
{
    return curl->easy_setopt(handle, option, value);
}

/* libcurl copies the string. */
static inline CURLcode latchkey_curl_set_string(
    const struct latchkey_curl *curl, CURL *handle, CURLoption option, const char *value)
{
    return curl->easy_setopt(handle, option, value);
}

/* libcurl keeps the pointer, except for CURLOPT_COPYPOSTFIELDS. */
static inline CURLcode latchkey_curl_set_pointer(
    const struct latchkey_curl *curl, CURL *handle, CURLoption option, const void *value)
{
    return curl->easy_setopt(handle, option, value);
}

/* libcurl keeps the list; it must outlive the transfer. */
static inline CURLcode latchkey_curl_set_list(
    const struct latchkey_curl *curl, CURL *handle, CURLoption option, struct curl_slist *value)
{
    return curl->easy_setopt(handle, option, value);
}

/* For CURLOPT_WRITEFUNCTION and CURLOPT_HEADERFUNCTION, which have one signature. */
static inline CURLcode latchkey_curl_set_function(
    const struct latchkey_curl *curl, CURL *handle, CURLoption option, curl_write_callback value)
{
    return curl->easy_setopt(handle, option, value);
}

/* Whether a connection to this address may be made. `address` has `size` bytes, as connect() takes them. */
struct latchkey_address_filter {
    bool (*allows)(void *context, int family, const void *address, unsigned int size);
    void *context;
};

/* In C: if Swift sees curl_sockaddr, files that import Glibc alone no longer find SOCK_CLOEXEC there. */
static inline curl_socket_t latchkey_curl_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    const struct latchkey_address_filter *filter = data;
    (void)purpose;
    if (!filter->allows(filter->context, address->family, &address->addr, address->addrlen)) return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* `filter` lives as long as the handle. */
static inline CURLcode latchkey_curl_set_address_filter(
    const struct latchkey_curl *curl, CURL *handle, const struct latchkey_address_filter *filter)
{
    CURLcode code = curl->easy_setopt(handle, CURLOPT_OPENSOCKETDATA, filter);
    return code == CURLE_OK ? curl->easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, &latchkey_curl_open_socket) : code;
}

static inline CURLcode latchkey_curl_get_long(
    const struct latchkey_curl *curl, CURL *handle, CURLINFO info, long *value)
{
    return curl->easy_getinfo(handle, info, value);
}

static inline CURLMcode latchkey_curl_multi_set_long(
    const struct latchkey_curl *curl, CURLM *handle, CURLMoption option, long value)
{
    return curl->multi_setopt(handle, option, value);
}

/* Cookies that several transfers share, on any threads. */
struct latchkey_cookie_jar {
    CURLSH *share;
    pthread_mutex_t mutex;
};

static inline void latchkey_cookies_lock(CURL *handle, curl_lock_data data, curl_lock_access access, void *jar)
{
    (void)handle;
    (void)data;
    (void)access;
    pthread_mutex_lock(&((struct latchkey_cookie_jar *)jar)->mutex);
}

static inline void latchkey_cookies_unlock(CURL *handle, curl_lock_data data, void *jar)
{
    (void)handle;
    (void)data;
    pthread_mutex_unlock(&((struct latchkey_cookie_jar *)jar)->mutex);
}

/* Only when no handle has the jar any more. */
static inline void latchkey_cookies_free(const struct latchkey_curl *curl, struct latchkey_cookie_jar *jar)
{
    curl->share_cleanup(jar->share);
    pthread_mutex_destroy(&jar->mutex);
    free(jar);
}

/* NULL where there is no memory left, or this libcurl has no cookies. */
static inline struct latchkey_cookie_jar *latchkey_cookies_make(const struct latchkey_curl *curl)
{
    struct latchkey_cookie_jar *jar = calloc(1, sizeof *jar);
    if (!jar) return NULL;
    /* libcurl may lock one kind of data while it has another. */
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&jar->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    jar->share = curl->share_init();
    if (jar->share && curl->share_setopt(jar->share, CURLSHOPT_USERDATA, jar) == CURLSHE_OK &&
        curl->share_setopt(jar->share, CURLSHOPT_LOCKFUNC, &latchkey_cookies_lock) == CURLSHE_OK &&
        curl->share_setopt(jar->share, CURLSHOPT_UNLOCKFUNC, &latchkey_cookies_unlock) == CURLSHE_OK &&
        curl->share_setopt(jar->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE) == CURLSHE_OK)
        return jar;
    latchkey_cookies_free(curl, jar);
    return NULL;
}

/* How many cookies the handle's jar has. */
static inline long latchkey_cookies_count(const struct latchkey_curl *curl, CURL *handle)
{
    struct curl_slist *list = NULL;
    long count = 0;
    if (curl->easy_getinfo(handle, CURLINFO_COOKIELIST, &list) != CURLE_OK) return 0;
    for (const struct curl_slist *entry = list; entry; entry = entry->next) count++;
    curl->slist_free_all(list);
    return count;
}

/* http and https only; the option has another name since libcurl 7.85. */
static inline CURLcode latchkey_curl_allow_http_only(const struct latchkey_curl *curl, CURL *handle)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl->easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    return curl->easy_setopt(handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

/* For curl_url_get(): gives the host in ASCII, as it goes to the resolver or the proxy. Since libcurl 7.88. */
static inline unsigned int latchkey_curl_ascii_host(void)
{
#if LIBCURL_VERSION_NUM >= 0x075800
    return CURLU_PUNYCODE;
#else
    return 0;
#endif
}

/* Without this, ending a transfer waits for its name look-up, and holds up all others. Since libcurl 7.87. */
static inline CURLcode latchkey_curl_abandon_lookups(const struct latchkey_curl *curl, CURL *handle)
{
#if LIBCURL_VERSION_NUM >= 0x075700
    return curl->easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
#else
    (void)curl;
    (void)handle;
    return CURLE_OK;
#endif
}

#endif

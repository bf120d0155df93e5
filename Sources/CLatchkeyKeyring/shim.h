/* SPDX-License-Identifier: MPL-2.0 */
/* The system calls of keyrings(7): glibc has no functions for them, and Swift cannot call syscall(2). */
#ifndef LATCHKEY_CKEYRING_H
#define LATCHKEY_CKEYRING_H

#include <errno.h>
#include <linux/keyctl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Each gives a negated error number where it fails. */

static inline long latchkey_keyring_result(long result) { return result < 0 ? -errno : result; }

/* The serial number of the key of type "user" in the user's keyring. */
static inline long latchkey_keyring_search(const char *name)
{
    return latchkey_keyring_result(
        syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", name, 0));
}

/* The size of the key, of which at most `size` bytes are copied. */
static inline long latchkey_keyring_read(long key, void *bytes, size_t size)
{
    return latchkey_keyring_result(syscall(SYS_keyctl, KEYCTL_READ, key, bytes, size));
}

/* Adds or replaces; gives the serial number. */
static inline long latchkey_keyring_add(const char *name, const void *bytes, size_t size)
{
    return latchkey_keyring_result(syscall(SYS_add_key, "user", name, bytes, size, KEY_SPEC_USER_KEYRING));
}

static inline long latchkey_keyring_unlink(long key)
{
    return latchkey_keyring_result(syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING));
}

#endif

/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey-version
 * @title: Version
 * @short_description: the version of the headers
 *
 * The one place of the version number: the library, the commands, Meson and the packages read it here. This file needs
 * no other header.
 */

#ifndef LATCHKEY_VERSION_H
#define LATCHKEY_VERSION_H

/**
 * LATCHKEY_VERSION_MAJOR:
 *
 * The major version of the header that the application was compiled with. latchkey_version() has the version of the
 * library that it runs with.
 */
#define LATCHKEY_VERSION_MAJOR 0

/**
 * LATCHKEY_VERSION_MINOR:
 *
 * The minor version of the header that the application was compiled with.
 */
#define LATCHKEY_VERSION_MINOR 1

/**
 * LATCHKEY_VERSION_MICRO:
 *
 * The micro version of the header that the application was compiled with.
 */
#define LATCHKEY_VERSION_MICRO 0

/**
 * LATCHKEY_CHECK_VERSION:
 * @major: the least major version
 * @minor: the least minor version
 * @micro: the least micro version
 *
 * Whether this header is at least of the given version. Usable in `#if`.
 */
#define LATCHKEY_CHECK_VERSION(major, minor, micro) \
  (LATCHKEY_VERSION_MAJOR > (major) || \
   (LATCHKEY_VERSION_MAJOR == (major) && LATCHKEY_VERSION_MINOR > (minor)) || \
   (LATCHKEY_VERSION_MAJOR == (major) && LATCHKEY_VERSION_MINOR == (minor) && LATCHKEY_VERSION_MICRO >= (micro)))

#endif /* LATCHKEY_VERSION_H */

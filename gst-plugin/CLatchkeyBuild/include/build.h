/* SPDX-License-Identifier: MPL-2.0 */

#ifndef CLATCHKEY_BUILD_H
#define CLATCHKEY_BUILD_H

/* The day of the build as a number of the digits YYYYMMDD; 0 if it is not known. */
int clatchkey_build_date(void);

#endif

/* SPDX-License-Identifier: MPL-2.0 */

#include "build.h"

/* The only file that a new date compiles again. Package.swift takes the date from the environment. */
#ifndef LATCHKEY_BUILD_DATE
#define LATCHKEY_BUILD_DATE 0
#endif

int clatchkey_build_date(void) { return LATCHKEY_BUILD_DATE; }

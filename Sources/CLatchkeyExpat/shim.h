/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CEXPAT_H
#define LATCHKEY_CEXPAT_H

#include <expat.h>

#endif

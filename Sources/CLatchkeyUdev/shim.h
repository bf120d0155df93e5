/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CLIBUDEV_H
#define LATCHKEY_CLIBUDEV_H

#include <libudev.h>

#endif

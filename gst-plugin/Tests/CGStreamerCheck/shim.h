/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CGSTREAMERCHECK_H
#define LATCHKEY_CGSTREAMERCHECK_H

#include <gst/check/gstharness.h>

#endif

/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CLIBDRM_H
#define LATCHKEY_CLIBDRM_H

#include <xf86drm.h>
#include <xf86drmMode.h>

#endif

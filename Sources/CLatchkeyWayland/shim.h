/* SPDX-License-Identifier: MPL-2.0 */
/* The three structures by which a program describes Wayland interfaces to libwayland-client: part of the library's binary
   interface since Wayland 1.0 (wayland-util.h, MIT license). Declared here so that nothing of Wayland is needed to build;
   the library itself is found in the process of an application that has a window. Tests/CLatchkeyWaylandStandIn checks them
   against the library's own header. */
#ifndef LATCHKEY_CWAYLAND_H
#define LATCHKEY_CWAYLAND_H

#include <stdint.h>

struct latchkey_wl_interface;

struct latchkey_wl_message {
    const char *name;
    const char *signature;
    const struct latchkey_wl_interface **types;
};

struct latchkey_wl_interface {
    const char *name;
    int version;
    int method_count;
    const struct latchkey_wl_message *methods;
    int event_count;
    const struct latchkey_wl_message *events;
};

union latchkey_wl_argument {
    int32_t i;
    uint32_t u;
    const char *s;
    void *o;
};

typedef int (*latchkey_wl_dispatcher)(const void *implementation, void *target, uint32_t opcode,
                                      const struct latchkey_wl_message *message,
                                      union latchkey_wl_argument *arguments);

#endif

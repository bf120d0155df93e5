/* SPDX-License-Identifier: MPL-2.0 */
/* A Wayland compositor on a thread of its own that knows surfaces and weston_content_protection, and nothing else; and an
   application that is connected to it. As strict as Weston 10: a surface has one protection ever, and what is asked for
   counts from the next commit.

   All functions are thread-safe; each returns when the compositor has done it. */
#ifndef LATCHKEY_WAYLAND_STAND_IN_H
#define LATCHKEY_WAYLAND_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

struct wayland_stand_in;

/* `offers`: the compositor has weston_content_protection. `reads`: a thread of the application's handles its events. NULL
   where there is no memory or socket. */
struct wayland_stand_in *wayland_stand_in_new(bool offers, bool reads);
/* Ends the application's connection first. */
void wayland_stand_in_free(struct wayland_stand_in *self);

/* The application's wl_display, its wl_surface, and its wl_compositor, which is no surface. */
void *wayland_stand_in_display(struct wayland_stand_in *self);
void *wayland_stand_in_surface(struct wayland_stand_in *self);
void *wayland_stand_in_other_object(struct wayland_stand_in *self);
/* Destroys the application's surface and makes another. */
void wayland_stand_in_replace_surface(struct wayland_stand_in *self);
/* The application shows a frame. */
void wayland_stand_in_commit(struct wayland_stand_in *self);
/* The error that ended the application's connection; 0: none. */
int wayland_stand_in_error(struct wayland_stand_in *self);

/* Lets others connect to a socket at this path, which has to be free. */
bool wayland_stand_in_listen(struct wayland_stand_in *self, const char *path);
/* Offers the protocol, or withdraws it. */
void wayland_stand_in_offer(struct wayland_stand_in *self, bool offers);
/* Tells all protections what they have: 0 none, 1 HDCP type 0, 2 HDCP type 1. */
void wayland_stand_in_set_status(struct wayland_stand_in *self, uint32_t status);
/* Ends the connection from the compositor's side. */
void wayland_stand_in_disconnect(struct wayland_stand_in *self);

/* Waits until a request changes this, at most so long. What the surface wants before and after its last commit; how many
   protections were asked for, and how many the application has. */
struct wayland_stand_in_view {
    uint32_t pending;
    uint32_t wanted;
    unsigned made;
    unsigned alive;
};
struct wayland_stand_in_view wayland_stand_in_view(struct wayland_stand_in *self);
bool wayland_stand_in_wait_pending(struct wayland_stand_in *self, uint32_t type, int milliseconds);

/* Whether libwayland's structures are laid out as CWayland says. */
bool wayland_stand_in_has_known_layout(void);

#endif

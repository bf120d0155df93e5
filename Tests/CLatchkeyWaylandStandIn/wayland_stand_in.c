/* SPDX-License-Identifier: MPL-2.0 */
#define _GNU_SOURCE
#include "include/wayland_stand_in.h"

/* Who builds no tests needs no headers of Wayland's. */
#if __has_include(<wayland-server.h>)

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <wayland-client.h>
#include <wayland-server.h>

#include "../../Sources/CLatchkeyWayland/shim.h"
#include "weston-content-protection-server-protocol.h"
/* By wayland-scanner, of weston-content-protection.xml. */
#include "weston-content-protection-protocol.c"

enum order { NONE, OFFER, WITHDRAW, STATUS, LISTEN, DISCONNECT, STOP };

struct wayland_stand_in {
    /* The compositor's; its thread's alone but for what `lock` guards. */
    struct wl_display *server;
    struct wl_client *client;
    struct wl_global *global;
    struct wl_resource *protection;
    struct wl_resource *surface_resource;
    bool has_had_protection;
    struct wl_listener client_gone;
    int orders;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum order order;
    uint32_t argument;
    struct wayland_stand_in_view view;

    /* The application's. */
    struct wl_display *display;
    struct wl_compositor *compositor;
    struct wl_surface *surface;
    bool reads;
    int end_of_reading;
    pthread_t reader;
};

static void change(struct wayland_stand_in *self, uint32_t *field, uint32_t value)
{
    pthread_mutex_lock(&self->lock);
    *field = value;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

/* The protection */

static void forget_protection(struct wayland_stand_in *self)
{
    if (!self->protection) return;
    wl_resource_set_user_data(self->protection, NULL);
    self->protection = NULL;
    change(self, &self->view.alive, 0);
    change(self, &self->view.pending, 0);
}

static void protection_destroy(struct wl_client *client, struct wl_resource *resource)
{
    /* Weston 10 keeps it: the surface cannot have another one. */
    struct wayland_stand_in *self = wl_resource_get_user_data(resource);
    (void)client;
    if (!self) return;
    forget_protection(self);
}

static void protection_set_type(struct wl_client *client, struct wl_resource *resource, uint32_t type)
{
    struct wayland_stand_in *self = wl_resource_get_user_data(resource);
    (void)client;
    if (!self) return;
    if (type > WESTON_PROTECTED_SURFACE_TYPE_HDCP_1) {
        wl_resource_post_error(resource, WESTON_PROTECTED_SURFACE_ERROR_INVALID_TYPE, "type %u", type);
        return;
    }
    change(self, &self->view.pending, type);
}

static void protection_set_mode(struct wl_client *client, struct wl_resource *resource)
{
    (void)client;
    (void)resource;
}

static const struct weston_protected_surface_interface protection_requests = {
    protection_destroy, protection_set_type, protection_set_mode, protection_set_mode};

static void protection_gone(struct wl_resource *resource)
{
    struct wayland_stand_in *self = wl_resource_get_user_data(resource);
    if (self) forget_protection(self);
}

static void global_destroy(struct wl_client *client, struct wl_resource *resource)
{
    (void)client;
    wl_resource_destroy(resource);
}

static void global_get_protection(
    struct wl_client *client, struct wl_resource *resource, uint32_t id, struct wl_resource *surface)
{
    struct wayland_stand_in *self = wl_resource_get_user_data(resource);
    struct wl_resource *protection;
    (void)surface;
    if (self->has_had_protection) {
        wl_resource_post_error(resource, WESTON_CONTENT_PROTECTION_ERROR_SURFACE_EXISTS, "protection exists");
        return;
    }
    protection = wl_resource_create(client, &weston_protected_surface_interface, 1, id);
    wl_resource_set_implementation(protection, &protection_requests, self, protection_gone);
    self->has_had_protection = true;
    self->protection = protection;
    change(self, &self->view.made, self->view.made + 1);
    change(self, &self->view.alive, 1);
    weston_protected_surface_send_status(protection, WESTON_PROTECTED_SURFACE_TYPE_UNPROTECTED);
}

static const struct weston_content_protection_interface global_requests = {global_destroy, global_get_protection};

static void bind_global(struct wl_client *client, void *data, uint32_t version, uint32_t id)
{
    struct wl_resource *resource = wl_resource_create(client, &weston_content_protection_interface, version, id);
    wl_resource_set_implementation(resource, &global_requests, data, NULL);
}

/* The surface */

static void surface_destroy(struct wl_client *client, struct wl_resource *resource)
{
    (void)client;
    wl_resource_destroy(resource);
}

static void surface_commit(struct wl_client *client, struct wl_resource *resource)
{
    struct wayland_stand_in *self = wl_resource_get_user_data(resource);
    (void)client;
    change(self, &self->view.wanted, self->view.pending);
}

static void surface_ignore(struct wl_client *client, struct wl_resource *resource)
{
    (void)client;
    (void)resource;
}

static void surface_gone(struct wl_resource *resource)
{
    struct wayland_stand_in *self = wl_resource_get_user_data(resource);
    /* Inert from now on. */
    if (self->surface_resource == resource) forget_protection(self);
}

static const struct wl_surface_interface surface_requests = {
    .destroy = surface_destroy,
    .commit = surface_commit,
    .attach = (void *)surface_ignore,
    .damage = (void *)surface_ignore,
    .frame = (void *)surface_ignore,
};

static void compositor_create_surface(struct wl_client *client, struct wl_resource *resource, uint32_t id)
{
    struct wayland_stand_in *self = wl_resource_get_user_data(resource);
    self->surface_resource = wl_resource_create(client, &wl_surface_interface, 1, id);
    self->has_had_protection = false;
    wl_resource_set_implementation(self->surface_resource, &surface_requests, self, surface_gone);
}

static const struct wl_compositor_interface compositor_requests = {.create_surface = compositor_create_surface};

static void bind_compositor(struct wl_client *client, void *data, uint32_t version, uint32_t id)
{
    struct wl_resource *resource = wl_resource_create(client, &wl_compositor_interface, version, id);
    wl_resource_set_implementation(resource, &compositor_requests, data, NULL);
}

/* The compositor's thread */

static void offer(struct wayland_stand_in *self, bool offers)
{
    if (offers && !self->global) {
        self->global = wl_global_create(self->server, &weston_content_protection_interface, 1, self, bind_global);
    } else if (!offers && self->global) {
        wl_global_destroy(self->global);
        self->global = NULL;
    }
}

static int obey(int descriptor, uint32_t mask, void *data)
{
    struct wayland_stand_in *self = data;
    eventfd_t count;
    enum order order;
    (void)mask;
    eventfd_read(descriptor, &count);
    pthread_mutex_lock(&self->lock);
    order = self->order;
    pthread_mutex_unlock(&self->lock);
    switch (order) {
    case NONE: return 0;
    case OFFER: offer(self, true); break;
    case WITHDRAW: offer(self, false); break;
    case STATUS:
        if (self->protection) weston_protected_surface_send_status(self->protection, self->argument);
        break;
    case LISTEN: wl_display_add_socket_fd(self->server, (int)self->argument); break;
    case DISCONNECT:
        if (self->client) wl_client_destroy(self->client);
        break;
    case STOP: wl_display_terminate(self->server); break;
    }
    wl_display_flush_clients(self->server);
    pthread_mutex_lock(&self->lock);
    self->order = NONE;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    return 0;
}

static void tell(struct wayland_stand_in *self, enum order order, uint32_t argument)
{
    pthread_mutex_lock(&self->lock);
    self->order = order;
    self->argument = argument;
    eventfd_write(self->orders, 1);
    while (self->order != NONE) pthread_cond_wait(&self->changed, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

static void client_gone(struct wl_listener *listener, void *data)
{
    struct wayland_stand_in *self = wl_container_of(listener, self, client_gone);
    (void)data;
    self->client = NULL;
}

static void *serve(void *data)
{
    wl_display_run(((struct wayland_stand_in *)data)->server);
    return NULL;
}

/* The application */

static void on_global(void *data, struct wl_registry *registry, uint32_t name, const char *interface, uint32_t version)
{
    struct wayland_stand_in *self = data;
    (void)version;
    if (strcmp(interface, "wl_compositor") == 0)
        self->compositor = wl_registry_bind(registry, name, &wl_compositor_interface, 1);
}

static void on_global_remove(void *data, struct wl_registry *registry, uint32_t name)
{
    (void)data;
    (void)registry;
    (void)name;
}

static const struct wl_registry_listener registry_listener = {on_global, on_global_remove};

static void *read_events(void *data)
{
    struct wayland_stand_in *self = data;
    for (;;) {
        struct pollfd descriptors[] = {
            {wl_display_get_fd(self->display), POLLIN, 0}, {self->end_of_reading, POLLIN, 0}};
        while (wl_display_prepare_read(self->display) != 0)
            if (wl_display_dispatch_pending(self->display) < 0) return NULL;
        wl_display_flush(self->display);
        poll(descriptors, 2, -1);
        if (descriptors[1].revents) {
            wl_display_cancel_read(self->display);
            return NULL;
        }
        if (wl_display_read_events(self->display) < 0) return NULL;
    }
}

struct wayland_stand_in *wayland_stand_in_new(bool offers, bool reads)
{
    struct wayland_stand_in *self = calloc(1, sizeof *self);
    struct wl_registry *registry;
    int ends[2];
    if (!self) return NULL;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    self->server = wl_display_create();
    self->orders = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->end_of_reading = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!self->server || self->orders < 0 || self->end_of_reading < 0) return NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) return NULL;
    wl_global_create(self->server, &wl_compositor_interface, 1, self, bind_compositor);
    offer(self, offers);
    wl_event_loop_add_fd(wl_display_get_event_loop(self->server), self->orders, WL_EVENT_READABLE, obey, self);
    self->client = wl_client_create(self->server, ends[0]);
    self->client_gone.notify = client_gone;
    wl_client_add_destroy_listener(self->client, &self->client_gone);
    pthread_create(&self->thread, NULL, serve, self);

    self->display = wl_display_connect_to_fd(ends[1]);
    registry = wl_display_get_registry(self->display);
    wl_registry_add_listener(registry, &registry_listener, self);
    wl_display_roundtrip(self->display);
    wl_registry_destroy(registry);
    self->surface = wl_compositor_create_surface(self->compositor);
    wl_display_roundtrip(self->display);
    self->reads = reads;
    if (reads) pthread_create(&self->reader, NULL, read_events, self);
    return self;
}

void wayland_stand_in_free(struct wayland_stand_in *self)
{
    if (self->reads) {
        eventfd_write(self->end_of_reading, 1);
        pthread_join(self->reader, NULL);
    }
    wl_surface_destroy(self->surface);
    wl_compositor_destroy(self->compositor);
    wl_display_disconnect(self->display);
    tell(self, STOP, 0);
    pthread_join(self->thread, NULL);
    wl_display_destroy_clients(self->server);
    wl_display_destroy(self->server);
    close(self->orders);
    close(self->end_of_reading);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

void *wayland_stand_in_display(struct wayland_stand_in *self) { return self->display; }
void *wayland_stand_in_surface(struct wayland_stand_in *self) { return self->surface; }
void *wayland_stand_in_other_object(struct wayland_stand_in *self) { return self->compositor; }
int wayland_stand_in_error(struct wayland_stand_in *self) { return wl_display_get_error(self->display); }

void wayland_stand_in_replace_surface(struct wayland_stand_in *self)
{
    wl_surface_destroy(self->surface);
    self->surface = wl_compositor_create_surface(self->compositor);
    wl_display_flush(self->display);
}

void wayland_stand_in_commit(struct wayland_stand_in *self)
{
    wl_surface_commit(self->surface);
    wl_display_flush(self->display);
}

void wayland_stand_in_offer(struct wayland_stand_in *self, bool offers) { tell(self, offers ? OFFER : WITHDRAW, 0); }
void wayland_stand_in_set_status(struct wayland_stand_in *self, uint32_t status) { tell(self, STATUS, status); }

bool wayland_stand_in_listen(struct wayland_stand_in *self, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path) return false;
    strcpy(address.sun_path, path);
    if (bind(socket_, (struct sockaddr *)&address, sizeof address) < 0 || listen(socket_, 4) < 0) return false;
    tell(self, LISTEN, (uint32_t)socket_);
    return true;
}

void wayland_stand_in_disconnect(struct wayland_stand_in *self) { tell(self, DISCONNECT, 0); }

struct wayland_stand_in_view wayland_stand_in_view(struct wayland_stand_in *self)
{
    struct wayland_stand_in_view view;
    pthread_mutex_lock(&self->lock);
    view = self->view;
    pthread_mutex_unlock(&self->lock);
    return view;
}

bool wayland_stand_in_wait_pending(struct wayland_stand_in *self, uint32_t type, int milliseconds)
{
    struct timespec end;
    bool is_there;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += milliseconds / 1000;
    pthread_mutex_lock(&self->lock);
    while (self->view.pending != type
           && pthread_cond_timedwait(&self->changed, &self->lock, &end) != ETIMEDOUT) {}
    is_there = self->view.pending == type;
    pthread_mutex_unlock(&self->lock);
    return is_there;
}

#define SAME(ours, theirs, field) (offsetof(ours, field) == offsetof(theirs, field))

bool wayland_stand_in_has_known_layout(void)
{
    typedef struct latchkey_wl_interface interface;
    typedef struct latchkey_wl_message message;
    return sizeof(interface) == sizeof(struct wl_interface) && sizeof(message) == sizeof(struct wl_message)
        && sizeof(union latchkey_wl_argument) == sizeof(union wl_argument) && SAME(interface, struct wl_interface, name)
        && SAME(interface, struct wl_interface, version) && SAME(interface, struct wl_interface, method_count)
        && SAME(interface, struct wl_interface, methods) && SAME(interface, struct wl_interface, event_count)
        && SAME(interface, struct wl_interface, events) && SAME(message, struct wl_message, name)
        && SAME(message, struct wl_message, signature) && SAME(message, struct wl_message, types);
}

#endif

/* SPDX-License-Identifier: MPL-2.0 */

/* How the tests of the C interface watch callbacks, which come on threads of the library: once for a call, and `destroy`
   behind the last. A test begins its own struct with a Watch, and hands that in as the user data. */

#ifndef WATCH_H
#define WATCH_H

#include <glib.h>

#define WATCH_DEADLINE (60 * G_TIME_SPAN_SECOND)

/* The lock is for what a test adds, too. */
typedef struct {
  GMutex lock;
  GCond changed;
  guint called, destroyed, after_destroy;
} Watch;

/* Of a struct that begins with a Watch. Never freed: a callback may still run. */
static inline gpointer
watch_new (gsize size)
{
  Watch *watch = g_malloc0 (size);
  g_mutex_init (&watch->lock);
  g_cond_init (&watch->changed);
  return watch;
}

/* A callback came. Between this and watch_leave() it writes down what it got. */
static inline void
watch_enter (gpointer user_data)
{
  Watch *watch = user_data;
  g_mutex_lock (&watch->lock);
  watch->called++;
  watch->after_destroy += watch->destroyed;
}

static inline void
watch_leave (gpointer user_data)
{
  Watch *watch = user_data;
  g_cond_broadcast (&watch->changed);
  g_mutex_unlock (&watch->lock);
}

/* A `destroy`. */
static inline void
watch_destroyed (void *user_data)
{
  Watch *watch = user_data;
  g_mutex_lock (&watch->lock);
  watch->destroyed++;
  watch_leave (watch);
}

/* Waits, with the lock, until `condition`; the deadline fails the test. */
#define WATCH_UNTIL_LOCKED(watched, condition) G_STMT_START { \
    gint64 end_ = g_get_monotonic_time () + WATCH_DEADLINE; \
    while (!(condition) && g_cond_wait_until (&(watched)->watch.changed, &(watched)->watch.lock, end_)); \
    g_assert_true (condition); \
  } G_STMT_END

/* Waits for the end of what has the user data, and looks that the callback came before it and never behind. */
static inline void
watch_wait_for_end (gpointer user_data)
{
  gint64 end = g_get_monotonic_time () + WATCH_DEADLINE;
  Watch *watch = user_data;
  g_mutex_lock (&watch->lock);
  while (watch->destroyed == 0 && g_cond_wait_until (&watch->changed, &watch->lock, end));
  g_assert_cmpuint (watch->destroyed, ==, 1);
  g_assert_cmpuint (watch->after_destroy, ==, 0);
  g_mutex_unlock (&watch->lock);
}

#endif /* WATCH_H */

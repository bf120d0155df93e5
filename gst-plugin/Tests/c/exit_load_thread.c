/* SPDX-License-Identifier: MPL-2.0 */

/* A library whose destructor waits for a thread that loads plug-ins, and ends GStreamer. It is linked behind Latchkey, so
   that its destructor runs behind that of Latchkey. For exit_load_program.c. */

#include <gst/gst.h>
#include <unistd.h>

void exit_load_join (GThread *thread, gint *stop);

static GThread *joined;
static gint *end;

void
exit_load_join (GThread *thread, gint *stop)
{
  joined = thread;
  end = stop;
}

__attribute__ ((destructor)) static void
wait_for_thread (void)
{
  if (joined == NULL)
    return;
  /* Latchkey has the lock, or its destructor comes later. */
  if (GST_OBJECT_TRYLOCK (gst_registry_get ()))
    _exit (5);
  g_atomic_int_set (end, TRUE);
  g_thread_join (joined);
  gst_deinit ();
}

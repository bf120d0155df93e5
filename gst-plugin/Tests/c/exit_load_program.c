/* SPDX-License-Identifier: MPL-2.0 */

/* A program that ends while a thread loads plug-ins: exit_load_program MICROSECONDS [join]. It waits so long and returns 7
   from main; the thread runs on for 50 ms behind the destructors of all libraries. With `join`, a destructor waits for the
   thread. With STOCK, it is built without Latchkey: GLib aborts most such runs. Run by
   Tests/suites/38-embedding. */

#define _GNU_SOURCE
#include <gst/gst.h>
#ifndef STOCK
#include <latchkey.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef STOCK
void exit_load_join (GThread *thread, gint *stop);
#endif

static gint stop;

/* They need no libraries but those of GStreamer. A version may lack some. */
static const char *const plugins[] = {
  "adder", "alpha", "alphacolor", "apetag", "app", "audioconvert", "audiofx", "audiomixer", "audioparsers", "audiorate",
  "audioresample", "audiotestsrc", "auparse", "autodetect", "avi", "compositor", "cutter", "debug", "deinterlace", "dtmf",
  "effectv", "encoding", "equalizer", "flv", "gio", "goom", "goom2k1", "icydemux", "id3demux", "imagefreeze", "interleave",
  "isomp4", "law", "level", "matroska", "monoscope", "multifile", "multipart", "navigationtest", "overlaycomposition",
  "pbtypes", "playback", "rawparse", "replaygain", "rtp", "rtpmanager", "rtsp", "shapewipe", "smpte", "spectrum",
  "subparse", "tcp", "udp", "videobox", "videocrop", "videofilter", "videomixer", "videorate", "videotestsrc", "volume",
  "wavenc", "wavparse", "y4menc",
};

/* In an order that follows from the seed. */
static gpointer
load (gpointer seed)
{
  GRand *random = g_rand_new_with_seed (GPOINTER_TO_UINT (seed));

  while (!g_atomic_int_get (&stop)) {
    GstPlugin *plugin = gst_plugin_load_by_name (plugins[g_rand_int_range (random, 0, G_N_ELEMENTS (plugins))]);
    if (plugin != NULL)
      gst_object_unref (plugin);
  }
  g_rand_free (random);
  return NULL;
}

static ssize_t
write_slowly (void *cookie, const char *bytes, size_t size)
{
  (void) cookie, (void) bytes;
  usleep (50000);
  return (ssize_t) size;
}

int
main (int argc, char **argv)
{
  cookie_io_functions_t slow = { .write = write_slowly };
  guint to_load = 0;
  GThread *thread;

  if (argc != 2 && (argc != 3 || strcmp (argv[2], "join") != 0))
    return 64;
  gst_init (NULL, NULL);
#ifndef STOCK
  if (latchkey_version () == NULL)
    return 1;
#endif
  for (guint i = 0; i < G_N_ELEMENTS (plugins); i++) {
    GstPlugin *plugin = gst_registry_find_plugin (gst_registry_get (), plugins[i]);
    if (plugin != NULL && !gst_plugin_is_loaded (plugin))
      to_load++;
    gst_clear_object (&plugin);
  }
  if (to_load < 30)
    return 2;
  /* Later, GLib's message would wait for the lock of the files below. */
  tzset ();
  /* `exit` writes what files hold after all destructors. */
  fputs ("the end", fopencookie (NULL, "w", slow));
  thread = g_thread_new ("load", load, GUINT_TO_POINTER ((guint) atoi (argv[1])));
#ifndef STOCK
  if (argc == 3)
    exit_load_join (thread, &stop);
#endif
  (void) thread;
  usleep ((useconds_t) atoi (argv[1]));
  return 7;
}

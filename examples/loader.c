/* SPDX-License-Identifier: MPL-2.0 */

/* Plays protected media and gets the keys from a resource loader written in C.

   cc examples/loader.c -o loader $(pkg-config --cflags --libs latchkey-1.0)
   ./loader URI KID:KEY [KID:KEY ...] */

#include <latchkey.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  size_t count;
  LatchkeyKey keys[16];
} KeyList;

/* Called on a thread of Latchkey: it only looks into a list. What takes time belongs on a thread of the application,
   with latchkey_key_request_ref() for as long as that has the request. */
static void
answer (LatchkeyKeyRequest *request, void *user_data)
{
  const KeyList *list = user_data;
  size_t count = latchkey_key_request_get_key_id_count (request), known = 0;

  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < list->count; k++)
      known += memcmp (latchkey_key_request_get_key_id (request, i), list->keys[k].key_id, 16) == 0;
  printf ("request %llu for %zu keys: %zu known\n", (unsigned long long) latchkey_key_request_get_id (request), count,
      known);
  if (known > 0)
    latchkey_key_request_finish_with_keys (request, list->keys, list->count);
  else
    latchkey_key_request_finish_with_error (request, LATCHKEY_ERROR_DENIED, "the key is not in the list");
}

static int
read_bytes (const char *text, uint8_t *bytes)
{
  for (int i = 0; i < 16; i++) {
    unsigned int byte;
    if (sscanf (text + 2 * i, "%2x", &byte) != 1)
      return 0;
    bytes[i] = (uint8_t) byte;
  }
  return 1;
}

int
main (int argc, char **argv)
{
  static const LatchkeyLoaderFunctions functions = { .size = sizeof (LatchkeyLoaderFunctions), .load = answer };
  KeyList list = { 0 };
  GstElement *player;
  GstMessage *message;
  int status = 1;

  for (int i = 2; i < argc && list.count < G_N_ELEMENTS (list.keys); i++) {
    LatchkeyKey *key = &list.keys[list.count++];
    if (strlen (argv[i]) != 65 || !read_bytes (argv[i], key->key_id) || !read_bytes (argv[i] + 33, key->key))
      list.count = 0, i = argc;
  }
  if (list.count == 0) {
    fprintf (stderr, "Usage: %s URI KID:KEY [KID:KEY ...]\n", argv[0]);
    return 2;
  }
  gst_init (NULL, NULL);
  latchkey_register_elements (NULL);
  latchkey_loader_register ("example", &functions, &list, NULL);

  player = gst_element_factory_make ("playbin3", NULL);
  if (player == NULL) {
    fprintf (stderr, "GStreamer's base plug-ins are missing\n");
    return 1;
  }
  g_object_set (player, "uri", argv[1], NULL);
  gst_element_set_state (player, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (GST_ELEMENT_BUS (player), GST_CLOCK_TIME_NONE,
      GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS) {
    puts ("played to the end");
    status = 0;
  } else {
    GError *error = NULL;
    gst_message_parse_error (message, &error, NULL);
    fprintf (stderr, "error: %s\n", error->message);
    g_clear_error (&error);
  }
  gst_message_unref (message);
  gst_element_set_state (player, GST_STATE_NULL);
  gst_object_unref (player);
  return status;
}

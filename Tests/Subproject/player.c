/* SPDX-License-Identifier: MPL-2.0 */

/* Makes an element of Latchkey's, from the library that is linked, and looks for the plug-in's file. */

#include <gst/gst.h>
#include <latchkey.h>

int
main (int argc, char **argv)
{
  GstElement *element;

  gst_init (NULL, NULL);
  if (argc != 2 || !g_file_test (argv[1], G_FILE_TEST_EXISTS)) {
    g_printerr ("usage: player FILE-OF-THE-PLUG-IN\n");
    return 1;
  }
  if (!latchkey_register_elements (NULL))
    return 1;
  element = gst_element_factory_make ("latchkeycencdec", NULL);
  if (element == NULL)
    return 1;
  gst_object_unref (element);
  g_print ("%s\n", latchkey_version ());
  return 0;
}

/* SPDX-License-Identifier: MPL-2.0 */

/* The entry of the GStreamer plug-in. Everything else is in liblatchkey-1.0, which an application can link too. */


#include <latchkey.h>

static gboolean
plugin_init (GstPlugin *plugin)
{
  return latchkey_register_elements (plugin);
}

GST_PLUGIN_DEFINE (GST_VERSION_MAJOR, GST_VERSION_MINOR, latchkey,
    "Plays protected media: decryption and licenses", plugin_init, PACKAGE_VERSION, "MPL",
    PACKAGE_NAME, GST_PACKAGE_ORIGIN)

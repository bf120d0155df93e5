/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey
 * @title: Latchkey
 * @short_description: protected media in GStreamer, for every language that can call C
 *
 * The C interface of liblatchkey-1.0. An application that only plays media needs none of it: the plug-in
 * libgstlatchkey.so registers the elements by itself, and settings reach them through properties, contexts and the
 * configuration file. Link this library to register the elements without a plug-in file, to manage rights and playback of
 * a piece of content (latchkey-agent.h), to keep it for playback without the network (latchkey-cached-content.h), to list
 * licenses and viewing sessions (latchkey-records.h), to answer key requests with a resource loader (latchkey-loader.h), or
 * to decrypt into secure memory (latchkey-secure-decryptor.h). This file includes all of them.
 *
 * The plug-in is linked to the same library, so the application and the plug-in of one process share one instance:
 * keys, sessions and loaders that one of them sets up are there for the other.
 *
 * Interface and binary compatibility: the names in these files only grow within one soname (liblatchkey-1.0.so.0);
 * abi.txt of the source has them, with the version that brought each. Every exported symbol starts with `latchkey_`.
 */

#ifndef LATCHKEY_H
#define LATCHKEY_H

#include <gst/gst.h>

#include "latchkey-agent.h"
#include "latchkey-cached-content.h"
#include "latchkey-loader.h"
#include "latchkey-records.h"
#include "latchkey-secure-decryptor.h"
#include "latchkey-version.h"

G_BEGIN_DECLS

/**
 * latchkey_version:
 *
 * The version of the library that the process runs with.
 *
 * Thread-safety: may be called from any thread, also before gst_init().
 *
 * Returns: (transfer none): `MAJOR.MINOR.MICRO` in ASCII, never %NULL. It stays valid until the process ends; do not
 * free it.
 */
const char *latchkey_version (void);

/**
 * latchkey_stop_callbacks:
 *
 * From its return on, the library calls no function of the application: no callback, listener, loader, delegate, secure
 * decryptor or `destroy`. It waits for those that run, for two seconds at most. This cannot be taken back.
 *
 * It is for languages whose runtime ends before the process does: call it from what runs when a program ends, such as
 * Python's `atexit`. A program in C needs no call, since exit() does the same. A process may exit at any moment, with calls
 * under way and objects not given back.
 *
 * Thread-safety: may be called from any thread, also inside a callback, for which it does not wait.
 */
void latchkey_stop_callbacks (void);

/**
 * latchkey_register_elements:
 * @plugin: (nullable) (transfer none): the plug-in that is being loaded, or %NULL
 *
 * Registers the elements of Latchkey with GStreamer.
 *
 * An application that ships no plug-in file passes %NULL, once, before it builds its first pipeline. The elements
 * then belong to the process and are not written to the registry file. A plug-in passes its own #GstPlugin from its
 * init function; libgstlatchkey.so does exactly this.
 *
 * Calls gst_init() if that has not happened yet. Starts no thread, reads no configuration and installs no signal
 * handler. Calling it again is harmless.
 *
 * Thread-safety: may be called from any thread.
 *
 * Returns: %TRUE when every element is registered. %FALSE when GStreamer refused one of them; the GStreamer log at
 * level WARNING says which. Elements registered before that one stay registered.
 */
gboolean latchkey_register_elements (GstPlugin *plugin);

/**
 * latchkey_session_attach:
 * @session: (transfer none): a session of latchkey_session_new()
 * @pipeline: (transfer none): a pipeline, a bin or an element
 *
 * Makes the elements of Latchkey in @pipeline, now and later, use @session with its loaders, and nothing that the
 * configuration names. Call it before the pipeline leaves READY. The pipeline keeps the session.
 *
 * Thread-safety: may be called from any thread.
 */
void latchkey_session_attach (LatchkeySession *session, GstElement *pipeline);

G_END_DECLS

#endif /* LATCHKEY_H */

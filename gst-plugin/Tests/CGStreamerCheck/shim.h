/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CGSTREAMERCHECK_H
#define LATCHKEY_CGSTREAMERCHECK_H

#include <gst/check/gstharness.h>

#include "stand_in_decoder.h"

/* Macros that Swift cannot import. */
/* What a snapshot of the sink's picture would take, with a reference; NULL where there is none. */
static inline GstSample *ekt_last_sample(GstElement *sink) {
  GstSample *sample = NULL;
  g_object_get(sink, "last-sample", &sample, NULL);
  return sample;
}

static inline GstMessageType ekt_message_type(GstMessage *message) { return GST_MESSAGE_TYPE(message); }
static inline const char *ekt_message_source(GstMessage *message) { return GST_MESSAGE_SRC_NAME(message); }
static inline GstEvent *ekt_probe_event(GstPadProbeInfo *info) { return GST_PAD_PROBE_INFO_EVENT(info); }
static inline GstBuffer *ekt_probe_buffer(GstPadProbeInfo *info) { return GST_PAD_PROBE_INFO_BUFFER(info); }
static inline GstCaps *ekt_template_caps(GstPadTemplate *templ) { return GST_PAD_TEMPLATE_CAPS(templ); }
static inline gboolean ekt_is_readable(GParamSpec *property) { return (property->flags & G_PARAM_READABLE) != 0; }
static inline gboolean ekt_is_writable(GParamSpec *property) { return (property->flags & G_PARAM_WRITABLE) != 0; }
static inline gboolean ekt_is_string_value(const GValue *value) { return G_VALUE_HOLDS_STRING(value); }

/* The extra-headers of souphttpsrc, from the text of a structure. */
static inline void ekt_set_extra_headers(GstElement *source, const char *text) {
  GstStructure *fields = gst_structure_from_string(text, NULL);
  g_object_set(source, "extra-headers", fields, NULL);
  if (fields) gst_structure_free(fields);
}

#endif

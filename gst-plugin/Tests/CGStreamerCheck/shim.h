/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CGSTREAMERCHECK_H
#define LATCHKEY_CGSTREAMERCHECK_H

#include <gst/check/gstharness.h>

/* An allocator like those of secure decoders: its memory exists, and the CPU may not see it. */

static inline GstMemory *ekt_secure_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *params) {
  GstMemory *memory = g_new0(GstMemory, 1);
  (void)params;
  gst_memory_init(memory, GST_MEMORY_FLAG_NOT_MAPPABLE, allocator, NULL, size, 0, 0, size);
  return memory;
}
static inline void ekt_secure_free(GstAllocator *allocator, GstMemory *memory) {
  (void)allocator;
  g_free(memory);
}
static inline gpointer ekt_secure_map(GstMemory *memory, gsize size, GstMapFlags flags) {
  (void)memory;
  (void)size;
  (void)flags;
  return NULL;
}
static inline void ekt_secure_class_init(gpointer klass, gpointer data) {
  (void)data;
  ((GstAllocatorClass *)klass)->alloc = ekt_secure_alloc;
  ((GstAllocatorClass *)klass)->free = ekt_secure_free;
}
static inline GstAllocator *ekt_secure_allocator_new(void) {
  GType type = g_type_from_name("EktSecureAllocator");
  GstAllocator *allocator;
  if (type == 0) {
    GTypeInfo info = {0};
    info.class_size = sizeof(GstAllocatorClass);
    info.class_init = ekt_secure_class_init;
    info.instance_size = sizeof(GstAllocator);
    type = g_type_register_static(GST_TYPE_ALLOCATOR, "EktSecureAllocator", &info, (GTypeFlags)0);
  }
  allocator = GST_ALLOCATOR(g_object_new(type, NULL));
  allocator->mem_type = "EktSecureMemory";
  allocator->mem_map = ekt_secure_map;
  GST_OBJECT_FLAG_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
  return (GstAllocator *)gst_object_ref_sink(allocator);
}

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
static inline gboolean ekt_is_string_value(const GValue *value) { return G_VALUE_HOLDS_STRING(value); }

/* The extra-headers of souphttpsrc, from the text of a structure. */
static inline void ekt_set_extra_headers(GstElement *source, const char *text) {
  GstStructure *fields = gst_structure_from_string(text, NULL);
  g_object_set(source, "extra-headers", fields, NULL);
  if (fields) gst_structure_free(fields);
}

#endif

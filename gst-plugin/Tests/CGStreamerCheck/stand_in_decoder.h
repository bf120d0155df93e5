/* SPDX-License-Identifier: MPL-2.0 */
/* Stand-ins for the decoders of a hardware, for tests in Swift and in C: elements that take coded video, propose memory of
   their own, and "decode" by giving the coded bytes back in ordinary memory. */
#ifndef LATCHKEY_STAND_IN_DECODER_H
#define LATCHKEY_STAND_IN_DECODER_H

#include <gst/gst.h>
#include <string.h>

/* An allocator like those of secure decoders: its memory exists, and the CPU may not see it. What a trusted environment
   would do to it is done by ekt_secure_bytes. */

typedef struct {
  GstMemory memory;
  guint8 *hidden;
} EktSecureMemory;

typedef struct {
  GstAllocator parent;
  gint map_attempts;
} EktSecureAllocator;

static inline GstMemory *ekt_secure_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *params) {
  EktSecureMemory *secure = g_new0(EktSecureMemory, 1);
  (void)params;
  gst_memory_init(&secure->memory, (GstMemoryFlags)(GST_MEMORY_FLAG_NOT_MAPPABLE | GST_MEMORY_FLAG_NO_SHARE), allocator,
                  NULL, size, 0, 0, size);
  secure->hidden = (guint8 *)g_malloc0(size + 1);
  return &secure->memory;
}
static inline void ekt_secure_free(GstAllocator *allocator, GstMemory *memory) {
  (void)allocator;
  g_free(((EktSecureMemory *)memory)->hidden);
  g_free(memory);
}
static inline gpointer ekt_secure_map(GstMemory *memory, gsize size, GstMapFlags flags) {
  (void)size;
  (void)flags;
  g_atomic_int_inc(&((EktSecureAllocator *)memory->allocator)->map_attempts);
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
    info.instance_size = sizeof(EktSecureAllocator);
    type = g_type_register_static(GST_TYPE_ALLOCATOR, "EktSecureAllocator", &info, (GTypeFlags)0);
  }
  allocator = GST_ALLOCATOR(g_object_new(type, NULL));
  allocator->mem_type = "EktSecureMemory";
  allocator->mem_map = ekt_secure_map;
  GST_OBJECT_FLAG_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
  return (GstAllocator *)gst_object_ref_sink(allocator);
}
/* How often somebody tried to map memory of the allocator. */
static inline gint ekt_secure_map_attempts(GstAllocator *allocator) {
  return g_atomic_int_get(&((EktSecureAllocator *)allocator)->map_attempts);
}
/* The hidden bytes, from the memory's first on; NULL for other memory. */
static inline guint8 *ekt_secure_bytes(GstMemory *memory) {
  return gst_memory_is_type(memory, "EktSecureMemory") ? ((EktSecureMemory *)memory)->hidden + memory->offset : NULL;
}

/* The decoders: `ektsecuredec` takes video/x-h264(memory:TestSecure) alone, `ekthardwaredec` video/x-h264. */

typedef struct {
  GstElement parent;
  GstPad *sink, *source;
  GMutex lock;
  /* What it proposes. */
  GstAllocator *allocator;
  GstBufferPool *pool;
  guint pool_size;
  gboolean answers_late;
  /* What came. */
  gchar *asked;
  guint questions, buffers, from_pool, secure;
} EktStandIn;

static inline GstFlowReturn ekt_stand_in_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer) {
  EktStandIn *decoder = (EktStandIn *)parent;
  GstBuffer *output = gst_buffer_new();
  (void)pad;
  g_mutex_lock(&decoder->lock);
  decoder->buffers++;
  decoder->from_pool += buffer->pool && buffer->pool == decoder->pool;
  for (guint i = 0; i < gst_buffer_n_memory(buffer); i++) {
    GstMemory *memory = gst_buffer_peek_memory(buffer, i);
    guint8 *hidden = ekt_secure_bytes(memory);
    gsize size = gst_memory_get_sizes(memory, NULL, NULL);
    GstMemory *copy = gst_allocator_alloc(NULL, size, NULL);
    GstMapInfo from, to;
    gst_memory_map(copy, &to, GST_MAP_WRITE);
    if (hidden) {
      decoder->secure++;
      memcpy(to.data, hidden, size);
    } else if (gst_memory_map(memory, &from, GST_MAP_READ)) {
      memcpy(to.data, from.data, size);
      gst_memory_unmap(memory, &from);
    }
    gst_memory_unmap(copy, &to);
    gst_buffer_append_memory(output, copy);
  }
  g_mutex_unlock(&decoder->lock);
  gst_buffer_copy_into(output, buffer,
                       (GstBufferCopyFlags)(GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS | GST_BUFFER_COPY_META), 0,
                       -1);
  gst_buffer_unref(buffer);
  return gst_pad_push(decoder->source, output);
}

static inline gboolean ekt_stand_in_query(GstPad *pad, GstObject *parent, GstQuery *query) {
  EktStandIn *decoder = (EktStandIn *)parent;
  GstCaps *caps;
  if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return gst_pad_query_default(pad, parent, query);
  if (decoder->answers_late && !gst_pad_has_current_caps(pad)) return FALSE;
  gst_query_parse_allocation(query, &caps, NULL);
  g_mutex_lock(&decoder->lock);
  g_free(decoder->asked);
  decoder->asked = gst_caps_to_string(caps);
  decoder->questions++;
  g_mutex_unlock(&decoder->lock);
  if (decoder->allocator) gst_query_add_allocation_param(query, decoder->allocator, NULL);
  if (decoder->pool) gst_query_add_allocation_pool(query, decoder->pool, decoder->pool_size, 0, 2);
  gst_query_add_allocation_meta(query, GST_REFERENCE_TIMESTAMP_META_API_TYPE, NULL);
  return TRUE;
}

static inline void ekt_stand_in_finalize(GObject *object) {
  EktStandIn *decoder = (EktStandIn *)object;
  gst_clear_object(&decoder->allocator);
  gst_clear_object(&decoder->pool);
  g_free(decoder->asked);
  g_mutex_clear(&decoder->lock);
  ((GObjectClass *)g_type_class_peek(GST_TYPE_ELEMENT))->finalize(object);
}

static inline void ekt_stand_in_class_init(gpointer klass, gpointer caps_text) {
  GstCaps *caps = gst_caps_from_string((const char *)caps_text), *any = gst_caps_new_any();
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(klass), "Stand-in decoder", "Codec/Decoder/Video/Hardware",
                                        "Takes the place of a hardware in tests", "The Latchkey authors");
  gst_element_class_add_pad_template(GST_ELEMENT_CLASS(klass),
                                     gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, caps));
  gst_element_class_add_pad_template(GST_ELEMENT_CLASS(klass),
                                     gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, any));
  gst_caps_unref(caps);
  gst_caps_unref(any);
  ((GObjectClass *)klass)->finalize = ekt_stand_in_finalize;
}

static inline void ekt_stand_in_init(GTypeInstance *instance, gpointer klass) {
  EktStandIn *decoder = (EktStandIn *)instance;
  g_mutex_init(&decoder->lock);
  decoder->sink = gst_pad_new_from_template(gst_element_class_get_pad_template(GST_ELEMENT_CLASS(klass), "sink"), "sink");
  gst_pad_set_chain_function(decoder->sink, ekt_stand_in_chain);
  gst_pad_set_query_function(decoder->sink, ekt_stand_in_query);
  gst_element_add_pad(GST_ELEMENT(decoder), decoder->sink);
  decoder->source = gst_pad_new_from_template(gst_element_class_get_pad_template(GST_ELEMENT_CLASS(klass), "src"), "src");
  gst_element_add_pad(GST_ELEMENT(decoder), decoder->source);
}

static inline void ekt_stand_in_register_one(const char *type_name, const char *factory, const char *caps) {
  GTypeInfo info = {0};
  info.class_size = sizeof(GstElementClass);
  info.class_init = ekt_stand_in_class_init;
  info.class_data = caps;
  info.instance_size = sizeof(EktStandIn);
  info.instance_init = ekt_stand_in_init;
  /* Rank NONE: other tests of the process must not get them. */
  gst_element_register(NULL, factory, GST_RANK_NONE,
                       g_type_register_static(GST_TYPE_ELEMENT, type_name, &info, (GTypeFlags)0));
}

/* Registers both. Again does nothing; not from two threads at once. */
static inline void ekt_stand_in_register(void) {
  if (g_type_from_name("EktSecureDecoder")) return;
  ekt_stand_in_register_one("EktSecureDecoder", "ektsecuredec", "video/x-h264(memory:TestSecure)");
  ekt_stand_in_register_one("EktHardwareDecoder", "ekthardwaredec", "video/x-h264");
}

/* Has it propose these; NULL for none. */
static inline void ekt_stand_in_propose(GstElement *element, GstAllocator *allocator, GstBufferPool *pool, guint size) {
  EktStandIn *decoder = (EktStandIn *)element;
  gst_object_replace((GstObject **)&decoder->allocator, (GstObject *)allocator);
  gst_object_replace((GstObject **)&decoder->pool, (GstObject *)pool);
  decoder->pool_size = size;
}
/* Has it answer only once it has caps, as filters do that stand between. */
static inline void ekt_stand_in_answer_late(GstElement *element) { ((EktStandIn *)element)->answers_late = TRUE; }

/* The caps of the last ALLOCATION query; g_free it. NULL where there was none. */
static inline gchar *ekt_stand_in_asked(GstElement *element) {
  EktStandIn *decoder = (EktStandIn *)element;
  gchar *asked;
  g_mutex_lock(&decoder->lock);
  asked = g_strdup(decoder->asked);
  g_mutex_unlock(&decoder->lock);
  return asked;
}
/* How often it was asked. */
static inline guint ekt_stand_in_questions(GstElement *element) { return ((EktStandIn *)element)->questions; }
static inline guint ekt_stand_in_buffers(GstElement *element) { return ((EktStandIn *)element)->buffers; }
static inline guint ekt_stand_in_from_pool(GstElement *element) { return ((EktStandIn *)element)->from_pool; }
static inline guint ekt_stand_in_secure(GstElement *element) { return ((EktStandIn *)element)->secure; }

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/*
 * GStreamer for Swift: the headers, and one inline function for each macro that Swift cannot import.
 * Nothing here has a policy of its own.
 */
#ifndef LATCHKEY_CGSTREAMER_H
#define LATCHKEY_CGSTREAMER_H

#include <gst/base/gstbasesink.h>
#include <gst/base/gsttypefindhelper.h>
#include <gst/gst.h>
#include <gst/gstprotection.h>
#include <string.h>
#include <time.h>

#include "video.h"

#ifdef __GLIBC__
/* As malloc.h declares it. That header is not included here: it has more than is needed. */
extern int malloc_trim(size_t pad);
#endif

/* Gives the system back what is free in the heaps of all threads. Takes milliseconds. */
static inline void ek_trim_heaps(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

/* The instance of every element that is written in Swift: its Swift object in one pointer. */
typedef struct {
  GstElement parent;
  void *swift_object;
} ElementKitInstance;

/* The same for bins. */
typedef struct {
  GstBin parent;
  void *swift_object;
} ElementKitBinInstance;

static inline void **ek_swift_object(void *instance) {
  return GST_IS_BIN(instance) ? &((ElementKitBinInstance *)instance)->swift_object
                              : &((ElementKitInstance *)instance)->swift_object;
}

static inline GType ek_type_element(void) { return GST_TYPE_ELEMENT; }
static inline GType ek_type_bin(void) { return GST_TYPE_BIN; }
static inline GType ek_type_bytes(void) { return G_TYPE_BYTES; }
static inline GType ek_type_strv(void) { return G_TYPE_STRV; }
static inline GType ek_type_string(void) { return G_TYPE_STRING; }
static inline GType ek_type_uint(void) { return G_TYPE_UINT; }
static inline GType ek_type_uint64(void) { return G_TYPE_UINT64; }
static inline GType ek_type_boolean(void) { return G_TYPE_BOOLEAN; }
/* Swift has these names as members of a type from GLib 2.90 on, and as names of their own before. */
static inline GKeyFileFlags ek_key_file_keep_translations(void) { return G_KEY_FILE_KEEP_TRANSLATIONS; }
static inline GSignalFlags ek_signal_run_last_action(void) { return G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION; }
/* Decoders of sound and pictures; not bins that decode anything. */
static inline guint64 ek_factory_type_decoder(void) {
  return GST_ELEMENT_FACTORY_TYPE_DECODER | GST_ELEMENT_FACTORY_TYPE_MEDIA_AUDIO | GST_ELEMENT_FACTORY_TYPE_MEDIA_VIDEO;
}
static inline gboolean ek_is_decoder_factory(void *feature) {
  return GST_IS_ELEMENT_FACTORY(feature) &&
         gst_element_factory_list_is_type(GST_ELEMENT_FACTORY(feature), ek_factory_type_decoder());
}
static inline void ek_connect(void *object, const char *signal, GCallback handler, void *data) {
  g_signal_connect(object, signal, handler, data);
}
static inline gboolean ek_pad_needs_reconfigure(const GstPad *pad) { return GST_PAD_NEEDS_RECONFIGURE(pad); }
static inline GType ek_type_none(void) { return G_TYPE_NONE; }
static inline GType ek_type_structure(void) { return GST_TYPE_STRUCTURE; }
static inline GType ek_type_buffer(void) { return GST_TYPE_BUFFER; }
static inline void ek_object_lock(void *object) { GST_OBJECT_LOCK(object); }
static inline void ek_object_unlock(void *object) { GST_OBJECT_UNLOCK(object); }
static inline GType ek_object_type(void *object) { return G_OBJECT_TYPE(object); }
static inline void *ek_object_class(void *object) { return G_OBJECT_GET_CLASS(object); }
static inline gboolean ek_value_holds(const GValue *value, GType type) { return G_VALUE_HOLDS(value, type); }
/* The buffer in a GValue, or NULL. g_value_get_boxed would look the type up again. */
static inline GstBuffer *ek_value_buffer(const GValue *value) {
  return value && G_VALUE_HOLDS(value, GST_TYPE_BUFFER) ? (GstBuffer *)value->data[0].v_pointer : NULL;
}
static inline void ek_value_init(GValue *value, GType type) {
  memset(value, 0, sizeof *value);
  g_value_init(value, type);
}

static inline int ek_param_readable(void) { return G_PARAM_READABLE | G_PARAM_STATIC_STRINGS; }
static inline int ek_param_writable(void) { return G_PARAM_WRITABLE | G_PARAM_STATIC_STRINGS; }
static inline int ek_param_mutable_ready(void) { return GST_PARAM_MUTABLE_READY; }
static inline int ek_param_mutable_playing(void) { return GST_PARAM_MUTABLE_PLAYING; }

static inline int ek_event_type(const GstEvent *event) { return GST_EVENT_TYPE(event); }
static inline gboolean ek_event_is_serialized(const GstEvent *event) { return GST_EVENT_IS_SERIALIZED(event); }
static inline gboolean ek_event_is_downstream(const GstEvent *event) { return GST_EVENT_IS_DOWNSTREAM(event); }
static inline gboolean ek_event_is_flushing_seek(GstEvent *event) {
  GstSeekFlags flags = GST_SEEK_FLAG_NONE;
  if (GST_EVENT_TYPE(event) != GST_EVENT_SEEK) return FALSE;
  gst_event_parse_seek(event, NULL, NULL, &flags, NULL, NULL, NULL, NULL);
  return (flags & GST_SEEK_FLAG_FLUSH) != 0;
}
static inline gboolean ek_event_is_sticky(const GstEvent *event) { return GST_EVENT_IS_STICKY(event); }
static inline int ek_query_type(const GstQuery *query) { return GST_QUERY_TYPE(query); }
static inline gboolean ek_query_is_serialized(const GstQuery *query) { return GST_QUERY_IS_SERIALIZED(query); }
static inline gboolean ek_is_event(const void *object) { return GST_IS_EVENT(object); }
static inline void ek_mini_object_unref(void *object) { gst_mini_object_unref(GST_MINI_OBJECT_CAST(object)); }

static inline gboolean ek_buffer_is_writable(const GstBuffer *buffer) { return gst_buffer_is_writable(buffer); }
static inline GstBuffer *ek_buffer_make_writable(GstBuffer *buffer) { return gst_buffer_make_writable(buffer); }
static inline GstProtectionMeta *ek_buffer_protection_meta(GstBuffer *buffer) {
  return gst_buffer_get_protection_meta(buffer);
}
static inline void ek_buffer_remove_meta(GstBuffer *buffer, GstProtectionMeta *meta) {
  gst_buffer_remove_meta(buffer, &meta->meta);
}
static inline gboolean ek_memory_is_mappable(const GstMemory *memory) {
  return !GST_MEMORY_FLAG_IS_SET(memory, GST_MEMORY_FLAG_NOT_MAPPABLE);
}
static inline gboolean ek_buffer_is_mappable(GstBuffer *buffer) {
  for (guint i = 0; i < gst_buffer_n_memory(buffer); i++)
    if (!ek_memory_is_mappable(gst_buffer_peek_memory(buffer, i))) return FALSE;
  return TRUE;
}

/* The memory of a buffer that has exactly one, or NULL. Mapping it alone costs half of gst_buffer_map. */
static inline GstMemory *ek_buffer_only_memory(GstBuffer *buffer) {
  return gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : NULL;
}


static inline GstElementClass *ek_element_class(void *klass) { return GST_ELEMENT_CLASS(klass); }
static inline GObjectClass *ek_gobject_class(void *klass) { return G_OBJECT_CLASS(klass); }
static inline GstBinClass *ek_bin_class(void *klass) { return GST_BIN_CLASS(klass); }
static inline GstBin *ek_as_bin(void *object) { return GST_BIN_CAST(object); }
static inline gboolean ek_is_bin(void *object) { return GST_IS_BIN(object); }
static inline GstObject *ek_as_object(void *object) { return GST_OBJECT_CAST(object); }


/* Whether the element, or a bin around it, is on its way to READY or NULL. */
static inline gboolean ek_is_being_stopped(GstElement *element) {
  GstObject *object = gst_object_ref(GST_OBJECT_CAST(element));
  gboolean stopped = FALSE;
  while (object) {
    GstObject *parent;
    if (GST_IS_ELEMENT(object) && GST_STATE_TARGET(object) <= GST_STATE_READY &&
        GST_STATE_TARGET(object) != GST_STATE_VOID_PENDING)
      stopped = TRUE;
    parent = stopped ? NULL : gst_object_get_parent(object);
    gst_object_unref(object);
    object = parent;
  }
  return stopped;
}

/* The outermost element of GStreamer's newer adaptive demuxers (adaptivedemux2) around the element, with a reference;
 * NULL where there is none. */
static inline GstElement *ek_adaptive_demuxer_around(GstElement *element) {
  GType type = g_type_from_name("GstAdaptiveDemux2");
  GstObject *object = gst_object_ref(GST_OBJECT_CAST(element));
  GstElement *found = NULL;
  while (object) {
    GstObject *parent = gst_object_get_parent(object);
    if (type && g_type_is_a(G_OBJECT_TYPE(object), type)) gst_object_replace((GstObject **)&found, object);
    gst_object_unref(object);
    object = parent;
  }
  return found;
}

/* Whether a player made the source of what comes to the element, in a `urisourcebin` around it. */
static inline gboolean ek_has_players_source(GstElement *element) {
  gboolean is_found = FALSE;
  GstObject *object = gst_object_get_parent(GST_OBJECT_CAST(element));
  while (object) {
    GstElementFactory *factory = gst_element_get_factory(GST_ELEMENT_CAST(object));
    const gchar *name = factory ? gst_plugin_feature_get_name(GST_PLUGIN_FEATURE(factory)) : NULL;
    is_found = !g_strcmp0(name, "urisourcebin");
    GstObject *parent = is_found ? NULL : gst_object_get_parent(object);
    gst_object_unref(object);
    object = parent;
  }
  return is_found;
}

/* The plain sink pads on children of `bin` that nothing is linked to, each with a reference; free the array. NULL where
 * there are none. */
static inline GPtrArray *ek_unlinked_sinks_in_bin(GstElement *bin) {
  GPtrArray *children = g_ptr_array_new_with_free_func(gst_object_unref);
  GPtrArray *found = g_ptr_array_new_with_free_func(gst_object_unref);
  GST_OBJECT_LOCK(bin);
  for (GList *item = GST_BIN_CHILDREN(bin); item; item = item->next)
    g_ptr_array_add(children, gst_object_ref(item->data));
  GST_OBJECT_UNLOCK(bin);
  for (guint i = 0; i < children->len; i++) {
    GstElement *child = GST_ELEMENT_CAST(g_ptr_array_index(children, i));
    GST_OBJECT_LOCK(child);
    for (GList *item = child->sinkpads; item; item = item->next)
      if (!GST_IS_PROXY_PAD(item->data) && !GST_PAD_PEER(item->data))
        g_ptr_array_add(found, gst_object_ref(item->data));
    GST_OBJECT_UNLOCK(child);
  }
  g_ptr_array_unref(children);
  if (found->len) return found;
  g_ptr_array_unref(found);
  return NULL;
}

/* The source pads of the element, each with a reference; free the array. */
static inline GPtrArray *ek_source_pads(GstElement *element) {
  GPtrArray *found = g_ptr_array_new_with_free_func(gst_object_unref);
  GST_OBJECT_LOCK(element);
  for (GList *item = element->srcpads; item; item = item->next) g_ptr_array_add(found, gst_object_ref(item->data));
  GST_OBJECT_UNLOCK(element);
  return found;
}

static inline void ek_add_pads_in_bin_behind(GPtrArray *found, GstPad *source, GstElement *bin, int steps) {
  GstPad *peer = steps < 32 && found->len < 64 ? gst_pad_get_peer(source) : NULL;
  if (!peer) return;
  GstElement *element = gst_pad_get_parent_element(peer);
  if (GST_IS_PROXY_PAD(peer)) {
    GstPad *inner = GST_PAD_CAST(gst_proxy_pad_get_internal(GST_PROXY_PAD(peer)));
    if (inner) ek_add_pads_in_bin_behind(found, inner, bin, steps + 1);
    gst_clear_object(&inner);
  } else if (element && GST_OBJECT_PARENT(element) == GST_OBJECT_CAST(bin)) {
    if (!g_ptr_array_find(found, peer, NULL)) g_ptr_array_add(found, gst_object_ref(peer));
  } else {
    GstIterator *links = gst_pad_iterate_internal_links(peer);
    GValue value = G_VALUE_INIT;
    GstIteratorResult next = links ? gst_iterator_next(links, &value) : GST_ITERATOR_DONE;
    for (; next == GST_ITERATOR_OK || next == GST_ITERATOR_RESYNC; next = gst_iterator_next(links, &value)) {
      if (next == GST_ITERATOR_RESYNC) {
        gst_iterator_resync(links);
        continue;
      }
      ek_add_pads_in_bin_behind(found, GST_PAD_CAST(g_value_get_object(&value)), bin, steps + 1);
      g_value_reset(&value);
    }
    if (G_IS_VALUE(&value)) g_value_unset(&value);
    if (links) gst_iterator_free(links);
  }
  gst_clear_object(&element);
  gst_object_unref(peer);
}

/* The sink pads, on children of `bin`, to which a source pad further inside leads: a demuxer in between makes several of
 * one stream. Each with a reference; free the array. NULL while none is linked. */
static inline GPtrArray *ek_pads_in_bin_behind(GstPad *source, GstElement *bin) {
  GPtrArray *found = g_ptr_array_new_with_free_func(gst_object_unref);
  ek_add_pads_in_bin_behind(found, source, bin, 0);
  if (found->len) return found;
  g_ptr_array_unref(found);
  return NULL;
}

static inline void ek_add_elements_of_factory(GPtrArray *found, GstElement *start, const char *name) {
  GstElementFactory *factory = gst_element_get_factory(start);
  if (factory && g_strcmp0(GST_OBJECT_NAME(factory), name) == 0 && !g_ptr_array_find(found, start, NULL))
    g_ptr_array_add(found, gst_object_ref(start));
  if (!GST_IS_BIN(start)) return;
  GstIterator *elements = gst_bin_iterate_all_by_element_factory_name(GST_BIN_CAST(start), name);
  GValue value = G_VALUE_INIT;
  GstIteratorResult next = gst_iterator_next(elements, &value);
  for (; next == GST_ITERATOR_OK || next == GST_ITERATOR_RESYNC; next = gst_iterator_next(elements, &value)) {
    if (next == GST_ITERATOR_RESYNC) {
      gst_iterator_resync(elements);
      continue;
    }
    gpointer element = g_value_get_object(&value);
    if (!g_ptr_array_find(found, element, NULL)) g_ptr_array_add(found, gst_object_ref(element));
    g_value_reset(&value);
  }
  if (G_IS_VALUE(&value)) g_value_unset(&value);
  gst_iterator_free(elements);
}

/* The elements of a factory in the outermost bin around the element, and in the sinks and filters that a player was given
 * and has not put there yet. Each with a reference; free the array. */
static inline GPtrArray *ek_elements_of_factory_around(GstElement *element, const char *name) {
  static const char *const sinks[] = {"video-sink", "audio-sink", "video-filter", "audio-filter"};
  GPtrArray *found = g_ptr_array_new_with_free_func(gst_object_unref);
  GstObject *top = gst_object_ref(GST_OBJECT_CAST(element));
  for (GstObject *parent; (parent = gst_object_get_parent(top)); top = parent) gst_object_unref(top);
  ek_add_elements_of_factory(found, GST_ELEMENT_CAST(top), name);
  for (guint i = 0; i < G_N_ELEMENTS(sinks); i++) {
    GParamSpec *property = g_object_class_find_property(G_OBJECT_GET_CLASS(top), sinks[i]);
    GObject *sink = NULL;
    if (!property || !g_type_is_a(property->value_type, GST_TYPE_ELEMENT)) continue;
    g_object_get(top, sinks[i], &sink, NULL);
    if (!sink) continue;
    ek_add_elements_of_factory(found, GST_ELEMENT_CAST(sink), name);
    g_object_unref(sink);
  }
  gst_object_unref(top);
  return found;
}

static inline gboolean ek_is_mute_decoder(GstElement *element) {
  static const GstElementFactoryListType kind =
      GST_ELEMENT_FACTORY_TYPE_DECODER | GST_ELEMENT_FACTORY_TYPE_MEDIA_VIDEO | GST_ELEMENT_FACTORY_TYPE_MEDIA_AUDIO;
  GstElementFactory *factory = gst_element_get_factory(element);
  if (!factory || !gst_element_factory_list_is_type(factory, kind)) return FALSE;
  GstPad *sink = gst_element_get_static_pad(element, "sink"), *source = gst_element_get_static_pad(element, "src");
  gboolean is_mute = sink && source && gst_pad_has_current_caps(sink) && !gst_pad_has_current_caps(source);
  gst_clear_object(&sink);
  gst_clear_object(&source);
  return is_mute;
}

/* Whether the outermost bin around the element has a decoder of pictures or sound that knows what comes in, and has not
 * said what goes out: it has decoded nothing. */
static inline gboolean ek_has_mute_decoder_around(GstElement *element) {
  gboolean found = FALSE;
  GstObject *top = gst_object_ref(GST_OBJECT_CAST(element));
  for (GstObject *parent; (parent = gst_object_get_parent(top)); top = parent) gst_object_unref(top);
  GstIterator *elements = GST_IS_BIN(top) ? gst_bin_iterate_recurse(GST_BIN_CAST(top)) : NULL;
  GValue value = G_VALUE_INIT;
  GstIteratorResult next = elements ? gst_iterator_next(elements, &value) : GST_ITERATOR_DONE;
  for (; next == GST_ITERATOR_OK || next == GST_ITERATOR_RESYNC; next = gst_iterator_next(elements, &value)) {
    if (next == GST_ITERATOR_RESYNC) {
      gst_iterator_resync(elements);
      continue;
    }
    found = found || ek_is_mute_decoder(GST_ELEMENT_CAST(g_value_get_object(&value)));
    g_value_reset(&value);
  }
  if (G_IS_VALUE(&value)) g_value_unset(&value);
  if (elements) gst_iterator_free(elements);
  gst_object_unref(top);
  return found;
}

/* Whether messages of the element come to a bus that takes them: that of a pipeline at NULL does not. */
static inline gboolean ek_has_listener(GstElement *element) {
  GstObject *top = gst_object_ref(GST_OBJECT_CAST(element));
  for (GstObject *parent; (parent = gst_object_get_parent(top)); top = parent) gst_object_unref(top);
  GstBus *bus = gst_element_get_bus(GST_ELEMENT_CAST(top));
  gboolean takes = bus && !GST_OBJECT_FLAG_IS_SET(bus, GST_BUS_FLUSHING);
  gst_clear_object(&bus);
  gst_object_unref(top);
  return takes;
}

/* Whether the bin around the element knows streams and their selection, as those of playbin3 do. */
static inline gboolean ek_parent_is_streams_aware(GstElement *element) {
  GstObject *parent = gst_object_get_parent(GST_OBJECT_CAST(element));
  gboolean is_aware = parent && GST_IS_BIN(parent) && GST_OBJECT_FLAG_IS_SET(parent, GST_BIN_FLAG_STREAMS_AWARE);
  gst_clear_object(&parent);
  return is_aware;
}
static inline void ek_set_streams_aware(GstElement *bin) { GST_OBJECT_FLAG_SET(bin, GST_BIN_FLAG_STREAMS_AWARE); }

static inline GstPad *ek_ghost_pad(const char *name, GstPad *target, GstPadTemplate *templ) {
  return templ ? gst_ghost_pad_new_from_template(name, target, templ) : gst_ghost_pad_new(name, target);
}
/* The inner end of a ghost pad, with a reference; NULL for other pads. */
static inline GstPad *ek_ghost_pad_entrance(GstPad *pad) {
  return GST_IS_GHOST_PAD(pad) ? GST_PAD_CAST(gst_proxy_pad_get_internal(GST_PROXY_PAD(pad))) : NULL;
}
/* The pad where the stream that came to a pad goes on, behind the element or the bin's border; NULL where it branches or
   ends. With a reference. */
static inline GstPad *ek_way_out(GstPad *arrival) {
  GstPad *out = NULL;
  GstIterator *links = gst_pad_iterate_internal_links(arrival);
  GValue link = G_VALUE_INIT;
  if (!links) return NULL;
  if (gst_iterator_next(links, &link) == GST_ITERATOR_OK) {
    out = GST_PAD_CAST(g_value_dup_object(&link));
    g_value_reset(&link);
    if (gst_iterator_next(links, &link) == GST_ITERATOR_OK) gst_clear_object(&out);
    g_value_unset(&link);
  }
  gst_iterator_free(links);
  return out;
}
/* The event with which an HTTP source in front of the sink pad tells of the answer that it got, with a reference; NULL
 * where there is none. The elements in between may hold it back still: each pad is looked at. */
static inline GstEvent *ek_http_headers_in_front(GstPad *sink) {
  GstEvent *found = NULL;
  GstPad *pad = GST_PAD_CAST(gst_object_ref(sink));
  for (int step = 0; pad && !found && step < 64; step++) {
    GstPad *source = NULL;
    for (guint i = 0; !found; i++) {
      GstEvent *event = gst_pad_get_sticky_event(pad, GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, i);
      if (!event) break;
      if (gst_event_has_name(event, "http-headers")) found = event;
      else gst_event_unref(event);
    }
    /* A source pad's inner side is a sink pad, and in front of that is another source pad. */
    source = GST_PAD_IS_SINK(pad) ? gst_pad_get_peer(pad) : ek_way_out(pad);
    gst_object_unref(pad);
    pad = source;
  }
  gst_clear_object(&pad);
  return found;
}
/* The GstBaseSink that shows what leaves the source pad, with a reference; NULL where there is none, or several. */
static inline GstBaseSink *ek_base_sink_behind(GstPad *source) {
  GstBaseSink *sink = NULL;
  GstPad *pad = GST_PAD_CAST(gst_object_ref(source));
  for (int step = 0; pad && !sink && step < 64; step++) {
    GstPad *arrival = gst_pad_get_peer(pad);
    gst_clear_object(&pad);
    if (!arrival) break;
    GstElement *element = gst_pad_get_parent_element(arrival);
    if (element && GST_IS_BASE_SINK(element)) {
      sink = GST_BASE_SINK_CAST(element);
    } else {
      gst_clear_object(&element);
      pad = ek_way_out(arrival);
    }
    gst_object_unref(arrival);
  }
  gst_clear_object(&pad);
  return sink;
}
static inline gboolean ek_value_holds_caps(const GValue *value) { return GST_VALUE_HOLDS_CAPS(value); }

/* The pads to which what comes to the sink pad may go on: through its element, or through the border of a bin. Each with a
 * reference; free the array. */
static inline GPtrArray *ek_internal_links(GstPad *arrival) {
  GPtrArray *found = g_ptr_array_new_with_free_func(gst_object_unref);
  GstIterator *links = gst_pad_iterate_internal_links(arrival);
  GValue value = G_VALUE_INIT;
  GstIteratorResult next = links ? gst_iterator_next(links, &value) : GST_ITERATOR_DONE;
  for (; next == GST_ITERATOR_OK || next == GST_ITERATOR_RESYNC; next = gst_iterator_next(links, &value)) {
    if (next == GST_ITERATOR_RESYNC) {
      gst_iterator_resync(links);
      g_ptr_array_set_size(found, 0);
      continue;
    }
    g_ptr_array_add(found, g_value_dup_object(&value));
    g_value_reset(&value);
  }
  if (G_IS_VALUE(&value)) g_value_unset(&value);
  if (links) gst_iterator_free(links);
  return found;
}
/* Whether the element has a template of source pads with this presence. */
static inline gboolean ek_has_source_template(GstElement *element, GstPadPresence presence) {
  for (GList *item = gst_element_get_pad_template_list(element); item; item = item->next) {
    GstPadTemplate *templ = GST_PAD_TEMPLATE(item->data);
    if (GST_PAD_TEMPLATE_DIRECTION(templ) == GST_PAD_SRC && GST_PAD_TEMPLATE_PRESENCE(templ) == presence) return TRUE;
  }
  return FALSE;
}
/* Whether the pad was made from a template with this presence. */
static inline gboolean ek_has_presence(GstPad *pad, GstPadPresence presence) {
  GstPadTemplate *templ = gst_pad_get_pad_template(pad);
  gboolean has = templ && GST_PAD_TEMPLATE_PRESENCE(templ) == presence;
  gst_clear_object(&templ);
  return has;
}
static inline gboolean ek_is_flagged_as_sink(GstElement *element) {
  return GST_OBJECT_FLAG_IS_SET(element, GST_ELEMENT_FLAG_SINK);
}
/* Whether the element is, or is in, the element that a property of the outermost bin around `start` has. */
static inline gboolean ek_is_in_property_around(GstElement *start, const char *name, GstElement *element) {
  GstObject *top = gst_object_ref(GST_OBJECT_CAST(start));
  for (GstObject *parent; (parent = gst_object_get_parent(top)); top = parent) gst_object_unref(top);
  GParamSpec *property = g_object_class_find_property(G_OBJECT_GET_CLASS(top), name);
  GstObject *value = NULL;
  if (property && g_type_is_a(property->value_type, GST_TYPE_ELEMENT)) g_object_get(top, name, &value, NULL);
  gst_object_unref(top);
  if (!value) return FALSE;
  gboolean is_in =
      value == GST_OBJECT_CAST(element) || gst_object_has_as_ancestor(GST_OBJECT_CAST(element), value);
  gst_object_unref(value);
  return is_in;
}
/* A reference to the feature, with its plug-in in the process; the caller's. NULL where that fails. */
static inline void *ek_load_feature(void *feature) { return gst_plugin_feature_load(GST_PLUGIN_FEATURE(feature)); }
static inline int ek_message_type(const GstMessage *message) { return GST_MESSAGE_TYPE(message); }
static inline GstObject *ek_message_source(const GstMessage *message) { return GST_MESSAGE_SRC(message); }

static inline GstEventType ek_probed_event_type(GstPadProbeInfo *info) {
  return GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info));
}

static inline GstDebugCategory *ek_debug_category(const char *name, const char *description) {
  GstDebugCategory *category = NULL;
#ifndef GST_DISABLE_GST_DEBUG
  category = _gst_debug_category_new(name, 0, description);
#endif
  return category;
}
static inline gboolean ek_debug_is_on(GstDebugCategory *category, int level) {
  return level <= (int)_gst_debug_min && category && level <= (int)gst_debug_category_get_threshold(category);
}

static inline guint64 ek_monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (guint64)now.tv_sec * 1000000000u + (guint64)now.tv_nsec;
}

#endif

/* SPDX-License-Identifier: MPL-2.0 */
/* Frames that say nothing, or less: what GstVideoFormatInfo's row functions do, for any raw format. */
#ifndef LATCHKEY_CGSTREAMER_VIDEO_H
#define LATCHKEY_CGSTREAMER_VIDEO_H

#include <gst/video/video.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The caps with frames in plain memory. */
static inline gboolean ek_caps_are_in_system_memory(const GstCaps *caps) {
  for (guint i = 0; i < gst_caps_get_size(caps); i++)
    if (!gst_caps_features_is_equal(gst_caps_get_features(caps, i), GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY))
      return FALSE;
  return TRUE;
}

static inline void ek_pack_row(GstVideoFrame *frame, guint8 *row, int stride, int y) {
  const GstVideoFormatInfo *format = frame->info.finfo;
  format->pack_func(format, GST_VIDEO_PACK_FLAG_NONE, row, stride, frame->data, frame->info.stride,
                    frame->info.chroma_site, y, GST_VIDEO_INFO_WIDTH(&frame->info));
}

/* Bytes of one row in the form in which the format's rows are read and written: four components of 8 or 16 bits. */
static inline gsize ek_row_size(const GstVideoInfo *info) {
  const GstVideoFormatInfo *unpacked = gst_video_format_get_info(info->finfo->unpack_format);
  return (gsize)(GST_VIDEO_INFO_WIDTH(info) + 16) * (GST_VIDEO_FORMAT_INFO_BITS(unpacked) > 8 ? 8 : 4);
}

static inline gboolean ek_can_pack(const GstVideoInfo *info) {
  /* Of alternating fields, a buffer has half of the lines. */
  return info->finfo->pack_func && info->finfo->unpack_func && info->finfo->pack_lines == 1 &&
         info->interlace_mode != GST_VIDEO_INTERLACE_MODE_ALTERNATE;
}

/* Makes a frame black or white. */
static inline gboolean ek_video_fill(GstBuffer *buffer, GstVideoInfo *info, gboolean white) {
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, info, buffer, GST_MAP_WRITE)) return FALSE;
  const GstVideoFormatInfo *unpacked = gst_video_format_get_info(info->finfo->unpack_format);
  gboolean is_wide = GST_VIDEO_FORMAT_INFO_BITS(unpacked) > 8;
  gboolean is_full = info->colorimetry.range == GST_VIDEO_COLOR_RANGE_0_255;
  guint8 luma = white ? (is_full ? 255 : 235) : (is_full ? 0 : 16);
  guint8 pixel[4] = {255, white ? 255 : 0, white ? 255 : 0, white ? 255 : 0};
  if (GST_VIDEO_FORMAT_INFO_IS_YUV(unpacked)) {
    pixel[1] = luma;
    pixel[2] = pixel[3] = 128;
  }
  guint8 *row = g_malloc0(ek_row_size(info));
  for (int i = 0; i < GST_VIDEO_INFO_WIDTH(info) * 4; i++) {
    if (is_wide)
      ((guint16 *)row)[i] = pixel[i % 4] == 255 ? 65535 : (guint16)(pixel[i % 4] << 8);
    else
      row[i] = pixel[i % 4];
  }
  for (int y = 0; y < GST_VIDEO_INFO_HEIGHT(info); y++) ek_pack_row(&frame, row, 0, y);
  g_free(row);
  gst_video_frame_unmap(&frame);
  return TRUE;
}

/* A frame in one color, black or white, in plain memory. NULL where the caps are no raw video of a known format. */
static inline GstBuffer *ek_video_plain_frame(const GstCaps *caps, gboolean white) {
  GstVideoInfo info;
  if (!gst_video_info_from_caps(&info, caps) || !ek_can_pack(&info)) return NULL;
  GstBuffer *buffer = gst_buffer_new_allocate(NULL, GST_VIDEO_INFO_SIZE(&info), NULL);
  if (!buffer) return NULL;
  gst_buffer_memset(buffer, 0, 0, GST_VIDEO_INFO_SIZE(&info));
  if (!ek_video_fill(buffer, &info, white)) gst_clear_buffer(&buffer);
  return buffer;
}

/* What the frame itself says of its format; caps with modifiers do not. */
static inline GstVideoFormat ek_video_format_of(GstBuffer *frame, guint *width, guint *height) {
  GstVideoMeta *meta = gst_buffer_get_video_meta(frame);
  if (!meta) return GST_VIDEO_FORMAT_UNKNOWN;
  *width = meta->width;
  *height = meta->height;
  return meta->format;
}

/* The same in the kind of memory that a pool has, of the caps' format or, where they name none, of `format`. NULL where
 * the pool has no frame left at this moment, or where the CPU may not write there. */
static inline GstBuffer *ek_video_plain_frame_from(GstBufferPool *pool, const GstCaps *caps, GstVideoFormat format,
                                                   guint width, guint height, gboolean white) {
  GstBufferPoolAcquireParams params = {.format = GST_FORMAT_DEFAULT, .flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT};
  GstVideoInfo info;
  GstBuffer *buffer = NULL;
  if (!(gst_video_info_from_caps(&info, caps) && ek_can_pack(&info)) &&
      (format == GST_VIDEO_FORMAT_UNKNOWN || !gst_video_info_set_format(&info, format, width, height) ||
       !ek_can_pack(&info)))
    return NULL;
  if (gst_buffer_pool_acquire_buffer(pool, &buffer, &params) != GST_FLOW_OK) return NULL;
  gboolean is_plain = TRUE;
  for (guint i = 0; i < gst_buffer_n_memory(buffer); i++)
    if (GST_MEMORY_FLAG_IS_SET(gst_buffer_peek_memory(buffer, i), GST_MEMORY_FLAG_NOT_MAPPABLE)) is_plain = FALSE;
  if (!is_plain || !ek_video_fill(buffer, &info, white)) gst_clear_buffer(&buffer);
  return buffer;
}

/* A copy of a frame in plain memory in which blocks of pixels have one color, so that at most `pixels` are left. NULL
 * where the frame cannot be read. */
static inline GstBuffer *ek_video_constricted(GstBuffer *source, const GstCaps *caps, guint64 pixels) {
  GstVideoInfo info;
  GstVideoFrame in, out;
  if (!gst_video_info_from_caps(&info, caps) || !ek_can_pack(&info)) return NULL;
  int width = GST_VIDEO_INFO_WIDTH(&info), height = GST_VIDEO_INFO_HEIGHT(&info), side = 1;
  if (pixels < 1 || width < 1 || height < 1) return NULL;
  while ((guint64)((width + side - 1) / side) * (guint64)((height + side - 1) / side) > pixels) side++;
  GstBuffer *buffer = gst_buffer_new_allocate(NULL, GST_VIDEO_INFO_SIZE(&info), NULL);
  if (!buffer) return NULL;
  if (!gst_video_frame_map(&in, &info, source, GST_MAP_READ)) {
    gst_buffer_unref(buffer);
    return NULL;
  }
  if (!gst_video_frame_map(&out, &info, buffer, GST_MAP_WRITE)) {
    gst_video_frame_unmap(&in);
    gst_buffer_unref(buffer);
    return NULL;
  }
  const GstVideoFormatInfo *format = info.finfo;
  gsize size = GST_VIDEO_FORMAT_INFO_BITS(gst_video_format_get_info(format->unpack_format)) > 8 ? 8 : 4;
  guint8 *row = g_malloc0(ek_row_size(&info));
  for (int top = 0; top < height; top += side) {
    format->unpack_func(format, GST_VIDEO_PACK_FLAG_NONE, row, in.data, in.info.stride, 0, top, width);
    for (int x = 0; x < width; x++)
      if (x % side) memcpy(row + (gsize)x * size, row + (gsize)(x - x % side) * size, size);
    for (int y = top; y < MIN(top + side, height); y++) ek_pack_row(&out, row, 0, y);
  }
  g_free(row);
  gst_video_frame_unmap(&out);
  gst_video_frame_unmap(&in);
  gst_buffer_copy_into(buffer, source, GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS, 0, -1);
  return buffer;
}

/* A file that lies in memory alone, not inherited; -1 where there is none. */
static inline int ek_memory_file(void) { return (int)syscall(SYS_memfd_create, "picture", 1U); }

/* What a sink got last, with its caps; NULL for nothing. */
static inline GstSample *ek_last_sample(GstElement *sink) {
  GstSample *sample = NULL;
  g_object_get(sink, "last-sample", &sample, NULL);
  return sample;
}

static inline void ek_sample_unref(GstSample *sample) { gst_sample_unref(sample); }

/* A picture with square pixels as a frame of other caps, in plain memory: as large as it fits, black around it. NULL
 * where either caps are no raw video of a known format. */
static inline GstBuffer *ek_video_fitted(GstSample *picture, const GstCaps *caps) {
  GstVideoInfo from, to;
  GstVideoFrame in, out;
  if (!gst_video_info_from_caps(&from, gst_sample_get_caps(picture)) || !gst_video_info_from_caps(&to, caps) ||
      !ek_can_pack(&to))
    return NULL;
  /* The converter changes neither. */
  from.fps_n = to.fps_n = 0;
  from.fps_d = to.fps_d = 1;
  from.interlace_mode = to.interlace_mode = GST_VIDEO_INTERLACE_MODE_PROGRESSIVE;
  gint width = GST_VIDEO_INFO_WIDTH(&to), height = GST_VIDEO_INFO_HEIGHT(&to);
  guint64 across = (guint64)MAX(to.par_d, 1) * GST_VIDEO_INFO_WIDTH(&from);
  guint64 along = (guint64)MAX(to.par_n, 1) * GST_VIDEO_INFO_HEIGHT(&from);
  if (width < 1 || height < 1 || !across || !along) return NULL;
  gint wide = width, high = height;
  if (gst_util_uint64_scale(height, across, along) <= (guint64)width)
    wide = MAX((gint)gst_util_uint64_scale(height, across, along), 1);
  else
    high = MAX((gint)gst_util_uint64_scale(width, along, across), 1);
  GstVideoConverter *converter = gst_video_converter_new(
      &from, &to,
      gst_structure_new("options", GST_VIDEO_CONVERTER_OPT_DEST_X, G_TYPE_INT, (width - wide) / 2,
                        GST_VIDEO_CONVERTER_OPT_DEST_Y, G_TYPE_INT, (height - high) / 2,
                        GST_VIDEO_CONVERTER_OPT_DEST_WIDTH, G_TYPE_INT, wide, GST_VIDEO_CONVERTER_OPT_DEST_HEIGHT,
                        G_TYPE_INT, high, NULL));
  if (!converter) return NULL;
  GstBuffer *buffer = gst_buffer_new_allocate(NULL, GST_VIDEO_INFO_SIZE(&to), NULL);
  gboolean is_made = FALSE;
  if (buffer && gst_video_frame_map(&in, &from, gst_sample_get_buffer(picture), GST_MAP_READ)) {
    if (gst_video_frame_map(&out, &to, buffer, GST_MAP_WRITE)) {
      gst_video_converter_frame(converter, &in, &out);
      gst_video_frame_unmap(&out);
      is_made = TRUE;
    }
    gst_video_frame_unmap(&in);
  }
  if (!is_made) gst_clear_buffer(&buffer);
  gst_video_converter_free(converter);
  return buffer;
}

static inline gboolean ek_video_size(const GstCaps *caps, int *width, int *height) {
  GstStructure *structure = gst_caps_get_size(caps) ? gst_caps_get_structure(caps, 0) : NULL;
  return structure && gst_structure_get_int(structure, "width", width) &&
         gst_structure_get_int(structure, "height", height);
}

static inline gboolean ek_resend_sticky(GstPad *pad, GstEvent **event, gpointer data) {
  GstPad *target = data;
  GstEventType type = GST_EVENT_TYPE(*event);
  if (type == GST_EVENT_EOS) return TRUE;
  GstEvent *known = gst_pad_get_sticky_event(target, type, 0);
  gboolean is_single = type == GST_EVENT_STREAM_START || type == GST_EVENT_CAPS || type == GST_EVENT_SEGMENT;
  if (!known || (is_single && known != *event)) gst_pad_push_event(target, gst_event_ref(*event));
  if (known) gst_event_unref(known);
  return TRUE;
}
/* Sends the sticky events of a sink pad, but the end, that a source pad lost in a flush. */
static inline void ek_resend_sticky_events(GstPad *sink, GstPad *source) {
  gst_pad_sticky_events_foreach(sink, ek_resend_sticky, source);
}
static inline gboolean ek_pad_has_ended(GstPad *sink) {
  GstEvent *end = gst_pad_get_sticky_event(sink, GST_EVENT_EOS, 0);
  if (end) gst_event_unref(end);
  return end != NULL;
}

static inline void ek_pad_set_proxy(GstPad *pad, gboolean allocation) {
  GST_PAD_SET_PROXY_CAPS(pad);
  GST_PAD_SET_PROXY_SCHEDULING(pad);
  if (allocation) GST_PAD_SET_PROXY_ALLOCATION(pad);
}

#endif

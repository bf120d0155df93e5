/* SPDX-License-Identifier: MPL-2.0 */
/*
 * Runs GStreamer pipelines inside one process, in turn, and measures each from construction to disposal. Plug-ins are
 * loaded by a round that does not count, so that what is left is the work on the stream.
 *
 *   pipelines cpu ROUNDS PIPELINE…   each round runs every pipeline once; a line a round: "CPU WALL" of each, in s
 *   pipelines sum PIPELINE           SHA-256 of all bytes that reach the element named "out", and how many buffers
 *   pipelines mallocs PIPELINE       allocations per buffer in the middle of the stream (needs the preload library)
 *   pipelines memory PIPELINE [FACTORY]   the process's peak resident memory in KiB; an element of FACTORY is made first
 *   pipelines start ROUNDS URI…      each round plays every URI with playbin3 up to the first picture, "stock:URI" with
 *                                    GStreamer's own HLS demuxer; a line a round: "WAIT CPU" of each, in s
 *   pipelines player URI             the KiB of resident memory of the process with a playbin3 in READY, then the
 *                                    ms from GStreamer's initialization to its first picture
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gst/gst.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

typedef GstPadProbeReturn (*Probe)(GstPad *, GstPadProbeInfo *, gpointer);

static void play(const char *description, Probe probe, gpointer data) {
  GError *error = NULL;
  GstElement *pipeline = gst_parse_launch(description, &error);
  if (!pipeline || error) {
    fprintf(stderr, "%s: %s\n", description, error ? error->message : "no pipeline");
    exit(1);
  }
  if (probe) {
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "out");
    if (!sink) {
      fprintf(stderr, "%s: nothing is named \"out\"\n", description);
      exit(1);
    }
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, probe, data, NULL);
    gst_object_unref(pad);
    gst_object_unref(sink);
  }
  GstBus *bus = gst_element_get_bus(pipeline);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstMessage *message = gst_bus_timed_pop_filtered(bus, 120 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  if (!message || GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
    if (message) gst_message_parse_error(message, &error, NULL);
    fprintf(stderr, "%s: %s\n", description, error ? error->message : "no end within 120 s");
    exit(1);
  }
  gst_message_unref(message);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(pipeline);
}

typedef struct {
  GChecksum *sum;
  unsigned long buffers;
} Sum;

static GstPadProbeReturn add(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  Sum *sum = data;
  GstMapInfo map;
  if (gst_buffer_map(GST_PAD_PROBE_INFO_BUFFER(info), &map, GST_MAP_READ)) {
    g_checksum_update(sum->sum, map.data, map.size);
    gst_buffer_unmap(GST_PAD_PROBE_INFO_BUFFER(info), &map);
  }
  sum->buffers++;
  return GST_PAD_PROBE_OK;
}

/* Start and end of the counted part: what happens once, as reading the key, is over before it. */
enum { FIRST = 1000, LAST = 2900 };

typedef struct {
  unsigned long (*count)(void);
  unsigned long buffers, first, last;
} Mallocs;

static GstPadProbeReturn look(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  Mallocs *mallocs = data;
  mallocs->buffers++;
  if (mallocs->buffers == FIRST) mallocs->first = mallocs->count();
  if (mallocs->buffers == LAST) mallocs->last = mallocs->count();
  return GST_PAD_PROBE_OK;
}

static int peak_memory(void) {
  char line[256];
  int kibibytes = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "VmHWM: %d", &kibibytes) == 1) break;
  if (status) fclose(status);
  return kibibytes;
}

typedef struct {
  GMutex lock;
  GCond changed;
  double wait, cpu;
  gboolean failed;
} Start;

static GstPadProbeReturn picture(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  GstCaps *caps = gst_pad_get_current_caps(pad);
  if (caps && g_str_has_prefix(gst_structure_get_name(gst_caps_get_structure(caps, 0)), "video/x-raw")) {
    Start *start = data;
    g_mutex_lock(&start->lock);
    if (start->wait == 0) start->wait = seconds(CLOCK_MONOTONIC), start->cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    g_cond_broadcast(&start->changed);
    g_mutex_unlock(&start->lock);
  }
  if (caps) gst_caps_unref(caps);
  return GST_PAD_PROBE_OK;
}

static GstBusSyncReply message(GstBus *bus, GstMessage *message, gpointer data) {
  Start *start = data;
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
    GError *error = NULL;
    gst_message_parse_error(message, &error, NULL);
    fprintf(stderr, "%s\n", error->message);
    g_error_free(error);
    g_mutex_lock(&start->lock);
    start->failed = TRUE;
    g_cond_broadcast(&start->changed);
    g_mutex_unlock(&start->lock);
  }
  gst_message_unref(message);
  return GST_BUS_DROP;
}

/* Audio and video, from nothing to the first picture. */
static void first_picture(const char *uri, double *wait, double *cpu) {
  gboolean is_stock = g_str_has_prefix(uri, "stock:");
  GstPluginFeature *wrapper = gst_registry_lookup_feature(gst_registry_get(), "latchkeyhlsdemux");
  if (!wrapper) {
    fprintf(stderr, "there is no factory latchkeyhlsdemux\n");
    exit(1);
  }
  guint rank = gst_plugin_feature_get_rank(wrapper);
  if (is_stock) gst_plugin_feature_set_rank(wrapper, GST_RANK_NONE);
  Start start = {0};
  GstElement *player = gst_element_factory_make("playbin3", NULL);
  GstElement *video = gst_element_factory_make("fakesink", NULL), *audio = gst_element_factory_make("fakesink", NULL);
  GstPad *pad = gst_element_get_static_pad(video, "sink");
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, picture, &start, NULL);
  gst_object_unref(pad);
  g_object_set(player, "uri", is_stock ? uri + strlen("stock:") : uri, "video-sink", video, "audio-sink", audio, NULL);
  GstBus *bus = gst_element_get_bus(player);
  gst_bus_set_sync_handler(bus, message, &start, NULL);
  double begin = seconds(CLOCK_MONOTONIC), cpu_begin = seconds(CLOCK_PROCESS_CPUTIME_ID);
  gst_element_set_state(player, GST_STATE_PAUSED);
  gint64 end = g_get_monotonic_time() + 30 * G_TIME_SPAN_SECOND;
  g_mutex_lock(&start.lock);
  while (start.wait == 0 && !start.failed && g_cond_wait_until(&start.changed, &start.lock, end)) continue;
  g_mutex_unlock(&start.lock);
  gst_element_set_state(player, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(player);
  gst_plugin_feature_set_rank(wrapper, rank);
  gst_object_unref(wrapper);
  if (start.wait == 0) {
    fprintf(stderr, "%s: no picture\n", uri);
    exit(1);
  }
  *wait = start.wait - begin;
  *cpu = start.cpu - cpu_begin;
}

static long resident_size(void) {
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  long size = 0;
  while (file && fgets(line, sizeof line, file) && sscanf(line, "Rss: %ld", &size) != 1) {
  }
  if (file) fclose(file);
  return size;
}

static GstPadProbeReturn note_time(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  *(double *)data = seconds(CLOCK_MONOTONIC);
  return GST_PAD_PROBE_REMOVE;
}

/* As Agent/AgentBenchmark.swift does it. */
static void bare_player(const char *uri) {
  double start = seconds(CLOCK_MONOTONIC), picture = 0;
  GstElement *player = gst_element_factory_make("playbin3", NULL);
  GstElement *video = gst_element_factory_make("fakesink", NULL), *audio = gst_element_factory_make("fakesink", NULL);
  if (!player || !video || !audio) exit(1);
  g_object_set(player, "uri", uri, "video-sink", video, "audio-sink", audio, NULL);
  gst_element_set_state(player, GST_STATE_READY);
  double made = seconds(CLOCK_MONOTONIC);
  long memory = resident_size();
  double begun = seconds(CLOCK_MONOTONIC);
  GstPad *pad = gst_element_get_static_pad(video, "sink");
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, note_time, &picture, NULL);
  gst_object_unref(pad);
  gst_element_set_state(player, GST_STATE_PLAYING);
  if (gst_element_get_state(player, NULL, NULL, 20 * GST_SECOND) != GST_STATE_CHANGE_SUCCESS) {
    fprintf(stderr, "%s: no picture\n", uri);
    exit(1);
  }
  printf("%ld %.3f\n", memory, (made - start + picture - begun) * 1e3);
  gst_element_set_state(player, GST_STATE_NULL);
  gst_object_unref(player);
}

int main(int argc, char **argv) {
  gst_init(NULL, NULL);
  const char *mode = argc > 2 ? argv[1] : "";
  if (!strcmp(mode, "cpu") && argc > 3) {
    int rounds = atoi(argv[2]);
    for (int i = 3; i < argc; i++) play(argv[i], NULL, NULL);
    for (int round = 0; round < rounds; round++) {
      for (int i = 3; i < argc; i++) {
        double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
        play(argv[i], NULL, NULL);
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, wall = seconds(CLOCK_MONOTONIC) - wall;
        printf("%s%.6f %.6f", i > 3 ? " " : "", cpu, wall);
      }
      printf("\n");
      fflush(stdout);
    }
  } else if (!strcmp(mode, "sum")) {
    Sum sum = {g_checksum_new(G_CHECKSUM_SHA256), 0};
    play(argv[2], add, &sum);
    printf("%s %lu\n", g_checksum_get_string(sum.sum), sum.buffers);
  } else if (!strcmp(mode, "mallocs")) {
    Mallocs mallocs = {(unsigned long (*)(void))dlsym(RTLD_DEFAULT, "counted_mallocs"), 0, 0, 0};
    if (!mallocs.count) {
      fprintf(stderr, "the counting library is not preloaded\n");
      return 1;
    }
    play(argv[2], look, &mallocs);
    if (mallocs.buffers < LAST) {
      fprintf(stderr, "the stream has only %lu buffers\n", mallocs.buffers);
      return 1;
    }
    printf("%.4f\n", (double)(mallocs.last - mallocs.first) / (LAST - FIRST));
  } else if (!strcmp(mode, "memory")) {
    GstElement *element = argc > 3 ? gst_element_factory_make(argv[3], NULL) : NULL;
    if (argc > 3 && !element) {
      fprintf(stderr, "there is no factory %s\n", argv[3]);
      return 1;
    }
    if (element) gst_object_unref(gst_object_ref_sink(element));
    play(argv[2], NULL, NULL);
    printf("%d\n", peak_memory());
  } else if (!strcmp(mode, "player")) {
    bare_player(argv[2]);
  } else if (!strcmp(mode, "start") && argc > 3) {
    int rounds = atoi(argv[2]);
    double wait, cpu;
    for (int i = 3; i < argc; i++) first_picture(argv[i], &wait, &cpu);
    for (int round = 0; round < rounds; round++) {
      for (int i = 3; i < argc; i++) {
        first_picture(argv[i], &wait, &cpu);
        printf("%s%.6f %.6f", i > 3 ? " " : "", wait, cpu);
      }
      printf("\n");
      fflush(stdout);
    }
  } else {
    fprintf(stderr, "usage: pipelines cpu ROUNDS PIPELINE… | sum PIPELINE | mallocs PIPELINE | memory PIPELINE [FACTORY] | "
                    "start ROUNDS URI…\n");
    return 2;
  }
  return 0;
}

/* SPDX-License-Identifier: MPL-2.0 */

/* The C interface for secure decryptors, used as a platform uses it: a trusted environment in C decrypts into memory that
   the CPU may not see, for a decoder that stands in for a hardware. Needs no other plug-in than ours. Run by
   `meson test`. */

#include <latchkey.h>
#include <string.h>

#include "../CGStreamerCheck/stand_in_decoder.h"

/* NIST SP 800-38A, F.5.1: AES-128 in counter mode, the first block. */
static const guint8 KEY[16] = {
  0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c
};
static const guint8 IV[16] = {
  0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff
};
static const guint8 CLEAR[16] = {
  0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96, 0xe9, 0x3d, 0x7e, 0x11, 0x73, 0x93, 0x17, 0x2a
};
static const guint8 ENCRYPTED[16] = {
  0x87, 0x4d, 0x61, 0x91, 0xb6, 0x20, 0xe3, 0x26, 0x1b, 0xef, 0x68, 0x64, 0x99, 0x0d, 0xb6, 0xce
};
static const guint8 KEY_ID[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
#define KEYS "000102030405060708090a0b0c0d0e0f:2b7e151628aed2a6abf7158809cf4f3c"
#define CAPS "application/x-cenc, original-media-type=video/x-h264, cipher-mode=cenc, width=16"

/* What the environment sees, and what it is to do. Everything runs on the test's own thread. */
typedef struct {
  const char *refusal, *failure;
  gboolean declines;
  guint asked, created, decrypted, copied, freed, destroyed;
  LatchkeyScheme scheme;
  uint8_t crypt, skip;
  size_t subsamples;
  uint32_t clear_bytes, protected_bytes;
  gboolean has_key_id;
} Environment;

static int
takes (LatchkeySecureStream *stream, void *user_data)
{
  Environment *environment = user_data;
  environment->asked++;
  g_assert_cmpstr (latchkey_secure_stream_get_media_type (stream), ==, "video/x-h264");
  g_assert_nonnull (strstr (latchkey_secure_stream_get_caps (stream), "width=(int)16"));
  return !environment->declines;
}

static void *
create (LatchkeySecureStream *stream, void *user_data)
{
  Environment *environment = user_data;
  g_assert_nonnull (strstr (latchkey_secure_stream_get_caps (stream), "memory:TestSecure"));
  if (environment->refusal) {
    latchkey_secure_stream_set_error (stream, environment->refusal);
    return NULL;
  }
  environment->created++;
  return environment;
}

static int
decrypt (void *decryptor, LatchkeySecureSample *sample)
{
  Environment *environment = decryptor;
  GstMemory *memory = latchkey_secure_sample_get_memory (sample);
  size_t size = 0, count = latchkey_secure_sample_get_subsample_count (sample);
  const uint8_t *data = latchkey_secure_sample_get_data (sample, &size), *key_id;
  uint8_t *hidden = ekt_secure_bytes (memory);
  uint32_t clear_bytes = 1, protected_bytes = 1;

  g_assert_nonnull (hidden);
  g_assert_cmpuint (gst_memory_get_sizes (memory, NULL, NULL), ==, size);
  if (environment->failure) {
    latchkey_secure_sample_set_error (sample, environment->failure);
    return 0;
  }
  environment->scheme = latchkey_secure_sample_get_scheme (sample);
  if (environment->scheme == LATCHKEY_SCHEME_NONE) {
    g_assert_null (latchkey_secure_sample_get_key (sample));
    g_assert_null (latchkey_secure_sample_get_iv (sample));
    g_assert_cmpuint (count, ==, 0);
    memcpy (hidden, data, size);
    environment->copied++;
    return 1;
  }
  g_assert_cmpmem (latchkey_secure_sample_get_key (sample), 16, KEY, 16);
  g_assert_cmpmem (latchkey_secure_sample_get_iv (sample), 16, IV, 16);
  key_id = latchkey_secure_sample_get_key_id (sample);
  environment->has_key_id = key_id != NULL;
  if (key_id)
    g_assert_cmpmem (key_id, 16, KEY_ID, 16);
  latchkey_secure_sample_get_pattern (sample, &environment->crypt, &environment->skip);
  environment->subsamples = count;
  if (count > 0)
    g_assert_true (latchkey_secure_sample_get_subsample (sample, 0, &environment->clear_bytes,
            &environment->protected_bytes));
  g_assert_false (latchkey_secure_sample_get_subsample (sample, count, &clear_bytes, &protected_bytes));
  g_assert_cmpuint (clear_bytes + protected_bytes, ==, 0);
  /* The whole of what this environment can: the block of the vector, wherever it stands. */
  memcpy (hidden, data, size);
  for (size_t i = 0; i + 16 <= size; i++)
    if (memcmp (data + i, ENCRYPTED, 16) == 0)
      memcpy (hidden + i, CLEAR, 16);
  environment->decrypted++;
  return 1;
}

static void
freed (void *decryptor)
{
  ((Environment *) decryptor)->freed++;
}

static void
destroyed (void *user_data)
{
  ((Environment *) user_data)->destroyed++;
}

static LatchkeySecureDecryptorFunctions
functions (void)
{
  return (LatchkeySecureDecryptorFunctions) {
    .size = sizeof (LatchkeySecureDecryptorFunctions), .memory_feature = "memory:TestSecure", .takes = takes,
    .create = create, .decrypt = decrypt, .free = freed,
  };
}

/* A decryptor in front of the stand-in decoder, between two pads of the test's own. */
typedef struct {
  GstElement *pipeline, *decryptor, *decoder;
  GstAllocator *allocator;
  GstPad *source, *sink;
  GstBus *bus;
  GstBuffer *output;
} Bench;

static GstFlowReturn
take (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  Bench *bench = g_object_get_data (G_OBJECT (pad), "bench");
  (void) parent;
  gst_clear_buffer (&bench->output);
  bench->output = buffer;
  return GST_FLOW_OK;
}

/* Whether the caps were taken shows at the first sample. */
static void
bench_start (Bench *bench)
{
  GstSegment segment;
  GstCaps *caps = gst_caps_from_string (CAPS);
  GstPad *pad;

  memset (bench, 0, sizeof *bench);
  bench->pipeline = gst_object_ref_sink (gst_pipeline_new (NULL));
  bench->decryptor = gst_element_factory_make ("latchkeycencdec", NULL);
  bench->decoder = gst_element_factory_make ("ektsecuredec", NULL);
  g_assert_nonnull (bench->decryptor);
  g_assert_nonnull (bench->decoder);
  g_object_set (bench->decryptor, "keys", KEYS, NULL);
  bench->allocator = ekt_secure_allocator_new ();
  ekt_stand_in_propose (bench->decoder, bench->allocator, NULL, 0);
  gst_bin_add_many (GST_BIN (bench->pipeline), bench->decryptor, bench->decoder, NULL);
  g_assert_true (gst_element_link (bench->decryptor, bench->decoder));
  bench->bus = gst_element_get_bus (bench->pipeline);
  bench->source = gst_object_ref_sink (gst_pad_new ("source", GST_PAD_SRC));
  bench->sink = gst_object_ref_sink (gst_pad_new ("sink", GST_PAD_SINK));
  gst_pad_set_chain_function (bench->sink, take);
  g_object_set_data (G_OBJECT (bench->sink), "bench", bench);
  gst_pad_set_active (bench->source, TRUE);
  gst_pad_set_active (bench->sink, TRUE);
  pad = gst_element_get_static_pad (bench->decryptor, "sink");
  g_assert_cmpint (gst_pad_link (bench->source, pad), ==, GST_PAD_LINK_OK);
  gst_object_unref (pad);
  pad = gst_element_get_static_pad (bench->decoder, "src");
  g_assert_cmpint (gst_pad_link (pad, bench->sink), ==, GST_PAD_LINK_OK);
  gst_object_unref (pad);
  gst_element_set_state (bench->pipeline, GST_STATE_PLAYING);
  gst_pad_push_event (bench->source, gst_event_new_stream_start ("test"));
  gst_pad_push_event (bench->source, gst_event_new_caps (caps));
  gst_caps_unref (caps);
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_pad_push_event (bench->source, gst_event_new_segment (&segment));
}

static GstFlowReturn
bench_push (Bench *bench, gboolean encrypted, guint clear, gboolean key_id)
{
  gsize size = clear + 16;
  GstBuffer *buffer = gst_buffer_new_allocate (NULL, size, NULL);

  gst_buffer_memset (buffer, 0, 0x55, size);
  gst_buffer_fill (buffer, clear, ENCRYPTED, 16);
  if (encrypted) {
    GstBuffer *iv = gst_buffer_new_memdup (IV, 16), *kid = gst_buffer_new_memdup (KEY_ID, 16);
    guint8 map[6] = { (guint8) (clear >> 8), (guint8) clear, 0, 0, 0, 16 };
    GstBuffer *table = gst_buffer_new_memdup (map, 6);
    GstStructure *info = gst_structure_new ("application/x-cenc", "encrypted", G_TYPE_BOOLEAN, TRUE, "iv",
        GST_TYPE_BUFFER, iv, "iv_size", G_TYPE_UINT, 16, NULL);
    if (key_id)
      gst_structure_set (info, "kid", GST_TYPE_BUFFER, kid, NULL);
    if (clear > 0)
      gst_structure_set (info, "subsample_count", G_TYPE_UINT, 1, "subsamples", GST_TYPE_BUFFER, table, NULL);
    gst_buffer_add_protection_meta (buffer, info);
    gst_buffer_unref (iv);
    gst_buffer_unref (kid);
    gst_buffer_unref (table);
  }
  return gst_pad_push (bench->source, buffer);
}

static void
bench_assert_output (Bench *bench, guint clear, const guint8 *block)
{
  GstMapInfo map;
  g_assert_nonnull (bench->output);
  g_assert_null (gst_buffer_get_protection_meta (bench->output));
  gst_buffer_map (bench->output, &map, GST_MAP_READ);
  g_assert_cmpuint (map.size, ==, clear + 16);
  for (guint i = 0; i < clear; i++)
    g_assert_cmpuint (map.data[i], ==, 0x55);
  g_assert_cmpmem (map.data + clear, 16, block, 16);
  gst_buffer_unmap (bench->output, &map);
}

static void
bench_assert_error (Bench *bench, const char *words)
{
  GstMessage *message = gst_bus_timed_pop_filtered (bench->bus, 10 * GST_SECOND, GST_MESSAGE_ERROR);
  GError *error = NULL;
  g_assert_nonnull (message);
  gst_message_parse_error (message, &error, NULL);
  g_assert_error (error, GST_STREAM_ERROR, GST_STREAM_ERROR_DECRYPT);
  g_assert_nonnull (strstr (error->message, words));
  g_error_free (error);
  gst_message_unref (message);
}

static void
bench_stop (Bench *bench)
{
  gst_element_set_state (bench->pipeline, GST_STATE_NULL);
  gst_clear_buffer (&bench->output);
  gst_object_unref (bench->source);
  gst_object_unref (bench->sink);
  gst_object_unref (bench->bus);
  gst_object_unref (bench->pipeline);
  g_assert_cmpint (ekt_secure_map_attempts (bench->allocator), ==, 0);
  gst_object_unref (bench->allocator);
}

static void
test_decrypts (void)
{
  Environment environment = { 0 };
  LatchkeySecureDecryptorFunctions table = functions ();
  uint64_t id = latchkey_secure_decryptor_register ("tee", &table, &environment, destroyed);
  Bench bench;

  g_assert_cmpuint (id, !=, 0);
  /* The table is copied. */
  memset (&table, 0, sizeof table);
  bench_start (&bench);
  g_assert_cmpuint (environment.asked, ==, 1);
  g_assert_cmpuint (environment.created, ==, 1);

  g_assert_cmpint (bench_push (&bench, TRUE, 0, TRUE), ==, GST_FLOW_OK);
  bench_assert_output (&bench, 0, CLEAR);
  g_assert_cmpint (environment.scheme, ==, LATCHKEY_SCHEME_CENC);
  g_assert_cmpuint (environment.crypt + environment.skip + environment.subsamples, ==, 0);
  g_assert_true (environment.has_key_id);

  g_assert_cmpint (bench_push (&bench, TRUE, 300, TRUE), ==, GST_FLOW_OK);
  bench_assert_output (&bench, 300, CLEAR);
  g_assert_cmpuint (environment.subsamples, ==, 1);
  g_assert_cmpuint (environment.clear_bytes, ==, 300);
  g_assert_cmpuint (environment.protected_bytes, ==, 16);

  g_assert_cmpint (bench_push (&bench, FALSE, 0, FALSE), ==, GST_FLOW_OK);
  bench_assert_output (&bench, 0, ENCRYPTED);
  g_assert_cmpuint (environment.decrypted, ==, 2);
  g_assert_cmpuint (environment.copied, ==, 1);
  g_assert_cmpuint (ekt_stand_in_secure (bench.decoder), ==, 3);

  g_assert_true (latchkey_secure_decryptor_unregister (id));
  g_assert_false (latchkey_secure_decryptor_unregister (id));
  g_assert_cmpuint (environment.destroyed, ==, 0);
  bench_stop (&bench);
  g_assert_cmpuint (environment.freed, ==, 1);
  g_assert_cmpuint (environment.destroyed, ==, 1);
}

static void
test_pattern (void)
{
  Environment environment = { 0 };
  LatchkeySecureDecryptorFunctions table = functions ();
  uint64_t id = latchkey_secure_decryptor_register (NULL, &table, &environment, destroyed);
  GstCaps *caps = gst_caps_from_string ("application/x-cenc, original-media-type=video/x-h264, cipher-mode=cbcs, width=16");
  GstBuffer *buffer = gst_buffer_new_memdup (ENCRYPTED, 16), *iv = gst_buffer_new_memdup (IV, 16);
  GstBuffer *kid = gst_buffer_new_memdup (KEY_ID, 16);
  Bench bench;

  bench_start (&bench);
  g_assert_true (gst_pad_push_event (bench.source, gst_event_new_caps (caps)));
  g_assert_cmpuint (environment.created, ==, 2);
  g_assert_cmpuint (environment.freed, ==, 1);
  gst_buffer_add_protection_meta (buffer, gst_structure_new ("application/x-cenc", "encrypted", G_TYPE_BOOLEAN, TRUE,
          "iv", GST_TYPE_BUFFER, iv, "crypt_byte_block", G_TYPE_UINT, 1, "skip_byte_block", G_TYPE_UINT, 9, "kid",
          GST_TYPE_BUFFER, kid, "subsample_count", G_TYPE_UINT, 0, NULL));
  g_assert_cmpint (gst_pad_push (bench.source, buffer), ==, GST_FLOW_OK);
  g_assert_cmpint (environment.scheme, ==, LATCHKEY_SCHEME_CBCS);
  g_assert_cmpuint (environment.crypt, ==, 1);
  g_assert_cmpuint (environment.skip, ==, 9);
  gst_buffer_unref (iv);
  gst_buffer_unref (kid);
  gst_caps_unref (caps);
  g_assert_true (latchkey_secure_decryptor_unregister (id));
  bench_stop (&bench);
}

static void
test_errors (void)
{
  for (int at_the_start = 0; at_the_start < 2; at_the_start++) {
    Environment environment = { 0 };
    LatchkeySecureDecryptorFunctions table = functions ();
    uint64_t id = latchkey_secure_decryptor_register ("tee", &table, &environment, destroyed);
    Bench bench;

    if (at_the_start)
      environment.refusal = "no session in the trusted environment";
    else
      environment.failure = "the trusted environment is busy";
    bench_start (&bench);
    g_assert_cmpint (bench_push (&bench, TRUE, 0, TRUE), ==, at_the_start ? GST_FLOW_NOT_NEGOTIATED : GST_FLOW_ERROR);
    bench_assert_error (&bench, at_the_start ? environment.refusal : environment.failure);
    g_assert_null (bench.output);
    g_assert_true (latchkey_secure_decryptor_unregister (id));
    bench_stop (&bench);
    g_assert_cmpuint (environment.destroyed, ==, 1);
  }
}

static void
test_nobody (void)
{
  Environment environment = { .declines = TRUE };
  LatchkeySecureDecryptorFunctions table = functions ();
  uint64_t id = latchkey_secure_decryptor_register ("tee", &table, &environment, destroyed);
  Bench bench;

  bench_start (&bench);
  g_assert_cmpint (bench_push (&bench, TRUE, 0, TRUE), ==, GST_FLOW_NOT_NEGOTIATED);
  bench_assert_error (&bench, "no secure decryptor is registered");
  g_assert_cmpuint (environment.created, ==, 0);
  bench_stop (&bench);
  g_assert_true (latchkey_secure_decryptor_unregister (id));
  g_assert_cmpuint (environment.destroyed, ==, 1);
}

static void
test_misuse (void)
{
  Environment environment = { 0 };
  LatchkeySecureDecryptorFunctions table = functions ();
  size_t size = 1;
  uint8_t crypt = 1, skip = 1;

  g_assert_cmpuint (latchkey_secure_decryptor_register ("tee", NULL, NULL, NULL), ==, 0);
  table.size = sizeof (size_t);
  g_assert_cmpuint (latchkey_secure_decryptor_register ("tee", &table, &environment, destroyed), ==, 0);
  /* An application that knows of nothing behind `create`. */
  table.size = G_STRUCT_OFFSET (LatchkeySecureDecryptorFunctions, decrypt) + 3;
  g_assert_cmpuint (latchkey_secure_decryptor_register ("tee", &table, &environment, destroyed), ==, 0);
  table = functions ();
  table.decrypt = NULL;
  g_assert_cmpuint (latchkey_secure_decryptor_register ("tee", &table, &environment, destroyed), ==, 0);
  g_assert_cmpuint (environment.destroyed, ==, 0);
  g_assert_false (latchkey_secure_decryptor_unregister (0));

  g_assert_null (latchkey_secure_stream_get_media_type (NULL));
  g_assert_null (latchkey_secure_stream_get_caps (NULL));
  latchkey_secure_stream_set_error (NULL, "nothing");
  latchkey_secure_sample_set_error (NULL, "nothing");
  g_assert_cmpint (latchkey_secure_sample_get_scheme (NULL), ==, LATCHKEY_SCHEME_NONE);
  latchkey_secure_sample_get_pattern (NULL, &crypt, &skip);
  g_assert_cmpuint (crypt + skip, ==, 0);
  g_assert_null (latchkey_secure_sample_get_key_id (NULL));
  g_assert_null (latchkey_secure_sample_get_key (NULL));
  g_assert_null (latchkey_secure_sample_get_iv (NULL));
  g_assert_cmpuint (latchkey_secure_sample_get_subsample_count (NULL), ==, 0);
  g_assert_false (latchkey_secure_sample_get_subsample (NULL, 0, NULL, NULL));
  g_assert_null (latchkey_secure_sample_get_data (NULL, &size));
  g_assert_cmpuint (size, ==, 0);
  g_assert_null (latchkey_secure_sample_get_memory (NULL));
}

int
main (int argc, char **argv)
{
  g_unsetenv ("LATCHKEY_CONFIG");
  g_unsetenv ("LATCHKEY_KEYS_FILE");
  g_setenv ("XDG_CONFIG_HOME", "/dev/null/config", TRUE);
  g_test_init (&argc, &argv, NULL);
  gst_init (NULL, NULL);
  g_assert_true (latchkey_register_elements (NULL));
  ekt_stand_in_register ();

  g_test_add_func ("/secure-decryptor/decrypts", test_decrypts);
  g_test_add_func ("/secure-decryptor/pattern", test_pattern);
  g_test_add_func ("/secure-decryptor/errors", test_errors);
  g_test_add_func ("/secure-decryptor/nobody", test_nobody);
  g_test_add_func ("/secure-decryptor/misuse", test_misuse);
  return g_test_run ();
}

/* SPDX-License-Identifier: MPL-2.0 */

/* The C interface for resource loaders, used as an application uses it: loaders in C answer the key requests of a real
   decryptor, now, later, wrongly and never. Needs no other plug-in than ours. Run by `meson test`. */

#include <latchkey.h>
#include <string.h>

#define DEADLINE (10 * G_TIME_SPAN_SECOND)

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

/* What a loader sees, and what it is to do. */
typedef struct {
  GMutex lock;
  GCond changed;
  LatchkeyLoaderFunctions functions;
  gboolean declines, holds;
  LatchkeyKeyRequest *held;
  LatchkeyKeyRequest *cancelled;
  guint asked, loaded, cancels, destroyed, renewals;
} Loader;

/* A decryptor between two pads of the test's own. */
typedef struct {
  GstElement *element;
  GstBus *bus;
  GstPad *source, *sink;
  GMutex lock;
  GCond changed;
  GstBuffer *output;
} Bench;

static GstStaticPadTemplate any_source = GST_STATIC_PAD_TEMPLATE ("source", GST_PAD_SRC, GST_PAD_ALWAYS,
    GST_STATIC_CAPS_ANY);
static GstStaticPadTemplate any_sink = GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS_ANY);

/* Waits until `condition`, with a deadline that fails the test. */
#define WAIT_UNTIL(what, condition) G_STMT_START { \
    gint64 end = g_get_monotonic_time () + DEADLINE; \
    g_mutex_lock (&(what)->lock); \
    while (!(condition) && g_cond_wait_until (&(what)->changed, &(what)->lock, end)); \
    g_assert_true (condition); \
    g_mutex_unlock (&(what)->lock); \
  } G_STMT_END

static int
should_wait (LatchkeyKeyRequest *request, void *user_data)
{
  Loader *loader = user_data;
  g_assert_nonnull (request);
  g_mutex_lock (&loader->lock);
  loader->asked++;
  g_cond_broadcast (&loader->changed);
  g_mutex_unlock (&loader->lock);
  return !loader->declines;
}

static void
load (LatchkeyKeyRequest *request, void *user_data)
{
  Loader *loader = user_data;
  g_mutex_lock (&loader->lock);
  loader->loaded++;
  if (latchkey_key_request_is_renewal (request))
    loader->renewals++;
  if (loader->holds && loader->held == NULL)
    loader->held = latchkey_key_request_ref (request);
  g_cond_broadcast (&loader->changed);
  g_mutex_unlock (&loader->lock);
  if (!loader->holds)
    g_assert_true (latchkey_key_request_finish_with_key (request, KEY, NULL));
}

static void
cancel (LatchkeyKeyRequest *request, void *user_data)
{
  Loader *loader = user_data;
  g_mutex_lock (&loader->lock);
  loader->cancels++;
  loader->cancelled = request;
  g_cond_broadcast (&loader->changed);
  g_mutex_unlock (&loader->lock);
}

static void
destroyed (void *user_data)
{
  Loader *loader = user_data;
  g_mutex_lock (&loader->lock);
  loader->destroyed++;
  g_cond_broadcast (&loader->changed);
  g_mutex_unlock (&loader->lock);
}

/* Never freed: a callback may still run. */
static Loader *
loader_new (void)
{
  Loader *loader = g_new0 (Loader, 1);
  g_mutex_init (&loader->lock);
  g_cond_init (&loader->changed);
  loader->functions = (LatchkeyLoaderFunctions) {
    .size = sizeof (LatchkeyLoaderFunctions), .should_wait = should_wait, .load = load, .cancel = cancel
  };
  return loader;
}

static GstFlowReturn
take (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  Bench *bench = g_object_get_data (G_OBJECT (pad), "bench");
  (void) parent;
  g_mutex_lock (&bench->lock);
  gst_clear_buffer (&bench->output);
  bench->output = buffer;
  g_cond_broadcast (&bench->changed);
  g_mutex_unlock (&bench->lock);
  return GST_FLOW_OK;
}

/* Of benches that are made, in milliseconds; 0: the element's own. */
static guint key_timeout;

static Bench *
bench_new (LatchkeySession *session, const gchar *key_system)
{
  Bench *bench = g_new0 (Bench, 1);
  GstPad *pad;
  GstSegment segment;

  g_mutex_init (&bench->lock);
  g_cond_init (&bench->changed);
  bench->element = gst_element_factory_make ("latchkeycencdec", NULL);
  g_assert_nonnull (bench->element);
  gst_object_ref_sink (bench->element);
  if (key_system)
    g_object_set (bench->element, "key-system", key_system, NULL);
  if (key_timeout)
    g_object_set (bench->element, "key-timeout", key_timeout, NULL);
  bench->bus = gst_bus_new ();
  gst_element_set_bus (bench->element, bench->bus);
  if (session)
    latchkey_session_attach (session, bench->element);

  bench->source = gst_pad_new_from_static_template (&any_source, "source");
  bench->sink = gst_pad_new_from_static_template (&any_sink, "sink");
  g_object_set_data (G_OBJECT (bench->sink), "bench", bench);
  gst_pad_set_chain_function (bench->sink, take);
  gst_pad_set_active (bench->source, TRUE);
  gst_pad_set_active (bench->sink, TRUE);
  pad = gst_element_get_static_pad (bench->element, "sink");
  g_assert_cmpint (gst_pad_link (bench->source, pad), ==, GST_PAD_LINK_OK);
  gst_object_unref (pad);
  pad = gst_element_get_static_pad (bench->element, "src");
  g_assert_cmpint (gst_pad_link (pad, bench->sink), ==, GST_PAD_LINK_OK);
  gst_object_unref (pad);

  g_assert_cmpint (gst_element_set_state (bench->element, GST_STATE_PLAYING), !=, GST_STATE_CHANGE_FAILURE);
  g_assert_true (gst_pad_push_event (bench->source, gst_event_new_stream_start ("test")));
  g_assert_true (gst_pad_push_event (bench->source, gst_event_new_caps (gst_caps_from_string (
      "application/x-cenc, original-media-type=video/x-h264, cipher-mode=cenc"))));
  gst_segment_init (&segment, GST_FORMAT_TIME);
  g_assert_true (gst_pad_push_event (bench->source, gst_event_new_segment (&segment)));
  return bench;
}

static void
bench_push (Bench *bench)
{
  GstBuffer *sample = gst_buffer_new_memdup (ENCRYPTED, sizeof ENCRYPTED);
  GstBuffer *key_id = gst_buffer_new_memdup (KEY_ID, sizeof KEY_ID);
  GstBuffer *iv = gst_buffer_new_memdup (IV, sizeof IV);
  gst_buffer_add_protection_meta (sample, gst_structure_new ("application/x-cenc", "encrypted", G_TYPE_BOOLEAN, TRUE,
      "iv_size", G_TYPE_UINT, (guint) sizeof IV, "kid", GST_TYPE_BUFFER, key_id, "iv", GST_TYPE_BUFFER, iv, NULL));
  gst_buffer_unref (key_id);
  gst_buffer_unref (iv);
  g_assert_cmpint (gst_pad_push (bench->source, sample), ==, GST_FLOW_OK);
}

static void
bench_expect_clear (Bench *bench)
{
  WAIT_UNTIL (bench, bench->output != NULL);
  g_assert_cmpint (gst_buffer_get_size (bench->output), ==, sizeof CLEAR);
  g_assert_cmpint (gst_buffer_memcmp (bench->output, 0, CLEAR, sizeof CLEAR), ==, 0);
}

static void
bench_expect_error (Bench *bench, const gchar *text)
{
  GstMessage *message = gst_bus_timed_pop_filtered (bench->bus, 10 * GST_SECOND, GST_MESSAGE_ERROR);
  GError *error = NULL;
  g_assert_nonnull (message);
  gst_message_parse_error (message, &error, NULL);
  g_assert_true (g_error_matches (error, GST_STREAM_ERROR, GST_STREAM_ERROR_DECRYPT_NOKEY));
  if (strstr (error->message, text) == NULL)
    g_error ("“%s” is not in: %s", text, error->message);
  g_clear_error (&error);
  gst_message_unref (message);
}

static void
bench_free (Bench *bench)
{
  gst_element_set_state (bench->element, GST_STATE_NULL);
  gst_bus_set_flushing (bench->bus, TRUE);
  gst_element_set_bus (bench->element, NULL);
  gst_pad_set_active (bench->source, FALSE);
  gst_pad_set_active (bench->sink, FALSE);
  gst_object_unref (bench->element);
  gst_object_unref (bench->bus);
  gst_object_unref (bench->source);
  gst_object_unref (bench->sink);
  gst_clear_buffer (&bench->output);
  g_mutex_clear (&bench->lock);
  g_cond_clear (&bench->changed);
  g_free (bench);
}

/* One sample waits for its key, and the loader of the session holds the request. */
typedef struct {
  Loader *loader;
  LatchkeySession *session;
  Bench *bench;
  LatchkeyKeyRequest *request;
} Scene;

static LatchkeySession *
session_with (Loader *loader)
{
  LatchkeySession *session = latchkey_session_new ();
  g_assert_true (latchkey_session_add_loader (session, "test", &loader->functions, loader, destroyed));
  return session;
}

static Scene
scene_with (Loader *loader, const gchar *key_system)
{
  Scene scene = { loader, session_with (loader), NULL, NULL };
  loader->holds = TRUE;
  scene.bench = bench_new (scene.session, key_system);
  bench_push (scene.bench);
  WAIT_UNTIL (loader, loader->held != NULL);
  scene.request = loader->held;
  return scene;
}

static Scene
scene_new (const gchar *key_system)
{
  return scene_with (loader_new (), key_system);
}

/* The request stays, for who wants to look at what is left of it. */
static void
scene_stop (Scene *scene)
{
  bench_free (scene->bench);
  latchkey_session_unref (scene->session);
}

static void
scene_end (Scene *scene)
{
  scene_stop (scene);
  latchkey_key_request_unref (scene->request);
}

/* A registered loader answers at once; it goes when nobody can call it any more. */
static void
test_registered (void)
{
  Loader *loader = loader_new ();
  guint64 id = latchkey_loader_register ("test", &loader->functions, loader, destroyed);
  Bench *bench;

  g_assert_cmpuint (id, !=, 0);
  bench = bench_new (NULL, NULL);
  bench_push (bench);
  bench_expect_clear (bench);
  g_assert_cmpuint (loader->loaded, ==, 1);
  g_assert_true (latchkey_loader_unregister (id));
  g_assert_false (latchkey_loader_unregister (id));
  g_assert_cmpuint (loader->destroyed, ==, 0);
  bench_free (bench);
  WAIT_UNTIL (loader, loader->destroyed == 1);
  g_assert_cmpuint (loader->cancels, ==, 0);
}

/* Asked in the order of registration; who declines is not told more. */
static void
test_order (void)
{
  Loader *first = loader_new (), *second = loader_new ();
  guint64 ids[2];
  Bench *bench;

  first->declines = TRUE;
  ids[0] = latchkey_loader_register ("first", &first->functions, first, NULL);
  ids[1] = latchkey_loader_register ("second", &second->functions, second, NULL);
  bench = bench_new (NULL, NULL);
  bench_push (bench);
  bench_expect_clear (bench);
  g_assert_cmpuint (first->asked, ==, 1);
  g_assert_cmpuint (first->loaded, ==, 0);
  g_assert_cmpuint (second->loaded, ==, 1);
  bench_free (bench);
  g_assert_true (latchkey_loader_unregister (ids[0]));
  g_assert_true (latchkey_loader_unregister (ids[1]));
  g_assert_cmpuint (first->cancels, ==, 0);
}

static gpointer
answer_twice (gpointer data)
{
  LatchkeyKeyRequest *request = data;
  LatchkeyKey keys[2];
  memset (keys, 7, sizeof keys);
  memcpy (keys[1].key_id, KEY_ID, 16);
  memcpy (keys[1].key, KEY, 16);
  g_assert_false (latchkey_key_request_is_finished (request));
  g_assert_true (latchkey_key_request_finish_with_keys (request, keys, 2));
  g_assert_false (latchkey_key_request_finish_with_keys (request, keys, 2));
  g_assert_false (latchkey_key_request_finish_with_error (request, LATCHKEY_ERROR_DENIED, "late"));
  g_assert_true (latchkey_key_request_is_finished (request));
  return NULL;
}

/* Answered later, by another thread, twice: the first counts. */
static void
test_later (void)
{
  Scene scene = scene_new (NULL);

  g_thread_join (g_thread_new ("answer", answer_twice, scene.request));
  bench_expect_clear (scene.bench);
  scene_stop (&scene);
  WAIT_UNTIL (scene.loader, scene.loader->destroyed == 1);
  g_assert_cmpuint (scene.loader->cancels, ==, 0);
  latchkey_key_request_unref (scene.request);
}

/* What a request says, and a ClearKey license as the answer. */
static void
test_accessors (void)
{
  static const gchar license[] = "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"AAECAwQFBgcICQoLDA0ODw\","
      "\"k\":\"K34VFiiu0qar9xWICc9PPA\"}],\"type\":\"temporary\"}";
  Scene scene = scene_new ("clearkey");
  LatchkeyKeyRequest *request = scene.request;
  const gchar *origin;
  const guint8 *challenge;
  size_t size = 0;

  g_assert_cmpuint (latchkey_key_request_get_id (request), !=, 0);
  g_assert_cmpstr (latchkey_key_request_get_key_system (request), ==, "clearkey");
  g_assert_cmpuint (latchkey_key_request_get_key_id_count (request), ==, 1);
  g_assert_cmpmem (latchkey_key_request_get_key_id (request, 0), 16, KEY_ID, 16);
  g_assert_null (latchkey_key_request_get_key_id (request, 1));
  g_assert_null (latchkey_key_request_get_key_id (request, SIZE_MAX));
  g_assert_null (latchkey_key_request_get_key_uri (request));
  g_assert_null (latchkey_key_request_get_suggested_url (request));
  g_assert_null (latchkey_key_request_get_init_data (request,
          latchkey_key_request_get_init_data_count (request), &size, &origin));
  g_assert_cmpuint (size, ==, 0);
  g_assert_null (origin);
  g_assert_false (latchkey_key_request_is_renewal (request));
  challenge = latchkey_key_request_get_challenge (request, &size);
  g_assert_cmpuint (size, ==, strlen ((const gchar *) challenge));
  g_assert_nonnull (strstr ((const gchar *) challenge, "\"AAECAwQFBgcICQoLDA0ODw\""));

  g_assert_true (latchkey_key_request_finish_with_license (request, (const guint8 *) license, sizeof license - 1));
  bench_expect_clear (scene.bench);
  scene_end (&scene);
}

/* No key payload provider is set up here, so there is no SPC, and the text says so. */
static void
test_no_spc (void)
{
  Scene scene = scene_new ("fairplay");
  guint8 *data = (guint8 *) "";
  size_t size = 1;
  char *message = NULL;

  g_assert_cmpstr (latchkey_key_request_get_key_system (scene.request), ==, "fairplay");
  g_assert_cmpint (latchkey_key_request_make_streaming_content_key_request_data (scene.request, KEY, sizeof KEY, KEY_ID,
          sizeof KEY_ID, &data, &size, &message), ==, LATCHKEY_ERROR_INVALID_CONFIGURATION);
  g_assert_null (data);
  g_assert_cmpuint (size, ==, 0);
  g_assert_nonnull (strstr (message, "key payload provider"));
  latchkey_free (message);
  g_assert_true (latchkey_key_request_finish_with_license (scene.request, KEY, sizeof KEY));
  bench_expect_error (scene.bench, "fairplay license");
  scene_end (&scene);
}

/* Without an SPC nothing can be stored, and without a device secret no stored key can be opened. */
static void
test_no_stored_key (void)
{
  Scene scene = scene_new ("fairplay");
  guint8 *key = (guint8 *) "";
  size_t size = 1;
  char *message = NULL;

  g_assert_false (latchkey_key_request_is_for_storage (scene.request));
  latchkey_key_request_set_requests_persistable_key (scene.request, 1);
  g_assert_false (latchkey_key_request_can_store_key (scene.request, KEY, sizeof KEY));
  g_assert_cmpint (latchkey_key_request_make_persistable_key (scene.request, KEY, sizeof KEY, &key, &size, &message), ==,
      LATCHKEY_ERROR_MALFORMED_REQUEST);
  g_assert_null (key);
  g_assert_cmpuint (size, ==, 0);
  g_assert_nonnull (strstr (message, "made no SPC"));
  latchkey_free (message);
  g_assert_true (latchkey_key_request_finish_with_persistable_key (scene.request, KEY, sizeof KEY));
  bench_expect_error (scene.bench, "device secret");
  scene_end (&scene);
}

#if GLIB_SIZEOF_VOID_P == 8
G_STATIC_ASSERT (G_STRUCT_OFFSET (LatchkeyLoaderFunctions, should_retry) == 32);
G_STATIC_ASSERT (G_STRUCT_OFFSET (LatchkeyLoaderFunctions, needs_no_network) == 48);
G_STATIC_ASSERT (sizeof (LatchkeyLoaderFunctions) == 56);
#endif
/* Padding behind the last member would become part of the next one, with whatever is in it. */
G_STATIC_ASSERT (sizeof (LatchkeyLoaderFunctions)
                 == G_STRUCT_OFFSET (LatchkeyLoaderFunctions, needs_no_network) + sizeof (void *));

/* An error comes to the application with its text. */
static void
test_error (void)
{
  static const LatchkeyErrorCode codes[] = {
    LATCHKEY_ERROR_DENIED, LATCHKEY_ERROR_NETWORK, LATCHKEY_ERROR_SERVER_STATUS, LATCHKEY_ERROR_TIMED_OUT,
    LATCHKEY_ERROR_NONE, (LatchkeyErrorCode) 4711
  };
  static const gchar *texts[] = { "denied: none", "network: none", "server status: none", "timed out: none",
    "denied: none", "denied: none"
  };
  for (gsize i = 0; i < G_N_ELEMENTS (codes); i++) {
    Scene scene = scene_new (NULL);
    g_assert_true (latchkey_key_request_finish_with_error (scene.request, codes[i], "none is left"));
    bench_expect_error (scene.bench, texts[i]);
    scene_end (&scene);
  }
}

/* A closed session cancels; the request stays usable, and its answer does not count. */
static void
test_closed (void)
{
  Scene scene = scene_new (NULL);
  Loader *loader = scene.loader;

  latchkey_session_close (scene.session, "the evening is over");
  WAIT_UNTIL (loader, loader->cancels == 1 && loader->destroyed == 1);
  g_assert_true (loader->cancelled == scene.request);
  bench_expect_error (scene.bench, "the evening is over");
  g_assert_false (latchkey_key_request_finish_with_key (scene.request, KEY, NULL));
  scene_stop (&scene);
  g_assert_cmpmem (latchkey_key_request_get_key_id (scene.request, 0), 16, KEY_ID, 16);
  g_assert_true (latchkey_key_request_is_finished (scene.request));
  g_assert_false (latchkey_key_request_finish_with_error (scene.request, LATCHKEY_ERROR_DENIED, NULL));
  latchkey_key_request_unref (scene.request);
}

/* The time is over and the request is cancelled: it is finished, and an answer says so. Its key is there for the next one. */
static void
test_timed_out (void)
{
  Scene scene;
  Bench *next;

  key_timeout = 100;
  scene = scene_new (NULL);
  key_timeout = 0;
  bench_expect_error (scene.bench, "timed out");
  WAIT_UNTIL (scene.loader, scene.loader->cancels == 1);
  g_assert_true (scene.loader->cancelled == scene.request);
  g_assert_true (latchkey_key_request_is_finished (scene.request));
  g_assert_false (latchkey_key_request_finish_with_key (scene.request, KEY, NULL));
  g_assert_true (latchkey_key_request_is_finished (scene.request));
  next = bench_new (scene.session, NULL);
  bench_push (next);
  bench_expect_clear (next);
  bench_free (next);
  scene_end (&scene);
}

/* The session goes while a request is open: cancelled once, and the loader goes. */
static void
test_gone (void)
{
  Scene scene = scene_new (NULL);
  Loader *loader = scene.loader;

  scene_stop (&scene);
  WAIT_UNTIL (loader, loader->cancels == 1 && loader->destroyed == 1);
  g_assert_true (loader->cancelled == scene.request);
  g_assert_false (latchkey_key_request_finish_with_key (scene.request, KEY, NULL));
  g_assert_cmpuint (latchkey_key_request_get_id (scene.request), !=, 0);
  latchkey_key_request_unref (scene.request);
}

/* Keys with a lease are asked for again ahead of its end. */
static void
test_renewal (void)
{
  Scene scene = scene_new (NULL);

  g_assert_false (latchkey_key_request_is_renewal (scene.request));
  latchkey_key_request_set_lease (scene.request, 1000);
  g_assert_true (latchkey_key_request_finish_with_key (scene.request, KEY, NULL));
  bench_expect_clear (scene.bench);
  WAIT_UNTIL (scene.loader, scene.loader->renewals >= 1);
  scene_end (&scene);
}

/* A loader may finish the request while it is asked, and then say that it does not take it. */
static int
finish_and_decline (LatchkeyKeyRequest *request, void *user_data)
{
  Loader *loader = user_data;
  g_assert_true (latchkey_key_request_finish_with_key (request, KEY, NULL));
  g_assert_cmpuint (latchkey_key_request_get_key_id_count (request), ==, 1);
  g_assert_cmpmem (latchkey_key_request_get_key_id (request, 0), 16, KEY_ID, 16);
  g_mutex_lock (&loader->lock);
  loader->asked++;
  g_cond_broadcast (&loader->changed);
  g_mutex_unlock (&loader->lock);
  return 0;
}

static void
test_finished_while_asked (void)
{
  Loader *loader = loader_new ();
  LatchkeySession *session;
  Bench *bench;

  loader->functions.should_wait = finish_and_decline;
  session = session_with (loader);
  bench = bench_new (session, NULL);
  bench_push (bench);
  bench_expect_clear (bench);
  g_assert_cmpuint (loader->loaded, ==, 0);
  bench_free (bench);
  latchkey_session_unref (session);
  WAIT_UNTIL (loader, loader->destroyed == 1 && loader->asked == 1);
}

/* Tables that cannot be used, and nothing where something should be. */
static void
test_misuse (void)
{
  LatchkeyLoaderFunctions functions = {
    .size = sizeof (size_t), .should_wait = should_wait, .load = load, .cancel = cancel
  };
  LatchkeySession *session = latchkey_session_new ();
  size_t size = 1;

  g_assert_cmpuint (latchkey_loader_register ("test", NULL, NULL, NULL), ==, 0);
  g_assert_cmpuint (latchkey_loader_register ("test", &functions, NULL, NULL), ==, 0);
  functions.size = sizeof functions;
  functions.should_wait = NULL;
  functions.load = NULL;
  g_assert_false (latchkey_session_add_loader (session, NULL, &functions, NULL, NULL));
  functions.load = load;
  g_assert_false (latchkey_session_add_loader (NULL, NULL, &functions, NULL, NULL));
  g_assert_true (latchkey_session_ref (session) == session);
  latchkey_session_unref (session);
  latchkey_session_close (session, NULL);
  latchkey_session_close (session, "again");
  latchkey_session_unref (session);

  g_assert_null (latchkey_session_ref (NULL));
  latchkey_session_unref (NULL);
  latchkey_session_close (NULL, NULL);
  latchkey_session_attach (NULL, NULL);
  g_assert_false (latchkey_loader_unregister (0));
  g_assert_null (latchkey_key_request_ref (NULL));
  latchkey_key_request_unref (NULL);
  g_assert_cmpuint (latchkey_key_request_get_id (NULL), ==, 0);
  g_assert_null (latchkey_key_request_get_key_system (NULL));
  g_assert_null (latchkey_key_request_get_key_id (NULL, 0));
  g_assert_null (latchkey_key_request_get_challenge (NULL, &size));
  g_assert_cmpuint (size, ==, 0);
  g_assert_null (latchkey_key_request_get_init_data (NULL, 0, NULL, NULL));
  g_assert_false (latchkey_key_request_finish_with_key (NULL, KEY, NULL));
  g_assert_false (latchkey_key_request_finish_with_keys (NULL, NULL, 1));
  g_assert_false (latchkey_key_request_finish_with_persistable_key (NULL, NULL, 1));
  g_assert_false (latchkey_key_request_is_for_storage (NULL));
  g_assert_false (latchkey_key_request_can_store_key (NULL, NULL, 1));
  g_assert_cmpint (latchkey_key_request_make_persistable_key (NULL, NULL, 0, NULL, NULL, NULL), ==,
      LATCHKEY_ERROR_MALFORMED_REQUEST);
  latchkey_key_request_set_requests_persistable_key (NULL, 1);
  latchkey_key_request_did_not_store (NULL, LATCHKEY_ERROR_DENIED, NULL);
  g_assert_cmpint (latchkey_key_request_make_streaming_content_key_request_data (NULL, NULL, 0, NULL, 0, NULL, NULL,
          NULL), ==, LATCHKEY_ERROR_MALFORMED_REQUEST);
  latchkey_free (NULL);
}

/* A table of an older header ends before what it does not know, be it in the middle of a pointer. */
static void
test_short_table (void)
{
  for (gsize more = 0; more < sizeof (void *); more += 4) {
    Loader *loader = loader_new ();
    Scene scene;

    loader->functions.size = offsetof (LatchkeyLoaderFunctions, cancel) + more;
    scene = scene_with (loader, NULL);
    latchkey_session_close (scene.session, NULL);
    WAIT_UNTIL (loader, loader->destroyed == 1);
    g_assert_cmpuint (loader->cancels, ==, 0);
    scene_end (&scene);
  }
}

int
main (int argc, char **argv)
{
  /* The machine's own settings must not decide what is seen here. */
  g_unsetenv ("LATCHKEY_CONFIG");
  g_unsetenv ("LATCHKEY_KEYS_FILE");
  g_setenv ("XDG_CONFIG_HOME", "/dev/null/config", TRUE);
  g_test_init (&argc, &argv, NULL);
  gst_init (NULL, NULL);
  g_assert_true (latchkey_register_elements (NULL));

  g_test_add_func ("/loader/registered", test_registered);
  g_test_add_func ("/loader/order", test_order);
  g_test_add_func ("/loader/later", test_later);
  g_test_add_func ("/loader/accessors", test_accessors);
  g_test_add_func ("/loader/no-spc", test_no_spc);
  g_test_add_func ("/loader/no-stored-key", test_no_stored_key);
  g_test_add_func ("/loader/error", test_error);
  g_test_add_func ("/loader/closed", test_closed);
  g_test_add_func ("/loader/timed-out", test_timed_out);
  g_test_add_func ("/loader/gone", test_gone);
  g_test_add_func ("/loader/renewal", test_renewal);
  g_test_add_func ("/loader/finished-while-asked", test_finished_while_asked);
  g_test_add_func ("/loader/misuse", test_misuse);
  g_test_add_func ("/loader/short-table", test_short_table);
  return g_test_run ();
}

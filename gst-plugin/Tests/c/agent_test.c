/* SPDX-License-Identifier: MPL-2.0 */

/* The C interface of the agent, used as an application uses it, rightly and wrongly. Needs no other plug-in than ours and
   no server but the loopback of its own. Run by `meson test`. */

#include "watch.h"
#include <latchkey.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <unistd.h>

#define NOWHERE "http://127.0.0.1:9/film/stream.mpd"

/* What callbacks saw. */
typedef struct {
  Watch watch;
  LatchkeyAgentError *error;
  LatchkeyContentInfo *info;
  GPtrArray *events;
  size_t count;
} Seen;

static Seen *
seen_new (void)
{
  Seen *seen = watch_new (sizeof (Seen));
  seen->events = g_ptr_array_new ();
  return seen;
}

/* The error that a callback got, kept; between watch_enter() and watch_leave(). */
static void
keep_error (Seen *seen, LatchkeyAgentError *error)
{
  if (error != NULL)
    seen->error = latchkey_agent_error_ref (error);
}

static void
got_info (LatchkeyContentInfo *info, LatchkeyAgentError *error, void *user_data)
{
  Seen *seen = user_data;
  watch_enter (seen);
  seen->info = latchkey_content_info_ref (info);
  keep_error (seen, error);
  watch_leave (seen);
}

static void
got_license (LatchkeyRights *rights, LatchkeyAgentError *error, void *user_data)
{
  Seen *seen = user_data;
  g_assert_true ((rights == NULL) != (error == NULL));
  watch_enter (seen);
  keep_error (seen, error);
  watch_leave (seen);
}

static void
got_reset (size_t count, LatchkeyAgentError *error, void *user_data)
{
  Seen *seen = user_data;
  watch_enter (seen);
  seen->count = count;
  keep_error (seen, error);
  watch_leave (seen);
}

static void
heard (LatchkeyAgentEvent *event, void *user_data)
{
  Seen *seen = user_data;
  watch_enter (seen);
  g_ptr_array_add (seen->events, latchkey_agent_event_ref (event));
  watch_leave (seen);
}

/* A server that takes connections and says nothing. Returns its socket. */
static int
silent_server (gchar **url)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t size = sizeof address;
  int server = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (bind (server, (struct sockaddr *) &address, size), ==, 0);
  g_assert_cmpint (listen (server, 8), ==, 0);
  g_assert_cmpint (getsockname (server, (struct sockaddr *) &address, &size), ==, 0);
  *url = g_strdup_printf ("http://127.0.0.1:%u/stream.mpd", ntohs (address.sin_port));
  return server;
}

static LatchkeyAgent *
agent_new (const gchar *url)
{
  LatchkeyAgentOptions options = {
    .size = sizeof options, .video_sink = "fakesink", .audio_sink = "fakesink", .outputs = "application",
    .log_threshold = LATCHKEY_LOG_WARNING, .configuration_file = "/dev/null"
  };
  LatchkeyAgent *agent = latchkey_agent_new (url, LATCHKEY_CONTENT_DASH, &options);
  g_assert_nonnull (agent);
  return agent;
}

static void
test_arguments (void)
{
  LatchkeyAgentOptions options = { .size = sizeof options };
  LatchkeyDelegateFunctions no_functions = { .size = 0 };
  LatchkeyAgentError *error = NULL;
  LatchkeyOutputStatus status = { 1, 1, 1 };
  int64_t seconds = 1;
  double time = 1;
  size_t size = 1;
  LatchkeyAgent *agent;
  Seen *seen = seen_new ();

  g_assert_null (latchkey_agent_new (NULL, LATCHKEY_CONTENT_DASH, NULL));
  g_assert_null (latchkey_agent_new (NOWHERE, LATCHKEY_CONTENT_UNKNOWN, NULL));
  g_assert_null (latchkey_agent_new (NOWHERE, (LatchkeyContentType) 77, NULL));
  options.acquisition = (LatchkeyAcquisition) 7;
  g_assert_null (latchkey_agent_new (NOWHERE, LATCHKEY_CONTENT_DASH, &options));
  options.acquisition = LATCHKEY_ACQUISITION_AUTOMATIC;
  options.log_threshold = (LatchkeyLogLevel) 9;
  g_assert_null (latchkey_agent_new (NOWHERE, LATCHKEY_CONTENT_DASH, &options));
  options.size = 0;
  g_assert_null (latchkey_agent_new (NOWHERE, LATCHKEY_CONTENT_DASH, &options));

  /* What an older application does not know of is not read. */
  options.size = sizeof (size_t) + 2 * sizeof (int);
  options.log_threshold = LATCHKEY_LOG_DEBUG;
  options.video_sink = options.configuration_file = (const char *) 1;
  agent = latchkey_agent_new (NOWHERE, LATCHKEY_CONTENT_DASH, &options);
  g_assert_nonnull (agent);
  g_assert_cmpuint (latchkey_agent_acquire_license (agent, &no_functions, got_license, seen, watch_destroyed), ==, 0);
  g_assert_cmpuint (latchkey_agent_add_listener (agent, NULL, seen, watch_destroyed), ==, 0);
  g_assert_false (latchkey_agent_remove_listener (agent, 99));
  g_assert_false (latchkey_agent_attach (agent, NULL, &error));
  g_assert_cmpint (latchkey_agent_error_get_code (error), ==, LATCHKEY_AGENT_ERROR_INVALID_ARGUMENT);
  latchkey_agent_error_unref (error);
  g_assert_false (latchkey_agent_attach (agent, NULL, NULL));
  latchkey_agent_unref (latchkey_agent_ref (agent));
  latchkey_agent_unref (agent);

  g_assert_null (latchkey_agent_ref (NULL));
  latchkey_agent_unref (NULL);
  g_assert_cmpuint (latchkey_agent_get_content_info (NULL, got_info, seen, watch_destroyed), ==, 0);
  g_assert_cmpuint (latchkey_agent_acquire_license (NULL, NULL, got_license, seen, watch_destroyed), ==, 0);
  g_assert_cmpuint (latchkey_agent_add_listener (NULL, heard, seen, watch_destroyed), ==, 0);
  g_assert_false (latchkey_agent_remove_listener (NULL, 1));
  g_assert_null (latchkey_agent_make_player (NULL, &error));
  g_assert_cmpint (latchkey_agent_error_get_code (error), ==, LATCHKEY_AGENT_ERROR_INVALID_ARGUMENT);
  latchkey_agent_error_unref (error);
  latchkey_agent_set_custom_challenge_data (NULL, "x");
  latchkey_agent_set_hdmi_mode (NULL, LATCHKEY_HDMI_ALLOW);
  latchkey_agent_set_audio_track (NULL, "x");
  g_assert_cmpint (latchkey_agent_get_state (NULL), ==, LATCHKEY_AGENT_STATE_INITIALIZED);
  g_assert_false (latchkey_call_cancel (0));
  g_assert_cmpuint (seen->watch.called + seen->watch.destroyed, ==, 0);

  g_assert_null (latchkey_content_info_ref (NULL));
  g_assert_null (latchkey_content_info_get_rights (NULL));
  g_assert_null (latchkey_content_info_get_track (NULL, 0));
  g_assert_null (latchkey_track_get_key_period (NULL, 0));
  g_assert_null (latchkey_key_need_get_source (NULL));
  g_assert_false (latchkey_key_period_get_start (NULL, &time));
  g_assert_cmpfloat (time, ==, 0);
  g_assert_false (latchkey_rights_get_begin (NULL, &seconds));
  g_assert_cmpint (seconds, ==, 0);
  g_assert_false (latchkey_agent_event_get_output_status (NULL, &status));
  g_assert_cmpint (status.video, ==, 0);
  g_assert_null (latchkey_service_request_get_challenge (NULL, &size));
  g_assert_cmpuint (size, ==, 0);
  g_assert_false (latchkey_service_request_send (NULL));
  g_assert_cmpint (latchkey_agent_error_get_code (NULL), ==, LATCHKEY_AGENT_ERROR_NONE);
}

/* What an application that was compiled before hands in stays as it is, on machines with pointers of 64 bits. */
#if GLIB_SIZEOF_VOID_P == 8
G_STATIC_ASSERT (sizeof (LatchkeyAgentOptions) == 56);
G_STATIC_ASSERT (G_STRUCT_OFFSET (LatchkeyAgentOptions, log_threshold) == 12);
G_STATIC_ASSERT (G_STRUCT_OFFSET (LatchkeyAgentOptions, hold_timeout) == 16);
G_STATIC_ASSERT (G_STRUCT_OFFSET (LatchkeyAgentOptions, configuration_file) == 48);
G_STATIC_ASSERT (sizeof (LatchkeyDelegateFunctions) == 32);
G_STATIC_ASSERT (sizeof (LatchkeyOutputStatus) == 16);
#endif

static void
test_names (void)
{
  g_assert_cmpint (latchkey_content_type_from_url ("https://a/b.mpd?c=d.mp4"), ==, LATCHKEY_CONTENT_DASH);
  g_assert_cmpint (latchkey_content_type_from_url ("https://a/b"), ==, LATCHKEY_CONTENT_UNKNOWN);
  g_assert_cmpint (latchkey_content_type_from_url (NULL), ==, LATCHKEY_CONTENT_UNKNOWN);
  g_assert_cmpstr (latchkey_rights_status_get_name (LATCHKEY_RIGHTS_UNTRUSTED_TIME), ==, "untrustedTime");
  g_assert_cmpstr (latchkey_rights_status_get_name ((LatchkeyRightsStatus) 50), ==, "unknown");
  for (int state = LATCHKEY_AGENT_STATE_INITIALIZED; state <= LATCHKEY_AGENT_STATE_ABORTED; state++)
    g_assert_cmpstr (latchkey_agent_state_get_name (state), !=, "unknown");
  g_assert_cmpstr (latchkey_agent_state_get_name ((LatchkeyAgentState) 50), ==, "unknown");
  for (int type = LATCHKEY_AGENT_EVENT_RIGHTS_NOT_AVAILABLE; type <= LATCHKEY_AGENT_EVENT_LOG_MESSAGE; type++)
    g_assert_cmpstr (latchkey_agent_event_type_get_name (type), !=, "unknown");
  g_assert_cmpstr (latchkey_agent_event_type_get_name (LATCHKEY_AGENT_EVENT_UNKNOWN), ==, "unknown");
}

/* An error comes with its kind, the callback once, and destroy behind it; states and log lines are events. */
static void
test_error (void)
{
  Seen *seen = seen_new (), *listener = seen_new ();
  LatchkeyAgent *agent = agent_new (NOWHERE);
  guint states = 0, lines = 0;

  g_assert_cmpuint (latchkey_agent_add_listener (agent, heard, listener, watch_destroyed), !=, 0);
  g_assert_cmpuint (latchkey_agent_get_content_info (agent, got_info, seen, watch_destroyed), !=, 0);
  watch_wait_for_end (seen);
  g_assert_cmpuint (seen->watch.called, ==, 1);
  g_assert_null (seen->info);
  g_assert_cmpint (latchkey_agent_error_get_code (seen->error), ==, LATCHKEY_AGENT_ERROR_UNREACHABLE);
  g_assert_nonnull (strstr (latchkey_agent_error_get_message (seen->error), "127.0.0.1:9"));
  g_assert_true (latchkey_agent_error_is_temporary (seen->error));
  g_assert_cmpint (latchkey_agent_error_get_http_status (seen->error), ==, 0);
  g_assert_cmpint (latchkey_agent_error_get_key_error (seen->error), ==, LATCHKEY_ERROR_NONE);
  g_assert_cmpint (latchkey_agent_get_state (agent), ==, LATCHKEY_AGENT_STATE_INITIALIZED);
  latchkey_agent_error_unref (seen->error);

  /* Inspecting, a line of the log, and initialized again. */
  g_mutex_lock (&listener->watch.lock);
  WATCH_UNTIL_LOCKED (listener, listener->watch.called >= 3);
  for (guint i = 0; i < listener->events->len; i++) {
    LatchkeyAgentEvent *event = g_ptr_array_index (listener->events, i);
    switch (latchkey_agent_event_get_type (event)) {
      case LATCHKEY_AGENT_EVENT_STATE_CHANGED:
        g_assert_cmpint (latchkey_agent_event_get_state (event), ==,
            states++ == 0 ? LATCHKEY_AGENT_STATE_INSPECTING : LATCHKEY_AGENT_STATE_INITIALIZED);
        g_assert_null (latchkey_agent_event_get_reason (event));
        break;
      case LATCHKEY_AGENT_EVENT_LOG_MESSAGE:
        lines++;
        g_assert_cmpint (latchkey_agent_event_get_log_level (event), >=, LATCHKEY_LOG_WARNING);
        g_assert_nonnull (latchkey_agent_event_get_reason (event));
        break;
      default:
        g_assert_not_reached ();
    }
    g_assert_null (latchkey_agent_event_get_rights (event));
    g_assert_null (latchkey_agent_event_get_key_id (event, 0));
    latchkey_agent_event_unref (event);
  }
  g_mutex_unlock (&listener->watch.lock);
  g_assert_cmpuint (states, ==, 2);
  g_assert_cmpuint (lines, >=, 1);
  latchkey_agent_unref (agent);
  watch_wait_for_end (listener);
}

static void
test_cancel (void)
{
  gchar *url;
  int server = silent_server (&url);
  LatchkeyAgent *agent = agent_new (url);
  Seen *info = seen_new (), *license = seen_new ();
  guint64 first = latchkey_agent_get_content_info (agent, got_info, info, watch_destroyed);
  guint64 second = latchkey_agent_acquire_license (agent, NULL, got_license, license, watch_destroyed);

  g_assert_cmpuint (first, !=, second);
  g_assert_true (latchkey_call_cancel (first));
  watch_wait_for_end (info);
  g_assert_cmpuint (info->watch.called, ==, 1);
  g_assert_cmpint (latchkey_agent_error_get_code (info->error), ==, LATCHKEY_AGENT_ERROR_CANCELLED);
  g_assert_false (latchkey_call_cancel (first));
  /* The other one goes on. */
  g_assert_cmpuint (license->watch.called, ==, 0);
  g_assert_true (latchkey_call_cancel (second));
  watch_wait_for_end (license);
  g_assert_cmpint (latchkey_agent_error_get_code (license->error), ==, LATCHKEY_AGENT_ERROR_CANCELLED);
  latchkey_agent_error_unref (info->error);
  latchkey_agent_error_unref (license->error);
  /* Nobody needs a callback. */
  g_assert_true (latchkey_call_cancel (latchkey_agent_get_content_info (agent, NULL, NULL, NULL)));
  latchkey_agent_unref (agent);
  close (server);
  g_free (url);
}

/* The last reference ends calls and listeners: each is told, once, and then never again. */
static void
test_unref (void)
{
  gchar *url;
  int server = silent_server (&url);
  LatchkeyAgent *agent = agent_new (url);
  Seen *info = seen_new (), *listener = seen_new ();

  latchkey_agent_add_listener (agent, heard, listener, watch_destroyed);
  latchkey_agent_get_content_info (agent, got_info, info, watch_destroyed);
  latchkey_agent_unref (agent);
  watch_wait_for_end (info);
  watch_wait_for_end (listener);
  g_assert_cmpuint (info->watch.called, ==, 1);
  g_assert_cmpint (latchkey_agent_error_get_code (info->error), ==, LATCHKEY_AGENT_ERROR_CANCELLED);
  latchkey_agent_error_unref (info->error);
  g_ptr_array_foreach (listener->events, (GFunc) (void (*) (void)) latchkey_agent_event_unref, NULL);
  close (server);
  g_free (url);
}

/* The reference stays: calls and listeners end, later ones at once. */
static void
test_close (void)
{
  gchar *url;
  int server = silent_server (&url);
  LatchkeyAgent *agent = agent_new (url);
  Seen *info = seen_new (), *listener = seen_new (), *later = seen_new (), *call = seen_new ();

  latchkey_agent_close (NULL);
  latchkey_agent_add_listener (agent, heard, listener, watch_destroyed);
  latchkey_agent_get_content_info (agent, got_info, info, watch_destroyed);
  latchkey_agent_close (agent);
  latchkey_agent_close (agent);
  watch_wait_for_end (info);
  watch_wait_for_end (listener);
  g_assert_cmpuint (info->watch.called, ==, 1);
  g_assert_cmpint (latchkey_agent_error_get_code (info->error), ==, LATCHKEY_AGENT_ERROR_CANCELLED);
  latchkey_agent_error_unref (info->error);
  g_assert_cmpuint (latchkey_agent_add_listener (agent, heard, later, watch_destroyed), !=, 0);
  watch_wait_for_end (later);
  g_assert_cmpuint (latchkey_agent_get_content_info (agent, got_info, call, watch_destroyed), !=, 0);
  watch_wait_for_end (call);
  g_assert_cmpuint (call->watch.called, ==, 1);
  g_assert_cmpint (latchkey_agent_error_get_code (call->error), ==, LATCHKEY_AGENT_ERROR_CANCELLED);
  latchkey_agent_error_unref (call->error);
  g_ptr_array_foreach (listener->events, (GFunc) (void (*) (void)) latchkey_agent_event_unref, NULL);
  latchkey_agent_unref (agent);
  close (server);
  g_free (url);
}

/* Removes itself from inside its callback. */
typedef struct {
  Seen *seen;
  LatchkeyAgent *agent;
  guint64 id;
} Leaver;

static void
heard_and_left (LatchkeyAgentEvent *event, void *user_data)
{
  Leaver *leaver = user_data;
  g_assert_nonnull (event);
  watch_enter (leaver->seen);
  g_assert_true (latchkey_agent_remove_listener (leaver->agent, leaver->id));
  watch_leave (leaver->seen);
}

static void
left (void *user_data)
{
  watch_destroyed (((Leaver *) user_data)->seen);
}

static void
test_listener_leaves (void)
{
  LatchkeyAgent *agent = agent_new (NOWHERE);
  Leaver leaver = { seen_new (), agent, 0 };
  Seen *info = seen_new ();

  leaver.id = latchkey_agent_add_listener (agent, heard_and_left, &leaver, left);
  latchkey_agent_get_content_info (agent, got_info, info, watch_destroyed);
  watch_wait_for_end (info);
  watch_wait_for_end (leaver.seen);
  g_assert_cmpuint (leaver.seen->watch.called, ==, 1);
  g_assert_false (latchkey_agent_remove_listener (agent, leaver.id));
  latchkey_agent_error_unref (info->error);
  latchkey_agent_unref (agent);
}

/* What is no picture is refused, and the one before stays. */
static void
test_alternative_image (void)
{
  static const char noise[] = "this is no picture";
  LatchkeyAgent *agent = agent_new (NOWHERE);
  LatchkeyAgentError *error = NULL;

  g_assert_false (latchkey_agent_set_hdmi_alternative_image (NULL, noise, sizeof noise, &error));
  g_assert_cmpint (latchkey_agent_error_get_code (error), ==, LATCHKEY_AGENT_ERROR_INVALID_ARGUMENT);
  latchkey_agent_error_unref (error);
  g_assert_false (latchkey_agent_set_hdmi_alternative_image (agent, noise, sizeof noise, &error));
  g_assert_cmpint (latchkey_agent_error_get_code (error), ==, LATCHKEY_AGENT_ERROR_CONFIGURATION);
  latchkey_agent_error_unref (error);
  g_assert_false (latchkey_agent_set_hdmi_alternative_image (agent, noise, 0, NULL));
  g_assert_true (latchkey_agent_set_hdmi_alternative_image (agent, NULL, 0, &error));
  g_assert_null (error);
  latchkey_agent_unref (agent);
}

static void
test_configuration (void)
{
  LatchkeyAgentOptions options = { .size = sizeof options, .configuration_file = "/nonexistent/latchkey.conf" };
  LatchkeyAgent *agent = latchkey_agent_new (NOWHERE, LATCHKEY_CONTENT_DASH, &options);
  Seen *info = seen_new (), *reset = seen_new ();

  latchkey_agent_get_content_info (agent, got_info, info, watch_destroyed);
  watch_wait_for_end (info);
  g_assert_cmpint (latchkey_agent_error_get_code (info->error), ==, LATCHKEY_AGENT_ERROR_CONFIGURATION);
  g_assert_nonnull (strstr (latchkey_agent_error_get_message (info->error), "/nonexistent/latchkey.conf"));
  latchkey_agent_error_unref (info->error);
  g_assert_cmpuint (latchkey_reset_licenses ("/nonexistent/latchkey.conf", got_reset, reset, watch_destroyed), !=, 0);
  watch_wait_for_end (reset);
  g_assert_cmpint (latchkey_agent_error_get_code (reset->error), ==, LATCHKEY_AGENT_ERROR_CONFIGURATION);
  g_assert_cmpuint (reset->count, ==, 0);
  latchkey_agent_error_unref (reset->error);
  latchkey_agent_unref (agent);
}

/* A pipeline of the application's own goes, whether before or after the agent. */
static void
test_attach (void)
{
  for (int agent_first = 0; agent_first < 2; agent_first++) {
    LatchkeyAgent *agent = agent_new (NOWHERE);
    GstElement *pipeline = gst_pipeline_new (NULL);
    LatchkeyAgentError *error = NULL;

    g_assert_true (latchkey_agent_attach (agent, pipeline, &error));
    g_assert_null (error);
    if (agent_first)
      g_clear_pointer (&agent, latchkey_agent_unref);
    g_assert_cmpint (gst_element_set_state (pipeline, GST_STATE_READY), ==, GST_STATE_CHANGE_SUCCESS);
    gst_element_set_state (pipeline, GST_STATE_NULL);
    g_assert_cmpint (GST_OBJECT_REFCOUNT_VALUE (pipeline), ==, 1);
    gst_object_unref (pipeline);
    latchkey_agent_unref (agent);
  }
}

static void
test_player_without_sink (void)
{
  LatchkeyAgentOptions options = { .size = sizeof options, .video_sink = "no such sink !" };
  LatchkeyAgent *agent = latchkey_agent_new (NOWHERE, LATCHKEY_CONTENT_DASH, &options);
  LatchkeyAgentError *error = NULL;

  g_assert_null (latchkey_agent_make_player (agent, &error));
  g_assert_cmpint (latchkey_agent_error_get_code (error), ==, LATCHKEY_AGENT_ERROR_CONFIGURATION);
  latchkey_agent_error_unref (error);
  g_assert_null (latchkey_agent_make_player (agent, NULL));
  latchkey_agent_unref (agent);
}

int
main (int argc, char **argv)
{
  g_setenv ("LATCHKEY_CONFIG", "/dev/null", TRUE);
  gst_init (&argc, &argv);
  g_assert_true (latchkey_register_elements (NULL));
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/agent/arguments", test_arguments);
  g_test_add_func ("/agent/names", test_names);
  g_test_add_func ("/agent/error", test_error);
  g_test_add_func ("/agent/cancel", test_cancel);
  g_test_add_func ("/agent/unref", test_unref);
  g_test_add_func ("/agent/close", test_close);
  g_test_add_func ("/agent/listener-leaves", test_listener_leaves);
  g_test_add_func ("/agent/alternative-image", test_alternative_image);
  g_test_add_func ("/agent/configuration", test_configuration);
  g_test_add_func ("/agent/attach", test_attach);
  g_test_add_func ("/agent/player-without-sink", test_player_without_sink);
  return g_test_run ();
}

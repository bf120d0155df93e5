/* SPDX-License-Identifier: MPL-2.0 */

/* Every function of the C interface is the first that a process calls: before gst_init(), and before any other function of
   Latchkey. Then all of them in random orders, in one process each. The recorded ABI is the argument: a function that is
   not called here fails the test. Run by `meson test`. */

#include "watch.h"
#include <latchkey.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Callbacks that do nothing. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ORDERS 20
#define CONTENT "http://127.0.0.1:9/film.mpd"
/* Nothing can be kept there. */
#define FOLDER "/dev/null/cache"

typedef struct {
  const char *name;
  void (*body) (void);
} First;

static const char *configuration = "/dev/null";

/* The end of a call, waited for. */
static void
wait_for_call (Watch *watch, uint64_t call)
{
  g_assert_cmpuint (call, !=, 0);
  watch_wait_for_end (watch);
}

static LatchkeyAgent *
agent_new (void)
{
  LatchkeyAgentOptions options = {
    .size = sizeof options, .video_sink = "fakesink", .audio_sink = "fakesink", .outputs = "application",
    .configuration_file = configuration
  };
  LatchkeyAgent *agent = latchkey_agent_new (CONTENT, LATCHKEY_CONTENT_DASH, &options);
  g_assert_nonnull (agent);
  return agent;
}

static LatchkeyCachedContent *
cached_new (void)
{
  LatchkeyCacheOptions options = { .size = sizeof options, .folder = FOLDER };
  LatchkeyCachedContent *content = latchkey_cached_content_new (CONTENT, LATCHKEY_CONTENT_DASH, &options);
  g_assert_nonnull (content);
  return content;
}

static void
got_info (LatchkeyContentInfo *info, LatchkeyAgentError *error, void *user_data)
{
  g_assert_true (info == NULL && error != NULL);
}

static void
got_license (LatchkeyRights *rights, LatchkeyAgentError *error, void *user_data)
{
  g_assert_true (rights == NULL && error != NULL);
}

static void
got_reset (size_t count, LatchkeyAgentError *error, void *user_data)
{
}

static void
got_licenses (LatchkeyLicense *const *licenses, size_t count, LatchkeyAgentError *error, void *user_data)
{
}

static void
got_removal (int removed, LatchkeyAgentError *error, void *user_data)
{
}

static void
got_sessions (LatchkeyViewingSession *const *sessions, size_t count, LatchkeyAgentError *error, void *user_data)
{
}

static void
got_end (size_t ended, size_t left, LatchkeyAgentError *error, void *user_data)
{
}

static void
got_items (LatchkeyCachedContent *const *items, size_t count, LatchkeyCacheErrorCode error, const char *message,
           void *user_data)
{
}

static void
heard (LatchkeyAgentEvent *event, void *user_data)
{
}

static void
heard_progress (LatchkeyCacheProgress *progress, void *user_data)
{
}

static int
take (LatchkeyKeyRequest *request, void *user_data)
{
  return 0;
}

static void
load (LatchkeyKeyRequest *request, void *user_data)
{
}

static const LatchkeyLoaderFunctions loader = {
  .size = sizeof (LatchkeyLoaderFunctions), .should_wait = take, .load = load
};

static int
take_stream (LatchkeySecureStream *stream, void *user_data)
{
  return 0;
}

static void *
create (LatchkeySecureStream *stream, void *user_data)
{
  return NULL;
}

static int
decrypt (void *decryptor, LatchkeySecureSample *sample)
{
  return 0;
}

static const LatchkeySecureDecryptorFunctions secure_decryptor = {
  .size = sizeof (LatchkeySecureDecryptorFunctions), .memory_feature = "memory:Secret", .takes = take_stream,
  .create = create, .decrypt = decrypt
};

/* Functions that make something, or need nothing to be made before. */

#define FIRST(function) static void first_ ## function (void)
#define AGENT(function, ...) \
    FIRST (function) { LatchkeyAgent *agent = agent_new (); __VA_ARGS__; latchkey_agent_unref (agent); }
#define CACHED(function, ...) \
    FIRST (function) { LatchkeyCachedContent *content = cached_new (); __VA_ARGS__; latchkey_cached_content_unref (content); }
#define SESSION(function, ...) \
    FIRST (function) { LatchkeySession *session = latchkey_session_new (); __VA_ARGS__; latchkey_session_unref (session); }
#define CALL(...) \
    do { Watch *watch = watch_new (sizeof (Watch)); wait_for_call (watch, __VA_ARGS__); } while (0)

AGENT (agent_new)
AGENT (agent_ref, latchkey_agent_unref (latchkey_agent_ref (agent)))
AGENT (agent_close, latchkey_agent_close (agent))
AGENT (agent_get_content_info, CALL (latchkey_agent_get_content_info (agent, got_info, watch, watch_destroyed)))
AGENT (agent_acquire_license, CALL (latchkey_agent_acquire_license (agent, NULL, got_license, watch, watch_destroyed)))
AGENT (agent_add_listener, g_assert_cmpuint (latchkey_agent_add_listener (agent, heard, NULL, NULL), !=, 0))
AGENT (agent_set_audio_track, latchkey_agent_set_audio_track (agent, "english"))
AGENT (agent_set_custom_challenge_data, latchkey_agent_set_custom_challenge_data (agent, "<a/>"))
AGENT (agent_set_hdmi_mode, latchkey_agent_set_hdmi_mode (agent, LATCHKEY_HDMI_ALTERNATIVE))
AGENT (agent_get_state, g_assert_cmpint (latchkey_agent_get_state (agent), ==, LATCHKEY_AGENT_STATE_INITIALIZED))

/* No element decodes a picture in these tests, and none makes a player: what counts is that the functions say so. */
FIRST (agent_set_hdmi_alternative_image)
{
  static const unsigned char image[] = "P6 1 1 255\n\xff\xff\xff";
  LatchkeyAgent *agent = agent_new ();
  LatchkeyAgentError *error = NULL;
  int is_set = latchkey_agent_set_hdmi_alternative_image (agent, image, sizeof image - 1, &error);
  g_assert_true (is_set == (error == NULL));
  latchkey_agent_error_unref (error);
  g_assert_true (latchkey_agent_set_hdmi_alternative_image (agent, NULL, 0, NULL));
  latchkey_agent_unref (agent);
}

FIRST (agent_make_player)
{
  LatchkeyAgent *agent = agent_new ();
  LatchkeyAgentError *error = NULL;
  GstElement *player = latchkey_agent_make_player (agent, &error);
  g_assert_true ((player == NULL) == (error != NULL));
  if (player != NULL)
    gst_object_unref (player);
  latchkey_agent_error_unref (error);
  latchkey_agent_unref (agent);
}

FIRST (agent_attach)
{
  LatchkeyAgent *agent = agent_new ();
  LatchkeyAgentError *error = NULL;
  g_assert_false (latchkey_agent_attach (agent, NULL, &error));
  g_assert_nonnull (error);
  latchkey_agent_error_unref (error);
  latchkey_agent_unref (agent);
}

CACHED (cached_content_new)
CACHED (cached_content_ref, latchkey_cached_content_unref (latchkey_cached_content_ref (content)))
CACHED (cached_content_start, latchkey_cached_content_start (content))
CACHED (cached_content_start_with_license, latchkey_cached_content_start_with_license (content))
CACHED (cached_content_refresh, latchkey_cached_content_refresh (content))
CACHED (cached_content_pause, latchkey_cached_content_pause (content))
CACHED (cached_content_purge, latchkey_cached_content_purge (content))
CACHED (cached_content_get_type,
        g_assert_cmpint (latchkey_cached_content_get_type (content), ==, LATCHKEY_CONTENT_DASH))
CACHED (cached_content_get_url, g_assert_cmpstr (latchkey_cached_content_get_url (content), ==, CONTENT))
CACHED (cached_content_get_progress, latchkey_cache_progress_unref (latchkey_cached_content_get_progress (content)))
CACHED (cached_content_add_listener, latchkey_cached_content_add_listener (content, heard_progress, NULL, NULL))

SESSION (session_new)
SESSION (session_ref, latchkey_session_unref (latchkey_session_ref (session)))
SESSION (session_close, latchkey_session_close (session, NULL))
SESSION (session_attach, latchkey_session_attach (session, NULL))
SESSION (session_add_loader, g_assert_true (latchkey_session_add_loader (session, "own", &loader, NULL, NULL)))

FIRST (loader_register)
{
  g_assert_true (latchkey_loader_unregister (latchkey_loader_register ("own", &loader, NULL, NULL)));
}

FIRST (secure_decryptor_register)
{
  g_assert_true (latchkey_secure_decryptor_unregister (
      latchkey_secure_decryptor_register ("own", &secure_decryptor, NULL, NULL)));
}

FIRST (cached_content_list)
{
  CALL (latchkey_cached_content_list (FOLDER, got_items, watch, watch_destroyed));
}

FIRST (license_remove)
{
  static const uint8_t id[16];
  CALL (latchkey_license_remove (configuration, id, got_removal, watch, watch_destroyed));
}

FIRST (licenses_list)
{
  CALL (latchkey_licenses_list (configuration, got_licenses, watch, watch_destroyed));
}

FIRST (reset_licenses)
{
  CALL (latchkey_reset_licenses (configuration, got_reset, watch, watch_destroyed));
}

FIRST (viewing_sessions_list)
{
  CALL (latchkey_viewing_sessions_list (configuration, got_sessions, watch, watch_destroyed));
}

FIRST (viewing_sessions_end_left_over)
{
  CALL (latchkey_viewing_sessions_end_left_over (configuration, got_end, watch, watch_destroyed));
}

FIRST (content_type_from_url)
{
  g_assert_cmpint (latchkey_content_type_from_url (CONTENT), ==, LATCHKEY_CONTENT_DASH);
}

FIRST (agent_state_get_name)
{
  g_assert_nonnull (latchkey_agent_state_get_name (LATCHKEY_AGENT_STATE_INITIALIZED));
}

FIRST (agent_event_type_get_name)
{
  g_assert_nonnull (latchkey_agent_event_type_get_name (LATCHKEY_AGENT_EVENT_STATE_CHANGED));
}

FIRST (rights_status_get_name)
{
  g_assert_nonnull (latchkey_rights_status_get_name (LATCHKEY_RIGHTS_NONE));
}

/* Functions of objects that there cannot be yet. */

#define NOTHING(function, ...) FIRST (function) { (void) latchkey_ ## function (__VA_ARGS__); }

NOTHING (agent_error_get_code, NULL)
NOTHING (agent_error_get_http_status, NULL)
NOTHING (agent_error_get_key_error, NULL)
NOTHING (agent_error_get_message, NULL)
NOTHING (agent_error_is_temporary, NULL)
NOTHING (agent_error_ref, NULL)
NOTHING (agent_error_unref, NULL)
NOTHING (agent_event_get_conflict, NULL, 0)
NOTHING (agent_event_get_http_status, NULL)
NOTHING (agent_event_get_key_id, NULL, 0)
NOTHING (agent_event_get_log_level, NULL)
NOTHING (agent_event_get_output_status, NULL, NULL)
NOTHING (agent_event_get_reason, NULL)
NOTHING (agent_event_get_rights, NULL)
NOTHING (agent_event_get_server_code, NULL)
NOTHING (agent_event_get_server_message, NULL)
NOTHING (agent_event_get_state, NULL)
NOTHING (agent_event_get_type, NULL)
NOTHING (agent_event_get_url, NULL)
NOTHING (agent_event_is_final, NULL)
NOTHING (agent_event_ref, NULL)
NOTHING (agent_event_unref, NULL)
NOTHING (agent_remove_listener, NULL, 0)
NOTHING (agent_unref, NULL)
NOTHING (cache_progress_get_cached_duration, NULL)
NOTHING (cache_progress_get_cached_size, NULL)
NOTHING (cache_progress_get_error, NULL)
NOTHING (cache_progress_get_http_status, NULL)
NOTHING (cache_progress_get_message, NULL)
NOTHING (cache_progress_get_status, NULL)
NOTHING (cache_progress_get_total_duration, NULL)
NOTHING (cache_progress_get_warning, NULL)
NOTHING (cache_progress_get_warning_message, NULL)
NOTHING (cache_progress_is_ready_to_play, NULL)
NOTHING (cache_progress_ref, NULL)
NOTHING (cache_progress_unref, NULL)
NOTHING (cached_content_remove_listener, NULL, 0)
NOTHING (cached_content_unref, NULL)
NOTHING (call_cancel, 0)
NOTHING (content_info_get_audio_track_name, NULL, 0)
NOTHING (content_info_get_key_id, NULL, 0)
NOTHING (content_info_get_key_id_count, NULL)
NOTHING (content_info_get_key_need, NULL, 0)
NOTHING (content_info_get_key_system, NULL, 0)
NOTHING (content_info_get_license_url, NULL, 0)
NOTHING (content_info_get_rights, NULL)
NOTHING (content_info_get_track, NULL, 0)
NOTHING (content_info_is_protected, NULL)
NOTHING (content_info_ref, NULL)
NOTHING (content_info_unref, NULL)
NOTHING (free, NULL)
NOTHING (key_need_get_key_id, NULL, 0)
NOTHING (key_need_get_key_system, NULL)
NOTHING (key_need_get_key_uri, NULL)
NOTHING (key_need_get_source, NULL)
NOTHING (key_period_get_end, NULL, NULL)
NOTHING (key_period_get_key_format, NULL)
NOTHING (key_period_get_key_id, NULL, 0)
NOTHING (key_period_get_key_uri, NULL)
NOTHING (key_period_get_method, NULL)
NOTHING (key_period_get_start, NULL, NULL)
NOTHING (key_request_can_store_key, NULL, NULL, 0)
NOTHING (key_request_did_not_store, NULL, 0, NULL)
NOTHING (key_request_finish_with_error, NULL, 0, NULL)
NOTHING (key_request_finish_with_key, NULL, NULL, NULL)
NOTHING (key_request_finish_with_keys, NULL, NULL, 0)
NOTHING (key_request_finish_with_license, NULL, NULL, 0)
NOTHING (key_request_finish_with_persistable_key, NULL, NULL, 0)
NOTHING (key_request_get_challenge, NULL, NULL)
NOTHING (key_request_get_id, NULL)
NOTHING (key_request_get_init_data, NULL, 0, NULL, NULL)
NOTHING (key_request_get_init_data_count, NULL)
NOTHING (key_request_get_key_id, NULL, 0)
NOTHING (key_request_get_key_id_count, NULL)
NOTHING (key_request_get_key_system, NULL)
NOTHING (key_request_get_key_uri, NULL)
NOTHING (key_request_get_suggested_url, NULL)
NOTHING (key_request_is_finished, NULL)
NOTHING (key_request_is_for_storage, NULL)
NOTHING (key_request_is_renewal, NULL)
NOTHING (key_request_make_persistable_key, NULL, NULL, 0, NULL, NULL, NULL)
NOTHING (key_request_make_streaming_content_key_request_data, NULL, NULL, 0, NULL, 0, NULL, NULL, NULL)
NOTHING (key_request_ref, NULL)
NOTHING (key_request_set_lease, NULL, 0)
NOTHING (key_request_set_requests_persistable_key, NULL, 0)
NOTHING (key_request_unref, NULL)
NOTHING (license_get_domain, NULL)
NOTHING (license_get_id, NULL)
NOTHING (license_get_key_id, NULL, 0)
NOTHING (license_get_key_system, NULL)
NOTHING (license_get_rights, NULL)
NOTHING (license_ref, NULL)
NOTHING (license_unref, NULL)
NOTHING (loader_unregister, 0)
NOTHING (register_elements, NULL)
NOTHING (rights_expire_after_first_use, NULL)
NOTHING (rights_get_begin, NULL, NULL)
NOTHING (rights_get_end, NULL, NULL)
NOTHING (rights_get_reason, NULL)
NOTHING (rights_get_status, NULL)
NOTHING (rights_ref, NULL)
NOTHING (rights_unref, NULL)
NOTHING (secure_decryptor_unregister, 0)
NOTHING (secure_sample_get_data, NULL, NULL)
NOTHING (secure_sample_get_iv, NULL)
NOTHING (secure_sample_get_key, NULL)
NOTHING (secure_sample_get_key_id, NULL)
NOTHING (secure_sample_get_memory, NULL)
NOTHING (secure_sample_get_pattern, NULL, NULL, NULL)
NOTHING (secure_sample_get_scheme, NULL)
NOTHING (secure_sample_get_subsample, NULL, 0, NULL, NULL)
NOTHING (secure_sample_get_subsample_count, NULL)
NOTHING (secure_sample_set_error, NULL, NULL)
NOTHING (secure_stream_get_caps, NULL)
NOTHING (secure_stream_get_media_type, NULL)
NOTHING (secure_stream_set_error, NULL, NULL)
NOTHING (service_request_add_header, NULL, NULL, NULL)
NOTHING (service_request_finish_with_error, NULL, 0, NULL)
NOTHING (service_request_finish_with_response, NULL, NULL, 0)
NOTHING (service_request_get_challenge, NULL, NULL)
NOTHING (service_request_get_operation, NULL)
NOTHING (service_request_get_soap_action, NULL)
NOTHING (service_request_get_url, NULL)
NOTHING (service_request_ref, NULL)
NOTHING (service_request_send, NULL)
NOTHING (service_request_set_url, NULL, NULL)
NOTHING (service_request_unref, NULL)
NOTHING (session_unref, NULL)
NOTHING (track_get_bit_rate, NULL)
NOTHING (track_get_codecs, NULL)
NOTHING (track_get_height, NULL)
NOTHING (track_get_key_period, NULL, 0)
NOTHING (track_get_kind, NULL)
NOTHING (track_get_language, NULL)
NOTHING (track_get_name, NULL)
NOTHING (track_get_width, NULL)
NOTHING (stop_callbacks)
NOTHING (version)
NOTHING (viewing_session_get_attempts, NULL)
NOTHING (viewing_session_get_name, NULL)
NOTHING (viewing_session_get_process_id, NULL)
NOTHING (viewing_session_get_server_url, NULL)
NOTHING (viewing_session_ref, NULL)
NOTHING (viewing_session_unref, NULL)

static const First table[] = {
#define ENTRY(function) { "latchkey_" #function, first_ ## function }
  ENTRY (agent_acquire_license), ENTRY (agent_add_listener), ENTRY (agent_attach), ENTRY (agent_close),
  ENTRY (agent_error_get_code), ENTRY (agent_error_get_http_status), ENTRY (agent_error_get_key_error),
  ENTRY (agent_error_get_message),
  ENTRY (agent_error_is_temporary), ENTRY (agent_error_ref), ENTRY (agent_error_unref),
  ENTRY (agent_event_get_conflict), ENTRY (agent_event_get_http_status), ENTRY (agent_event_get_key_id),
  ENTRY (agent_event_get_log_level), ENTRY (agent_event_get_output_status), ENTRY (agent_event_get_reason),
  ENTRY (agent_event_get_rights), ENTRY (agent_event_get_server_code), ENTRY (agent_event_get_server_message),
  ENTRY (agent_event_get_state), ENTRY (agent_event_get_type), ENTRY (agent_event_get_url),
  ENTRY (agent_event_is_final), ENTRY (agent_event_ref), ENTRY (agent_event_type_get_name), ENTRY (agent_event_unref),
  ENTRY (agent_get_content_info), ENTRY (agent_get_state), ENTRY (agent_make_player), ENTRY (agent_new),
  ENTRY (agent_ref), ENTRY (agent_remove_listener), ENTRY (agent_set_audio_track),
  ENTRY (agent_set_custom_challenge_data), ENTRY (agent_set_hdmi_alternative_image), ENTRY (agent_set_hdmi_mode),
  ENTRY (agent_state_get_name), ENTRY (agent_unref), ENTRY (cache_progress_get_cached_duration),
  ENTRY (cache_progress_get_cached_size), ENTRY (cache_progress_get_error), ENTRY (cache_progress_get_http_status),
  ENTRY (cache_progress_get_message), ENTRY (cache_progress_get_status), ENTRY (cache_progress_get_total_duration),
  ENTRY (cache_progress_get_warning), ENTRY (cache_progress_get_warning_message),
  ENTRY (cache_progress_is_ready_to_play), ENTRY (cache_progress_ref), ENTRY (cache_progress_unref),
  ENTRY (cached_content_add_listener), ENTRY (cached_content_get_progress), ENTRY (cached_content_get_type),
  ENTRY (cached_content_get_url), ENTRY (cached_content_list), ENTRY (cached_content_new), ENTRY (cached_content_pause),
  ENTRY (cached_content_purge), ENTRY (cached_content_ref), ENTRY (cached_content_refresh),
  ENTRY (cached_content_remove_listener), ENTRY (cached_content_start), ENTRY (cached_content_start_with_license),
  ENTRY (cached_content_unref), ENTRY (call_cancel), ENTRY (content_info_get_audio_track_name),
  ENTRY (content_info_get_key_id), ENTRY (content_info_get_key_id_count), ENTRY (content_info_get_key_need),
  ENTRY (content_info_get_key_system), ENTRY (content_info_get_license_url), ENTRY (content_info_get_rights),
  ENTRY (content_info_get_track), ENTRY (content_info_is_protected), ENTRY (content_info_ref),
  ENTRY (content_info_unref), ENTRY (content_type_from_url), ENTRY (free), ENTRY (key_need_get_key_id),
  ENTRY (key_need_get_key_system), ENTRY (key_need_get_key_uri), ENTRY (key_need_get_source),
  ENTRY (key_period_get_end), ENTRY (key_period_get_key_format), ENTRY (key_period_get_key_id),
  ENTRY (key_period_get_key_uri), ENTRY (key_period_get_method), ENTRY (key_period_get_start),
  ENTRY (key_request_can_store_key), ENTRY (key_request_did_not_store), ENTRY (key_request_finish_with_error),
  ENTRY (key_request_finish_with_key), ENTRY (key_request_finish_with_keys), ENTRY (key_request_finish_with_license),
  ENTRY (key_request_finish_with_persistable_key), ENTRY (key_request_get_challenge), ENTRY (key_request_get_id),
  ENTRY (key_request_get_init_data), ENTRY (key_request_get_init_data_count), ENTRY (key_request_get_key_id),
  ENTRY (key_request_get_key_id_count), ENTRY (key_request_get_key_system), ENTRY (key_request_get_key_uri),
  ENTRY (key_request_get_suggested_url), ENTRY (key_request_is_finished), ENTRY (key_request_is_for_storage),
  ENTRY (key_request_is_renewal), ENTRY (key_request_make_persistable_key),
  ENTRY (key_request_make_streaming_content_key_request_data), ENTRY (key_request_ref), ENTRY (key_request_set_lease),
  ENTRY (key_request_set_requests_persistable_key), ENTRY (key_request_unref), ENTRY (license_get_domain),
  ENTRY (license_get_id), ENTRY (license_get_key_id), ENTRY (license_get_key_system), ENTRY (license_get_rights),
  ENTRY (license_ref), ENTRY (license_remove), ENTRY (license_unref), ENTRY (licenses_list), ENTRY (loader_register),
  ENTRY (loader_unregister), ENTRY (register_elements), ENTRY (reset_licenses), ENTRY (rights_expire_after_first_use),
  ENTRY (rights_get_begin), ENTRY (rights_get_end), ENTRY (rights_get_reason), ENTRY (rights_get_status),
  ENTRY (rights_ref), ENTRY (rights_status_get_name), ENTRY (rights_unref), ENTRY (secure_decryptor_register),
  ENTRY (secure_decryptor_unregister), ENTRY (secure_sample_get_data), ENTRY (secure_sample_get_iv),
  ENTRY (secure_sample_get_key), ENTRY (secure_sample_get_key_id), ENTRY (secure_sample_get_memory),
  ENTRY (secure_sample_get_pattern), ENTRY (secure_sample_get_scheme), ENTRY (secure_sample_get_subsample),
  ENTRY (secure_sample_get_subsample_count), ENTRY (secure_sample_set_error), ENTRY (secure_stream_get_caps),
  ENTRY (secure_stream_get_media_type), ENTRY (secure_stream_set_error), ENTRY (service_request_add_header),
  ENTRY (service_request_finish_with_error), ENTRY (service_request_finish_with_response),
  ENTRY (service_request_get_challenge), ENTRY (service_request_get_operation), ENTRY (service_request_get_soap_action),
  ENTRY (service_request_get_url), ENTRY (service_request_ref), ENTRY (service_request_send),
  ENTRY (service_request_set_url), ENTRY (service_request_unref), ENTRY (session_add_loader), ENTRY (session_attach),
  ENTRY (session_close), ENTRY (session_new), ENTRY (session_ref), ENTRY (session_unref), ENTRY (track_get_bit_rate),
  ENTRY (track_get_codecs), ENTRY (track_get_height), ENTRY (track_get_key_period), ENTRY (track_get_kind),
  ENTRY (track_get_language), ENTRY (track_get_name), ENTRY (track_get_width), ENTRY (stop_callbacks), ENTRY (version),
  ENTRY (viewing_session_get_attempts), ENTRY (viewing_session_get_name), ENTRY (viewing_session_get_process_id),
  ENTRY (viewing_session_get_server_url), ENTRY (viewing_session_ref), ENTRY (viewing_session_unref),
  ENTRY (viewing_sessions_end_left_over), ENTRY (viewing_sessions_list),
};

static const First *
find (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (table); i++)
    if (strcmp (table[i].name, name) == 0)
      return &table[i];
  return NULL;
}

/* The functions of the recorded ABI; those that are not called here are added to `failed`. */
static GPtrArray *
read_calls (const char *path, GString *failed)
{
  GPtrArray *calls = g_ptr_array_new ();
  gchar *text, **lines;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (gchar **line = lines; *line != NULL; line++) {
    const First *first;
    if (**line == '\0' || **line == '#')
      continue;
    g_strdelimit (*line, " ", '\0');
    first = find (*line);
    if (first == NULL)
      g_string_append_printf (failed, "%s is not called here\n", *line);
    else
      g_ptr_array_add (calls, (gpointer) first);
  }
  g_assert_cmpuint (calls->len, >, 100);
  g_strfreev (lines);
  g_free (text);
  return calls;
}

/* This process calls one function, by its name, or all, in the order of that number. */
static int
call (GPtrArray *calls, const char *what)
{
  const First *first = find (what);
  GRand *random;

  alarm (60);
  if (first != NULL) {
    first->body ();
    return 0;
  }
  random = g_rand_new_with_seed ((guint32) atoi (what));
  for (guint i = calls->len - 1; i > 0; i--) {
    guint other = (guint) g_rand_int_range (random, 0, (gint32) i + 1);
    gpointer entry = calls->pdata[i];
    calls->pdata[i] = calls->pdata[other];
    calls->pdata[other] = entry;
  }
  g_rand_free (random);
  /* Behind it, no call ends. */
  for (guint i = 0; i < calls->len; i++)
    if (g_ptr_array_index (calls, i) != find ("latchkey_stop_callbacks"))
      ((const First *) g_ptr_array_index (calls, i))->body ();
  latchkey_stop_callbacks ();
  return 0;
}

/* Whether another process of this program ends well. The Swift runtime does not survive a fork without an exec. */
static gboolean
run (const char *program, const char *abi, const char *what)
{
  const gchar *arguments[] = { program, abi, what, NULL };
  gint status = 0;
  g_assert_true (g_spawn_sync (NULL, (gchar **) arguments, NULL, G_SPAWN_DEFAULT, NULL, NULL, NULL, NULL, &status,
                               NULL));
  if (WIFSIGNALED (status))
    g_printerr ("signal %d\n", WTERMSIG (status));
  return WIFEXITED (status) && WEXITSTATUS (status) == 0;
}

int
main (int argc, char **argv)
{
  GString *failed = g_string_new (NULL);
  GPtrArray *calls;

  g_assert_cmpint (argc, >, 1);
  calls = read_calls (argv[1], failed);
  if (argc > 2) {
    /* Nothing of what still goes on is waited for. */
    _exit (call (calls, argv[2]));
  }

  for (guint i = 0; i < calls->len; i++) {
    const First *first = g_ptr_array_index (calls, i);
    if (!run (argv[0], argv[1], first->name))
      g_string_append_printf (failed, "%s cannot be called first\n", first->name);
  }
  for (guint order = 1; order <= ORDERS; order++) {
    gchar *number = g_strdup_printf ("%u", order);
    if (!run (argv[0], argv[1], number))
      g_string_append_printf (failed, "order %s does not work\n", number);
    g_free (number);
  }

  if (failed->len > 0)
    g_printerr ("%s", failed->str);
  g_print ("%u functions, each first, and %d orders\n", calls->len, ORDERS);
  return failed->len > 0;
}

/* SPDX-License-Identifier: MPL-2.0 */

/* A program that ends in the middle: exit_program CALLS MICROSECONDS URL CACHE-FOLDER [PLAYED-URL [null]]. It begins the
   calls, names with commas, plays the last URL, waits so long, sets the player to NULL if it says so, and returns 7 from
   main, with nothing given back. Run by Tests/suites/38-embedding. */

#include <latchkey.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static guint calls;

static void
got_info (LatchkeyContentInfo *info, LatchkeyAgentError *error, void *user_data)
{
  (void) info, (void) error, (void) user_data;
  calls++;
}

static void
got_license (LatchkeyRights *rights, LatchkeyAgentError *error, void *user_data)
{
  (void) rights, (void) error, (void) user_data;
  calls++;
}

static void
got_items (LatchkeyCachedContent *const *items, size_t count, LatchkeyCacheErrorCode error, const char *message,
           void *user_data)
{
  (void) items, (void) count, (void) error, (void) message, (void) user_data;
  calls++;
}

static void
got_licenses (LatchkeyLicense *const *licenses, size_t count, LatchkeyAgentError *error, void *user_data)
{
  (void) licenses, (void) count, (void) error, (void) user_data;
  calls++;
}

static void
got_removal (int removed, LatchkeyAgentError *error, void *user_data)
{
  (void) removed, (void) error, (void) user_data;
  calls++;
}

static void
got_reset (size_t count, LatchkeyAgentError *error, void *user_data)
{
  (void) count, (void) error, (void) user_data;
  calls++;
}

static void
got_sessions (LatchkeyViewingSession *const *sessions, size_t count, LatchkeyAgentError *error, void *user_data)
{
  (void) sessions, (void) count, (void) error, (void) user_data;
  calls++;
}

static void
got_end (size_t ended, size_t left, LatchkeyAgentError *error, void *user_data)
{
  (void) ended, (void) left, (void) error, (void) user_data;
  calls++;
}

static void
heard (LatchkeyAgentEvent *event, void *user_data)
{
  (void) event, (void) user_data;
  calls++;
}

/* By an agent of its own, in time. The player; NULL if it does not start. */
static GstElement *
play (const char *url)
{
  LatchkeyAgentOptions options = {
    .size = sizeof options, .acquisition = LATCHKEY_ACQUISITION_AUTOMATIC, .outputs = "application",
    .video_sink = "fakesink sync=true", .audio_sink = "fakesink sync=true"
  };
  LatchkeyAgent *agent = latchkey_agent_new (url, latchkey_content_type_from_url (url), &options);
  GstElement *player = agent != NULL ? latchkey_agent_make_player (agent, NULL) : NULL;

  if (player != NULL && gst_element_set_state (player, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
    return NULL;
  return player;
}

/* Registered first, so it runs last: what libraries clean up is gone, and threads still run for a while. */
static void
linger (void)
{
  usleep (50000);
}

static void
begin (const char *call, LatchkeyAgent *agent, LatchkeyCachedContent *content, const char *folder)
{
  static const uint8_t id[16] = { 1 };

  if (g_str_equal (call, "inspect"))
    latchkey_agent_get_content_info (agent, got_info, NULL, NULL);
  else if (g_str_equal (call, "acquire"))
    latchkey_agent_acquire_license (agent, NULL, got_license, NULL, NULL);
  else if (g_str_equal (call, "download"))
    latchkey_cached_content_start (content);
  else if (g_str_equal (call, "items"))
    latchkey_cached_content_list (folder, got_items, NULL, NULL);
  else if (g_str_equal (call, "licenses"))
    latchkey_licenses_list (NULL, got_licenses, NULL, NULL);
  else if (g_str_equal (call, "remove"))
    latchkey_license_remove (NULL, id, got_removal, NULL, NULL);
  else if (g_str_equal (call, "reset"))
    latchkey_reset_licenses (NULL, got_reset, NULL, NULL);
  else if (g_str_equal (call, "sessions"))
    latchkey_viewing_sessions_list (NULL, got_sessions, NULL, NULL);
  else if (g_str_equal (call, "end-sessions"))
    latchkey_viewing_sessions_end_left_over (NULL, got_end, NULL, NULL);
  else
    exit (64);
}

int
main (int argc, char **argv)
{
  LatchkeyAgentOptions options = { .size = sizeof options, .outputs = "application" };
  LatchkeyCacheOptions cache = { .size = sizeof cache };
  GstElement *player = NULL;

  if (argc < 5 || argc > 7 || (argc == 7 && strcmp (argv[6], "null") != 0))
    return 64;
  atexit (linger);
  cache.folder = argv[4];
  LatchkeyContentType type = latchkey_content_type_from_url (argv[3]);
  LatchkeyAgent *agent = latchkey_agent_new (argv[3], type, &options);
  LatchkeyCachedContent *content = latchkey_cached_content_new (argv[3], type, &cache);
  if (agent == NULL || content == NULL)
    return 1;
  latchkey_agent_add_listener (agent, heard, NULL, NULL);
  for (gchar **call = g_strsplit (argv[1], ",", -1); *call != NULL; call++)
    begin (*call, agent, content, argv[4]);
  if (argc > 5 && (player = play (argv[5])) == NULL)
    return 2;
  usleep ((useconds_t) atoi (argv[2]));
  if (argc == 7 && gst_element_set_state (player, GST_STATE_NULL) != GST_STATE_CHANGE_SUCCESS)
    return 3;
  return 7;
}

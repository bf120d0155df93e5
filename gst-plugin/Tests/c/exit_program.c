/* SPDX-License-Identifier: MPL-2.0 */

/* A program that ends in the middle: exit_program MICROSECONDS URL CACHE-FOLDER [PLAYED-URL [null]]. It begins calls and
   a download, plays the last URL, waits so long, sets the player to NULL if it says so, and returns from main, with
   nothing given back. Run by Tests/suites/38-embedding. */

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

int
main (int argc, char **argv)
{
  LatchkeyAgentOptions options = { .size = sizeof options, .outputs = "application" };
  LatchkeyCacheOptions cache = { .size = sizeof cache };
  GstElement *player = NULL;

  if (argc < 4 || argc > 6 || (argc == 6 && strcmp (argv[5], "null") != 0))
    return 64;
  atexit (linger);
  cache.folder = argv[3];
  LatchkeyContentType type = latchkey_content_type_from_url (argv[2]);
  LatchkeyAgent *agent = latchkey_agent_new (argv[2], type, &options);
  LatchkeyCachedContent *content = latchkey_cached_content_new (argv[2], type, &cache);
  if (agent == NULL || content == NULL)
    return 1;
  latchkey_agent_add_listener (agent, heard, NULL, NULL);
  latchkey_agent_get_content_info (agent, got_info, NULL, NULL);
  latchkey_agent_acquire_license (agent, NULL, got_license, NULL, NULL);
  latchkey_cached_content_start (content);
  if (argc > 4 && (player = play (argv[4])) == NULL)
    return 2;
  usleep ((useconds_t) atoi (argv[1]));
  if (argc == 6 && gst_element_set_state (player, GST_STATE_NULL) != GST_STATE_CHANGE_SUCCESS)
    return 3;
  return 0;
}

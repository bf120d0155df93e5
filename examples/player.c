/* SPDX-License-Identifier: MPL-2.0 */

/* Plays protected content with Latchkey's agent, in a terminal.

   cc examples/player.c -o player $(pkg-config --cflags --libs latchkey-1.0)
   ./player [OPTION...] URL

   Keys and licenses come from where the configuration file says. Exit status: 0 played to the end, 1 failed, 2 no rights,
   3 the content cannot be used, 64 wrong use. */

#include <latchkey.h>
#include <stdio.h>
#include <string.h>

enum { PLAYED = 0, FAILED = 1, NO_RIGHTS = 2, UNUSABLE = 3, WRONG_USE = 64 };

typedef struct {
  gboolean agrees, automatic, only_informs;
  gchar *video_sink, *audio_sink, *outputs, *header, *custom_data, *audio_track;
  gint rounds;
  GMainLoop *loop;
  LatchkeyAgent *agent;
  GstElement *player;
  int status;
  gboolean is_over;
  /* How many of the agent's threads may still call us. */
  guint holders;
} Program;

/* Callbacks come on threads of Latchkey, and are to return at once. Everything here is done on the main thread: what
   comes is kept, and handed over. */
typedef struct {
  Program *program;
  GSourceFunc function;
  LatchkeyContentInfo *info;
  LatchkeyRights *rights;
  LatchkeyAgentError *error;
  LatchkeyAgentEvent *event;
} News;

static News *
news_new (Program *program, LatchkeyAgentError *error)
{
  News *news = g_new0 (News, 1);
  news->program = program;
  news->error = latchkey_agent_error_ref (error);
  return news;
}

static void
news_free (gpointer data)
{
  News *news = data;
  latchkey_content_info_unref (news->info);
  latchkey_rights_unref (news->rights);
  latchkey_agent_error_unref (news->error);
  latchkey_agent_event_unref (news->event);
  g_free (news);
}

static gboolean
news_came (gpointer data)
{
  News *news = data;
  return news->program->is_over ? G_SOURCE_REMOVE : news->function (news);
}

static void
hand_over (News *news, GSourceFunc function)
{
  news->function = function;
  g_idle_add_full (G_PRIORITY_DEFAULT, news_came, news, news_free);
}

static gboolean
holder_left (gpointer data)
{
  Program *program = data;
  program->holders--;
  return G_SOURCE_REMOVE;
}

static void
release (void *user_data)
{
  g_idle_add_full (G_PRIORITY_DEFAULT, holder_left, user_data, NULL);
}

static void
end (Program *program, int status)
{
  program->status = status;
  program->is_over = TRUE;
  g_main_loop_quit (program->loop);
}

static void
print_key_id (const uint8_t *key_id)
{
  for (int i = 0; i < 16; i++)
    printf ("%02x", key_id[i]);
}

static void
print_date (const char *name, int64_t seconds)
{
  GDateTime *date = g_date_time_new_from_unix_utc (seconds);
  gchar *text = date != NULL ? g_date_time_format (date, "%Y-%m-%dT%H:%M:%SZ") : NULL;
  printf ("%s: %s\n", name, text != NULL ? text : "far away");
  g_free (text);
  g_clear_pointer (&date, g_date_time_unref);
}

static void
print_rights (const char *name, LatchkeyRights *rights)
{
  printf ("%s: %s: %s\n", name, latchkey_rights_status_get_name (latchkey_rights_get_status (rights)),
      latchkey_rights_get_reason (rights));
}

static void
print_info (LatchkeyContentInfo *info)
{
  LatchkeyRights *rights = latchkey_content_info_get_rights (info);
  LatchkeyTrack *track;
  LatchkeyKeyNeed *need;
  const char *text;
  const uint8_t *key_id;
  int64_t seconds;

  printf ("protected: %s\n", latchkey_content_info_is_protected (info) ? "yes" : "no");
  for (size_t i = 0; (text = latchkey_content_info_get_key_system (info, i)) != NULL; i++)
    printf ("key system: %s\n", text);
  for (size_t i = 0; (key_id = latchkey_content_info_get_key_id (info, i)) != NULL; i++) {
    printf ("KID: ");
    print_key_id (key_id);
    puts ("");
  }
  for (size_t i = 0; (text = latchkey_content_info_get_audio_track_name (info, i)) != NULL; i++)
    printf ("audio track: %s\n", text);
  for (size_t i = 0; (text = latchkey_content_info_get_license_url (info, i)) != NULL; i++)
    printf ("license URL: %s\n", text);
  for (size_t i = 0; (track = latchkey_content_info_get_track (info, i)) != NULL; i++) {
    static const char *const kinds[] = { "other", "video", "audio", "text" };
    LatchkeyKeyPeriod *period = latchkey_track_get_key_period (track, 0);
    const char *codecs = latchkey_track_get_codecs (track), *language = latchkey_track_get_language (track);
    const char *method = latchkey_key_period_get_method (period);
    printf ("track: %s %s %s %ux%u %" G_GUINT64_FORMAT " bit/s, %s\n", kinds[latchkey_track_get_kind (track)],
        codecs != NULL ? codecs : "-", language != NULL ? language : "-", latchkey_track_get_width (track),
        latchkey_track_get_height (track), latchkey_track_get_bit_rate (track), method != NULL ? method : "clear");
  }
  for (size_t i = 0; (need = latchkey_content_info_get_key_need (info, i)) != NULL; i++) {
    const char *source = latchkey_key_need_get_source (need), *uri = latchkey_key_need_get_key_uri (need);
    printf ("key: %s from %s\n", uri != NULL ? uri : "by KID", source != NULL ? source : "nowhere");
  }
  print_rights ("rights", rights);
  if (latchkey_rights_get_begin (rights, &seconds))
    print_date ("rights begin", seconds);
  if (latchkey_rights_get_end (rights, &seconds))
    print_date ("rights end", seconds);
  if (latchkey_rights_expire_after_first_use (rights))
    puts ("rights end some time after the first use");
}

static gboolean
may_acquire (Program *program)
{
  char answer[16];
  if (program->agrees)
    return TRUE;
  printf ("Acquire a license? [y/N] ");
  fflush (stdout);
  gboolean agrees = fgets (answer, sizeof answer, stdin) != NULL && g_ascii_tolower (answer[0]) == 'y';
  puts ("");
  return agrees;
}

/* A delegate: adds a field to what Latchkey sends. It might as well send the challenge itself. */
static void
perform (LatchkeyServiceRequest *request, void *user_data)
{
  Program *program = user_data;
  gchar **field = g_strsplit (program->header, ":", 2);
  size_t size = 0;

  latchkey_service_request_get_challenge (request, &size);
  printf ("delegate: %zu bytes to %s\n", size, latchkey_service_request_get_url (request));
  latchkey_service_request_add_header (request, field[0], g_strstrip (field[1]));
  latchkey_service_request_send (request);
  g_strfreev (field);
}

static void start (Program *program);

static gboolean
license_came (gpointer data)
{
  News *news = data;
  Program *program = news->program;

  if (news->error != NULL) {
    printf ("error: %s\n", latchkey_agent_error_get_message (news->error));
    if (program->player == NULL)
      end (program, latchkey_agent_error_get_code (news->error) == LATCHKEY_AGENT_ERROR_LICENSE_NOT_ACQUIRED
          ? NO_RIGHTS : UNUSABLE);
    return G_SOURCE_REMOVE;
  }
  print_rights ("acquired", news->rights);
  if (program->player != NULL)
    return G_SOURCE_REMOVE;             /* Playback goes on by itself. */
  if (latchkey_rights_get_status (news->rights) == LATCHKEY_RIGHTS_VALID)
    start (program);
  else
    end (program, NO_RIGHTS);
  return G_SOURCE_REMOVE;
}

static void
got_license (LatchkeyRights *rights, LatchkeyAgentError *error, void *user_data)
{
  News *news = news_new (user_data, error);
  news->rights = latchkey_rights_ref (rights);
  hand_over (news, license_came);
}

static void
acquire (Program *program)
{
  static const LatchkeyDelegateFunctions delegate = {
    .size = sizeof delegate, .perform_license_acquisition = perform, .perform_join_domain = perform
  };
  program->holders++;
  latchkey_agent_acquire_license (program->agent, program->header != NULL ? &delegate : NULL, got_license, program,
      release);
}

static gboolean
info_came (gpointer data)
{
  News *news = data;
  Program *program = news->program;
  gboolean is_valid;

  if (news->error != NULL) {
    printf ("error: %s\n", latchkey_agent_error_get_message (news->error));
    end (program, UNUSABLE);
    return G_SOURCE_REMOVE;
  }
  print_info (news->info);
  is_valid = latchkey_rights_get_status (latchkey_content_info_get_rights (news->info)) == LATCHKEY_RIGHTS_VALID;
  if (program->only_informs)
    end (program, PLAYED);
  else if (is_valid || program->automatic)
    start (program);
  else if (may_acquire (program))
    acquire (program);
  else
    end (program, NO_RIGHTS);
  return G_SOURCE_REMOVE;
}

static void
got_info (LatchkeyContentInfo *info, LatchkeyAgentError *error, void *user_data)
{
  News *news = news_new (user_data, error);
  news->info = latchkey_content_info_ref (info);
  hand_over (news, info_came);
}

/* The same player plays again, from the start. */
static void
round_ended (Program *program)
{
  if (--program->rounds <= 0) {
    end (program, PLAYED);
    return;
  }
  gst_element_set_state (program->player, GST_STATE_NULL);
  if (gst_element_set_state (program->player, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
    end (program, FAILED);
}

static gboolean
event_came (gpointer data)
{
  News *news = data;
  Program *program = news->program;
  LatchkeyAgentEventType type = latchkey_agent_event_get_type (news->event);
  const char *reason = latchkey_agent_event_get_reason (news->event), *url = latchkey_agent_event_get_url (news->event);
  int status = latchkey_agent_event_get_http_status (news->event);

  if (type == LATCHKEY_AGENT_EVENT_STATE_CHANGED) {
    LatchkeyAgentState state = latchkey_agent_event_get_state (news->event);
    printf ("state: %s\n", latchkey_agent_state_get_name (state));
    if (state == LATCHKEY_AGENT_STATE_ENDED)
      round_ended (program);
    if (state == LATCHKEY_AGENT_STATE_FAILED || state == LATCHKEY_AGENT_STATE_ABORTED)
      end (program, FAILED);
    return G_SOURCE_REMOVE;
  }
  printf ("event: %s", latchkey_agent_event_type_get_name (type));
  if (status != 0)
    printf (": HTTP %d", status);
  if (url != NULL)
    printf (": %s", url);
  if (reason != NULL)
    printf (": %s", reason);
  if (latchkey_agent_event_is_final (news->event))
    printf (" (final)");
  puts ("");
  if (type == LATCHKEY_AGENT_EVENT_PLAYBACK_SHOULD_BE_ABORTED)
    end (program, FAILED);
  if (type == LATCHKEY_AGENT_EVENT_RIGHTS_NOT_AVAILABLE && !program->automatic) {
    if (may_acquire (program))
      acquire (program);
    else
      end (program, NO_RIGHTS);
  }
  return G_SOURCE_REMOVE;
}

static void
heard (LatchkeyAgentEvent *event, void *user_data)
{
  News *news = news_new (user_data, NULL);
  news->event = latchkey_agent_event_ref (event);
  hand_over (news, event_came);
}

/* The bus of a player is as any other's. The agent's state says when it ends; the error has the words. */
static gboolean
message_came (GstBus *bus, GstMessage *message, gpointer user_data)
{
  (void) bus;
  (void) user_data;
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR) {
    GError *error = NULL;
    gst_message_parse_error (message, &error, NULL);
    printf ("playback: %s\n", error->message);
    g_clear_error (&error);
  }
  return G_SOURCE_CONTINUE;
}

static void
start (Program *program)
{
  LatchkeyAgentError *error = NULL;
  GstBus *bus;

  program->player = latchkey_agent_make_player (program->agent, &error);
  if (program->player == NULL) {
    printf ("error: %s\n", latchkey_agent_error_get_message (error));
    latchkey_agent_error_unref (error);
    end (program, FAILED);
    return;
  }
  bus = gst_element_get_bus (program->player);
  gst_bus_add_watch (bus, message_came, NULL);
  gst_object_unref (bus);
  if (gst_element_set_state (program->player, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
    end (program, FAILED);
}

static void
stop (Program *program)
{
  if (program->player != NULL) {
    GstBus *bus = gst_element_get_bus (program->player);
    gst_element_set_state (program->player, GST_STATE_NULL);
    gst_bus_remove_watch (bus);
    gst_object_unref (bus);
    gst_clear_object (&program->player);
  }
  latchkey_agent_close (program->agent);
  /* There is no callback after this. */
  while (program->holders > 0)
    g_main_context_iteration (NULL, TRUE);
  latchkey_agent_unref (program->agent);
}

static int
play (Program *program, const char *url)
{
  LatchkeyAgentOptions options = {
    .size = sizeof options,
    .acquisition = program->automatic ? LATCHKEY_ACQUISITION_AUTOMATIC : LATCHKEY_ACQUISITION_MANUAL,
    .log_threshold = LATCHKEY_LOG_ERROR,
    .video_sink = program->video_sink, .audio_sink = program->audio_sink, .outputs = program->outputs
  };

  program->agent = latchkey_agent_new (url, latchkey_content_type_from_url (url), &options);
  if (program->agent == NULL) {
    fprintf (stderr, "%s does not tell its type\n", url);
    return WRONG_USE;
  }
  latchkey_agent_set_custom_challenge_data (program->agent, program->custom_data);
  latchkey_agent_set_audio_track (program->agent, program->audio_track);
  program->loop = g_main_loop_new (NULL, FALSE);
  program->holders = 2;
  latchkey_agent_add_listener (program->agent, heard, program, release);
  latchkey_agent_get_content_info (program->agent, got_info, program, release);
  g_main_loop_run (program->loop);
  stop (program);
  g_main_loop_unref (program->loop);
  return program->status;
}

int
main (int argc, char **argv)
{
  Program program = { .rounds = 1 };
  const GOptionEntry entries[] = {
    { "yes", 0, 0, G_OPTION_ARG_NONE, &program.agrees, "acquire licenses without asking", NULL },
    { "automatic", 0, 0, G_OPTION_ARG_NONE, &program.automatic, "have the elements acquire licenses", NULL },
    { "info", 0, 0, G_OPTION_ARG_NONE, &program.only_informs, "show the content and its rights, and do not play", NULL },
    { "video-sink", 0, 0, G_OPTION_ARG_STRING, &program.video_sink, "in the words of gst-launch", "SINK" },
    { "audio-sink", 0, 0, G_OPTION_ARG_STRING, &program.audio_sink, "in the words of gst-launch", "SINK" },
    { "outputs", 0, 0, G_OPTION_ARG_STRING, &program.outputs, "kms, application or script:FILE", "WHO" },
    { "delegate-header", 0, 0, G_OPTION_ARG_STRING, &program.header, "a field for license requests", "NAME: VALUE" },
    { "custom-data", 0, 0, G_OPTION_ARG_STRING, &program.custom_data, "for the license service", "XML" },
    { "audio", 0, 0, G_OPTION_ARG_STRING, &program.audio_track, "the audio track to play", "NAME" },
    { "repeat", 0, 0, G_OPTION_ARG_INT, &program.rounds, "play so many times", "N" },
    { NULL }
  };
  GOptionContext *context = g_option_context_new ("URL");
  GError *error = NULL;
  int status = WRONG_USE;

  setvbuf (stdout, NULL, _IOLBF, 0);
  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_add_group (context, gst_init_get_option_group ());
  if (!g_option_context_parse (context, &argc, &argv, &error)) {
    fprintf (stderr, "player: %s\n", error->message);
    g_clear_error (&error);
  } else if (argc != 2 || (program.header != NULL && strchr (program.header, ':') == NULL)) {
    fprintf (stderr, "Usage: player [OPTION...] URL; player --help tells the options\n");
  } else {
    status = play (&program, argv[1]);
  }
  g_option_context_free (context);
  for (gchar **text = (gchar *[]) { program.video_sink, program.audio_sink, program.outputs, program.header,
           program.custom_data, program.audio_track }, **last = text + 6; text < last; text++)
    g_free (*text);
  gst_deinit ();
  return status;
}

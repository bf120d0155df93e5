/* SPDX-License-Identifier: MPL-2.0 */

/* The C interface of licenses and viewing sessions on the device, used as an application uses it, rightly and wrongly.
   Needs no server: the one that is named does not answer. Run by `meson test`; Tests/suites/38-embedding lists licenses
   that a service gave. */

#include "watch.h"
#include <latchkey.h>
#include <glib/gstdio.h>
#include <string.h>

static gchar *folder;

/* What callbacks saw. */
typedef struct {
  Watch watch;
  size_t count, left;
  int removed;
  LatchkeyAgentError *error;
  LatchkeyViewingSession *first;
} Seen;

static void
licenses_came (LatchkeyLicense *const *licenses, size_t count, LatchkeyAgentError *error, void *user_data)
{
  Seen *seen = user_data;
  g_assert_true (count == 0 || licenses[0] != NULL);
  watch_enter (seen);
  seen->count = count;
  seen->error = latchkey_agent_error_ref (error);
  watch_leave (seen);
}

static void
license_removed (int removed, LatchkeyAgentError *error, void *user_data)
{
  Seen *seen = user_data;
  watch_enter (seen);
  seen->removed = removed;
  seen->error = latchkey_agent_error_ref (error);
  watch_leave (seen);
}

static void
sessions_came (LatchkeyViewingSession *const *sessions, size_t count, LatchkeyAgentError *error, void *user_data)
{
  Seen *seen = user_data;
  watch_enter (seen);
  seen->count = count;
  seen->first = count > 0 ? latchkey_viewing_session_ref (sessions[0]) : NULL;
  seen->error = latchkey_agent_error_ref (error);
  watch_leave (seen);
}

static void
sessions_ended (size_t ended, size_t left, LatchkeyAgentError *error, void *user_data)
{
  Seen *seen = user_data;
  watch_enter (seen);
  seen->count = ended;
  seen->left = left;
  seen->error = latchkey_agent_error_ref (error);
  watch_leave (seen);
}

/* Waits for the end of a call, which comes once. */
static Seen *
ended (guint64 call, Seen *seen)
{
  g_assert_cmpuint (call, !=, 0);
  watch_wait_for_end (seen);
  g_assert_cmpuint (seen->watch.called, ==, 1);
  return seen;
}

#define NEW (watch_new (sizeof (Seen)))

static void
demand_configuration_error (Seen *seen, const gchar *text)
{
  g_assert_cmpint (latchkey_agent_error_get_code (seen->error), ==, LATCHKEY_AGENT_ERROR_CONFIGURATION);
  if (strstr (latchkey_agent_error_get_message (seen->error), text) == NULL)
    g_error ("“%s” is not in: %s", text, latchkey_agent_error_get_message (seen->error));
  g_assert_cmpuint (seen->count, ==, 0);
  g_assert_false (seen->removed);
  latchkey_agent_error_unref (seen->error);
}

static gchar *
configuration_new (const gchar *name, const gchar *text)
{
  gchar *path = g_build_filename (folder, name, NULL);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  return path;
}

static void
test_arguments (void)
{
  Seen *seen = NEW;
  g_assert_cmpuint (latchkey_licenses_list (NULL, NULL, seen, watch_destroyed), ==, 0);
  g_assert_cmpuint (latchkey_license_remove (NULL, NULL, license_removed, seen, watch_destroyed), ==, 0);
  g_assert_cmpuint (latchkey_viewing_sessions_list (NULL, NULL, seen, watch_destroyed), ==, 0);
  g_assert_cmpuint (seen->watch.called + seen->watch.destroyed, ==, 0);
  g_assert_null (latchkey_license_ref (NULL));
  g_assert_null (latchkey_license_get_id (NULL));
  g_assert_null (latchkey_license_get_key_system (NULL));
  g_assert_null (latchkey_license_get_key_id (NULL, 0));
  g_assert_null (latchkey_license_get_domain (NULL));
  g_assert_null (latchkey_license_get_rights (NULL));
  latchkey_license_unref (NULL);
  g_assert_null (latchkey_viewing_session_ref (NULL));
  g_assert_null (latchkey_viewing_session_get_name (NULL));
  g_assert_null (latchkey_viewing_session_get_server_url (NULL));
  g_assert_cmpint (latchkey_viewing_session_get_process_id (NULL), ==, 0);
  g_assert_cmpuint (latchkey_viewing_session_get_attempts (NULL), ==, 0);
  latchkey_viewing_session_unref (NULL);
}

/* Without the group of the configuration, every call says which one is missing. */
static void
test_not_configured (void)
{
  static const uint8_t id[16] = { 1 };
  Seen *seen;

  seen = NEW;
  ended (latchkey_licenses_list ("/dev/null", licenses_came, seen, watch_destroyed), seen);
  demand_configuration_error (seen, "[playready]");
  seen = NEW;
  ended (latchkey_license_remove ("/dev/null", id, license_removed, seen, watch_destroyed), seen);
  demand_configuration_error (seen, "[playready]");
  seen = NEW;
  ended (latchkey_viewing_sessions_list ("/dev/null", sessions_came, seen, watch_destroyed), seen);
  demand_configuration_error (seen, "[session]");
  seen = NEW;
  ended (latchkey_viewing_sessions_end_left_over ("/dev/null", sessions_ended, seen, watch_destroyed), seen);
  demand_configuration_error (seen, "[session]");
  seen = NEW;
  ended (latchkey_licenses_list ("/nonexistent/latchkey.conf", licenses_came, seen, watch_destroyed), seen);
  demand_configuration_error (seen, "/nonexistent/latchkey.conf");

  gchar *path = configuration_new ("no-records.conf", "[session]\nserver-url=http://127.0.0.1:9/\nrecords=none\n");
  seen = NEW;
  ended (latchkey_viewing_sessions_list (path, sessions_came, seen, watch_destroyed), seen);
  demand_configuration_error (seen, "records=none");
  g_free (path);
}

/* Looking makes no store, and what is not there cannot be removed. */
static void
test_no_licenses (void)
{
  static const uint8_t id[16] = { 1 };
  gchar *store = g_build_filename (folder, "store", NULL);
  gchar *text = g_strdup_printf ("[playready]\nstore=%s\n", store);
  gchar *path = configuration_new ("licenses.conf", text);
  Seen *seen = NEW;

  ended (latchkey_licenses_list (path, licenses_came, seen, watch_destroyed), seen);
  g_assert_null (seen->error);
  g_assert_cmpuint (seen->count, ==, 0);
  seen = NEW;
  ended (latchkey_license_remove (path, id, license_removed, seen, watch_destroyed), seen);
  g_assert_null (seen->error);
  g_assert_false (seen->removed);
  g_assert_false (g_file_test (store, G_FILE_TEST_EXISTS));
  /* Nobody needs the answer. */
  g_assert_cmpuint (latchkey_license_remove (path, id, NULL, NULL, NULL), !=, 0);
  g_free (path);
  g_free (text);
  g_free (store);
}

/* A session that a process left over, as it is written down: listed without the query of its URL, and kept where the
   server does not answer; given up behind the fifth try. */
static void
test_sessions (void)
{
  gchar *records = g_build_filename (folder, "sessions", NULL);
  gchar *text = g_strdup_printf ("[session]\nserver-url=http://127.0.0.1:9/api?token=secret\nrecords=%s\n", records);
  gchar *path = configuration_new ("sessions.conf", text);
  gchar *record = g_build_filename (records, "orphan.session", NULL);
  Seen *seen = NEW;

  ended (latchkey_viewing_sessions_list (path, sessions_came, seen, watch_destroyed), seen);
  g_assert_null (seen->error);
  g_assert_cmpuint (seen->count, ==, 0);
  g_assert_true (g_file_set_contents (record,
          "LKSS 1\n=http%3A%2F%2F127.0.0.1%3A9%2Fapi%3Ftoken%3Dsecret\n=orphan\n-\n-\n0\n0\n-\n3\n", -1, NULL));
  seen = NEW;
  ended (latchkey_viewing_sessions_list (path, sessions_came, seen, watch_destroyed), seen);
  g_assert_cmpuint (seen->count, ==, 1);
  g_assert_cmpstr (latchkey_viewing_session_get_name (seen->first), ==, "orphan");
  g_assert_nonnull (strstr (latchkey_viewing_session_get_server_url (seen->first), "http://127.0.0.1:9/api"));
  g_assert_null (strstr (latchkey_viewing_session_get_server_url (seen->first), "secret"));
  g_assert_cmpint (latchkey_viewing_session_get_process_id (seen->first), ==, 0);
  g_assert_cmpuint (latchkey_viewing_session_get_attempts (seen->first), ==, 3);
  latchkey_viewing_session_unref (seen->first);

  for (guint try = 4; try <= 5; try++) {
    seen = NEW;
    ended (latchkey_viewing_sessions_end_left_over (path, sessions_ended, seen, watch_destroyed), seen);
    g_assert_null (seen->error);
    g_assert_cmpuint (seen->left, ==, try < 5);
    g_assert_cmpuint (seen->count, ==, try == 5);
  }
  g_assert_false (g_file_test (record, G_FILE_TEST_EXISTS));
  g_free (record);
  g_free (path);
  g_free (text);
  g_free (records);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("latchkey-records-XXXXXX", NULL);
  g_assert_nonnull (folder);
  g_test_add_func ("/records/arguments", test_arguments);
  g_test_add_func ("/records/not-configured", test_not_configured);
  g_test_add_func ("/records/no-licenses", test_no_licenses);
  g_test_add_func ("/records/sessions", test_sessions);
  int result = g_test_run ();
  static const gchar *const left[] = { "no-records.conf", "licenses.conf", "sessions.conf", "sessions", "" };
  for (guint i = 0; i < G_N_ELEMENTS (left); i++) {
    gchar *path = g_build_filename (folder, left[i], NULL);
    g_remove (path);
    g_free (path);
  }
  return result;
}

/* SPDX-License-Identifier: MPL-2.0 */

/* Shows what is kept on this device: the stored licenses, and the viewing sessions that servers may count.

   cc examples/records.c -o records $(pkg-config --cflags --libs latchkey-1.0)
   ./records licenses | remove ID | sessions | end-sessions

   Store and session server are those of the configuration file. Exit status: 0 done, 1 failed or not there, 64 wrong use. */

#include <latchkey.h>
#include <stdio.h>
#include <string.h>

/* Callbacks come on a thread of Latchkey; the main thread waits for `destroy`, which comes last. */
static GMutex lock;
static GCond changed;
static gboolean is_over;
static int status;

static void
over (void *user_data)
{
  (void) user_data;
  g_mutex_lock (&lock);
  is_over = TRUE;
  g_cond_signal (&changed);
  g_mutex_unlock (&lock);
}

static gboolean
has_failed (LatchkeyAgentError *error)
{
  if (error == NULL)
    return FALSE;
  printf ("error: %s\n", latchkey_agent_error_get_message (error));
  status = 1;
  return TRUE;
}

static void
print_bytes (const char *name, const uint8_t *bytes)
{
  printf ("%s: ", name);
  for (int i = 0; i < 16; i++)
    printf ("%02x", bytes[i]);
  puts ("");
}

static void
licenses_came (LatchkeyLicense *const *licenses, size_t count, LatchkeyAgentError *error, void *user_data)
{
  (void) user_data;
  if (has_failed (error))
    return;
  for (size_t i = 0; i < count; i++) {
    LatchkeyLicense *license = licenses[i];
    LatchkeyRights *rights = latchkey_license_get_rights (license);
    const uint8_t *key_id;
    int64_t seconds;

    print_bytes ("license", latchkey_license_get_id (license));
    printf ("key system: %s\n", latchkey_license_get_key_system (license));
    for (size_t j = 0; (key_id = latchkey_license_get_key_id (license, j)) != NULL; j++)
      print_bytes ("KID", key_id);
    if (latchkey_license_get_domain (license) != NULL)
      printf ("domain: %s\n", latchkey_license_get_domain (license));
    printf ("rights: %s: %s\n", latchkey_rights_status_get_name (latchkey_rights_get_status (rights)),
        latchkey_rights_get_reason (rights));
    if (latchkey_rights_get_end (rights, &seconds))
      printf ("rights end: %" G_GINT64_FORMAT "\n", seconds);
  }
}

static void
license_removed (int removed, LatchkeyAgentError *error, void *user_data)
{
  (void) user_data;
  if (has_failed (error))
    return;
  puts (removed ? "removed" : "there is no such license");
  status = removed ? 0 : 1;
}

static void
sessions_came (LatchkeyViewingSession *const *sessions, size_t count, LatchkeyAgentError *error, void *user_data)
{
  (void) user_data;
  if (has_failed (error))
    return;
  for (size_t i = 0; i < count; i++)
    printf ("session: %s of process %" G_GINT64_FORMAT " at %s, tries %u\n",
        latchkey_viewing_session_get_name (sessions[i]), latchkey_viewing_session_get_process_id (sessions[i]),
        latchkey_viewing_session_get_server_url (sessions[i]), latchkey_viewing_session_get_attempts (sessions[i]));
}

static void
sessions_ended (size_t ended, size_t left, LatchkeyAgentError *error, void *user_data)
{
  (void) user_data;
  if (has_failed (error))
    return;
  printf ("ended: %zu, left: %zu\n", ended, left);
  status = left > 0;
}

/* 32 hexadecimal digits. */
static gboolean
read_id (const char *text, uint8_t *id)
{
  if (strlen (text) != 32)
    return FALSE;
  for (int i = 0; i < 16; i++) {
    int high = g_ascii_xdigit_value (text[2 * i]), low = g_ascii_xdigit_value (text[2 * i + 1]);
    if (high < 0 || low < 0)
      return FALSE;
    id[i] = (uint8_t) (high * 16 + low);
  }
  return TRUE;
}

int
main (int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "";
  uint8_t id[16];
  guint64 call = 0;

  if (argc == 2 && strcmp (what, "licenses") == 0)
    call = latchkey_licenses_list (NULL, licenses_came, NULL, over);
  else if (argc == 3 && strcmp (what, "remove") == 0 && read_id (argv[2], id))
    call = latchkey_license_remove (NULL, id, license_removed, NULL, over);
  else if (argc == 2 && strcmp (what, "sessions") == 0)
    call = latchkey_viewing_sessions_list (NULL, sessions_came, NULL, over);
  else if (argc == 2 && strcmp (what, "end-sessions") == 0)
    call = latchkey_viewing_sessions_end_left_over (NULL, sessions_ended, NULL, over);
  if (call == 0) {
    fprintf (stderr, "Usage: records licenses | remove ID | sessions | end-sessions\n");
    return 64;
  }
  g_mutex_lock (&lock);
  while (!is_over)
    g_cond_wait (&changed, &lock);
  g_mutex_unlock (&lock);
  return status;
}

/* SPDX-License-Identifier: MPL-2.0 */

/* The C interface of cached content, used as an application uses it, rightly and wrongly. The origin is a server of its
   own on the loopback, which has the one file of the command line. Run by `meson test`. */

#define _GNU_SOURCE 1

#include "watch.h"
#include <latchkey.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <unistd.h>

static gchar *content;
static gsize content_size;
static gchar *folder;
static guint port;

/* Answers one request on a connection: the file, or a part of it; else 404. */
static void
answer (int connection)
{
  gchar request[8192];
  gsize size = 0;
  while (size + 1 < sizeof request) {
    ssize_t count = read (connection, request + size, sizeof request - 1 - size);
    if (count <= 0)
      return;
    size += (gsize) count;
    request[size] = 0;
    if (strstr (request, "\r\n\r\n") != NULL)
      break;
  }
  gchar *range = strcasestr (request, "\r\nrange: bytes=");
  guint64 first = 0, last = content_size - 1;
  GString *head = g_string_new (NULL);
  if (!g_str_has_prefix (request, "GET /film.ismv ")) {
    g_string_append (head, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    first = content_size;
  } else {
    if (range != NULL) {
      gchar *end;
      first = g_ascii_strtoull (range + strlen ("\r\nrange: bytes="), &end, 10);
      if (*end == '-' && g_ascii_isdigit (end[1]))
        last = MIN (last, g_ascii_strtoull (end + 1, NULL, 10));
    }
    first = MIN (first, last);
    g_string_append_printf (head, "HTTP/1.1 %s\r\nContent-Type: video/mp4\r\nETag: \"1\"\r\nAccept-Ranges: bytes\r\n",
        range != NULL ? "206 Partial Content" : "200 OK");
    if (range != NULL)
      g_string_append_printf (head, "Content-Range: bytes %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT "/%" G_GSIZE_FORMAT
          "\r\n", first, last, content_size);
    g_string_append_printf (head, "Content-Length: %" G_GUINT64_FORMAT "\r\nConnection: close\r\n\r\n", last + 1 - first);
  }
  if (send (connection, head->str, head->len, MSG_NOSIGNAL) == (ssize_t) head->len) {
    while (first < content_size && first <= last) {
      ssize_t count = send (connection, content + first, last + 1 - first, MSG_NOSIGNAL);
      if (count <= 0)
        break;
      first += (guint64) count;
    }
  }
  g_string_free (head, TRUE);
}

static gpointer
serve (gpointer data)
{
  int server = GPOINTER_TO_INT (data), connection;
  while ((connection = accept (server, NULL, NULL)) >= 0) {
    answer (connection);
    close (connection);
  }
  return NULL;
}

static void
start_server (void)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t size = sizeof address;
  int server = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (bind (server, (struct sockaddr *) &address, size), ==, 0);
  g_assert_cmpint (listen (server, 64), ==, 0);
  g_assert_cmpint (getsockname (server, (struct sockaddr *) &address, &size), ==, 0);
  port = ntohs (address.sin_port);
  g_thread_unref (g_thread_new ("origin", serve, GINT_TO_POINTER (server)));
}

static LatchkeyCachedContent *
content_new (const gchar *name, LatchkeyContentType type)
{
  LatchkeyCacheOptions options = { .size = sizeof options, .folder = folder };
  gchar *url = g_strdup_printf ("http://127.0.0.1:%u/%s", port, name);
  LatchkeyCachedContent *result = latchkey_cached_content_new (url, type, &options);
  if (result != NULL)
    g_assert_cmpstr (latchkey_cached_content_get_url (result), ==, url);
  g_free (url);
  return result;
}

/* What callbacks saw. */
typedef struct {
  Watch watch;
  LatchkeyCacheProgress *last;
  size_t count;
  LatchkeyCacheErrorCode error;
  gchar *first_url;
  LatchkeyContentType first_type;
} Seen;

static void
progressed (LatchkeyCacheProgress *progress, void *user_data)
{
  Seen *seen = user_data;
  watch_enter (seen);
  latchkey_cache_progress_unref (seen->last);
  seen->last = latchkey_cache_progress_ref (progress);
  watch_leave (seen);
}

static void
listed (LatchkeyCachedContent *const *items, size_t count, LatchkeyCacheErrorCode error, const char *message,
    void *user_data)
{
  Seen *seen = user_data;
  watch_enter (seen);
  seen->count = count;
  seen->error = error;
  g_assert_true ((message != NULL) == (error != LATCHKEY_CACHE_ERROR_NONE));
  if (count > 0) {
    seen->first_url = g_strdup (latchkey_cached_content_get_url (items[0]));
    seen->first_type = latchkey_cached_content_get_type (items[0]);
  }
  watch_leave (seen);
}

/* Waits for a status, and returns the progress that has it. */
static LatchkeyCacheProgress *
wait_for_status (Seen *seen, LatchkeyCacheStatus status)
{
  g_mutex_lock (&seen->watch.lock);
  WATCH_UNTIL_LOCKED (seen, seen->last != NULL && latchkey_cache_progress_get_status (seen->last) == status);
  LatchkeyCacheProgress *progress = latchkey_cache_progress_ref (seen->last);
  g_mutex_unlock (&seen->watch.lock);
  return progress;
}

static Seen *
list (void)
{
  Seen *seen = watch_new (sizeof (Seen));
  g_assert_cmpuint (latchkey_cached_content_list (folder, listed, seen, watch_destroyed), !=, 0);
  watch_wait_for_end (seen);
  g_assert_cmpuint (seen->watch.called, ==, 1);
  g_assert_cmpint (seen->error, ==, LATCHKEY_CACHE_ERROR_NONE);
  return seen;
}

static void
test_arguments (void)
{
  LatchkeyCacheOptions options = { .size = 1 };
  g_assert_null (latchkey_cached_content_new (NULL, LATCHKEY_CONTENT_PIFF, NULL));
  g_assert_null (latchkey_cached_content_new ("http://127.0.0.1/film.ismv", LATCHKEY_CONTENT_UNKNOWN, NULL));
  g_assert_null (latchkey_cached_content_new ("http://127.0.0.1/film.ismv", LATCHKEY_CONTENT_PIFF, &options));
  g_assert_null (latchkey_cached_content_new ("http://127.0.0.1/Manifest", LATCHKEY_CONTENT_SMOOTH_STREAMING, NULL));
  g_assert_null (latchkey_cached_content_new ("file:///film.ismv", LATCHKEY_CONTENT_PIFF, NULL));
  g_assert_cmpuint (latchkey_cached_content_list (folder, NULL, NULL, NULL), ==, 0);
  g_assert_cmpuint (latchkey_cached_content_add_listener (NULL, progressed, NULL, NULL), ==, 0);
  g_assert_cmpint (latchkey_cached_content_remove_listener (NULL, 1), ==, 0);
  g_assert_null (latchkey_cached_content_get_progress (NULL));
  g_assert_null (latchkey_cached_content_get_url (NULL));
  g_assert_cmpint (latchkey_cached_content_get_type (NULL), ==, LATCHKEY_CONTENT_UNKNOWN);
  g_assert_cmpuint (latchkey_cache_progress_get_total_duration (NULL), ==, GST_CLOCK_TIME_NONE);
  g_assert_cmpint (latchkey_cache_progress_get_error (NULL), ==, LATCHKEY_CACHE_ERROR_NONE);
  g_assert_null (latchkey_cache_progress_get_message (NULL));
  g_assert_cmpint (latchkey_cache_progress_get_warning (NULL), ==, LATCHKEY_CACHE_ERROR_NONE);
  g_assert_null (latchkey_cache_progress_get_warning_message (NULL));
  latchkey_cached_content_start (NULL);
  latchkey_cached_content_start_with_license (NULL);
  latchkey_cached_content_purge (NULL);
  latchkey_cached_content_unref (NULL);
  latchkey_cache_progress_unref (NULL);
}

/* From nothing to all of it, and back. */
static void
test_download (void)
{
  LatchkeyCachedContent *film = content_new ("film.ismv", LATCHKEY_CONTENT_PIFF);
  Seen *seen = watch_new (sizeof (Seen));
  g_assert_nonnull (film);
  g_assert_cmpint (latchkey_cached_content_get_type (film), ==, LATCHKEY_CONTENT_PIFF);
  LatchkeyCacheProgress *progress = latchkey_cached_content_get_progress (film);
  g_assert_cmpint (latchkey_cache_progress_get_status (progress), ==, LATCHKEY_CACHE_NOT_CACHED);
  latchkey_cache_progress_unref (progress);

  guint64 id = latchkey_cached_content_add_listener (film, progressed, seen, watch_destroyed);
  g_assert_cmpuint (id, !=, 0);
  latchkey_cached_content_start (film);
  progress = wait_for_status (seen, LATCHKEY_CACHE_COMPLETE);
  g_assert_cmpuint (latchkey_cache_progress_get_cached_size (progress), ==, content_size);
  g_assert_true (latchkey_cache_progress_is_ready_to_play (progress));
  g_assert_cmpuint (latchkey_cache_progress_get_total_duration (progress), >, 0);
  g_assert_cmpuint (latchkey_cache_progress_get_total_duration (progress), !=, GST_CLOCK_TIME_NONE);
  g_assert_cmpuint (latchkey_cache_progress_get_cached_duration (progress), ==,
      latchkey_cache_progress_get_total_duration (progress));
  g_assert_cmpint (latchkey_cache_progress_get_error (progress), ==, LATCHKEY_CACHE_ERROR_NONE);
  g_assert_cmpint (latchkey_cache_progress_get_warning (progress), ==, LATCHKEY_CACHE_ERROR_NONE);
  latchkey_cache_progress_unref (progress);

  Seen *all = list ();
  g_assert_cmpuint (all->count, ==, 1);
  g_assert_cmpstr (all->first_url, ==, latchkey_cached_content_get_url (film));
  g_assert_cmpint (all->first_type, ==, LATCHKEY_CONTENT_PIFF);
  g_free (all->first_url);

  /* Another spelling of the folder is the same cache, which knows what happens there. */
  gchar *name = g_path_get_basename (folder), *spelling = g_strdup_printf ("%s/../%s/", folder, name);
  LatchkeyCacheOptions options = { .size = sizeof options, .folder = spelling };
  LatchkeyCachedContent *same =
      latchkey_cached_content_new (latchkey_cached_content_get_url (film), LATCHKEY_CONTENT_PIFF, &options);
  progress = latchkey_cached_content_get_progress (same);
  g_assert_cmpint (latchkey_cache_progress_get_status (progress), ==, LATCHKEY_CACHE_COMPLETE);
  latchkey_cache_progress_unref (progress);
  latchkey_cached_content_unref (same);
  g_free (spelling);
  g_free (name);

  latchkey_cached_content_purge (film);
  progress = wait_for_status (seen, LATCHKEY_CACHE_NOT_CACHED);
  g_assert_cmpuint (latchkey_cache_progress_get_cached_size (progress), ==, 0);
  latchkey_cache_progress_unref (progress);
  g_assert_cmpuint (list ()->count, ==, 0);

  g_assert_true (latchkey_cached_content_remove_listener (film, id));
  g_assert_false (latchkey_cached_content_remove_listener (film, id));
  watch_wait_for_end (seen);
  latchkey_cached_content_unref (film);
}

/* The error says what the server said. */
static void
test_failure (void)
{
  LatchkeyCachedContent *film = content_new ("nothing.ismv", LATCHKEY_CONTENT_PIFF);
  Seen *seen = watch_new (sizeof (Seen));
  latchkey_cached_content_add_listener (film, progressed, seen, watch_destroyed);
  latchkey_cached_content_start (film);
  LatchkeyCacheProgress *progress = wait_for_status (seen, LATCHKEY_CACHE_FAILED);
  g_assert_cmpint (latchkey_cache_progress_get_error (progress), ==, LATCHKEY_CACHE_ERROR_SERVER_ERROR);
  g_assert_cmpint (latchkey_cache_progress_get_http_status (progress), ==, 404);
  g_assert_nonnull (strstr (latchkey_cache_progress_get_message (progress), "404"));
  latchkey_cache_progress_unref (progress);
  latchkey_cached_content_purge (film);
  latchkey_cache_progress_unref (wait_for_status (seen, LATCHKEY_CACHE_NOT_CACHED));
  /* The last reference ends the listener. */
  latchkey_cached_content_unref (film);
  watch_wait_for_end (seen);
}

static int
remove_entry (const gchar *path)
{
  GDir *directory = g_dir_open (path, 0, NULL);
  const gchar *name;
  while (directory != NULL && (name = g_dir_read_name (directory)) != NULL) {
    gchar *entry = g_build_filename (path, name, NULL);
    remove_entry (entry);
    g_free (entry);
  }
  if (directory != NULL)
    g_dir_close (directory);
  return g_remove (path);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  g_assert_true (g_file_get_contents (argv[1], &content, &content_size, NULL));
  folder = g_dir_make_tmp ("latchkey-cache-XXXXXX", NULL);
  g_assert_nonnull (folder);
  start_server ();
  g_test_add_func ("/cached-content/arguments", test_arguments);
  g_test_add_func ("/cached-content/download", test_download);
  g_test_add_func ("/cached-content/failure", test_failure);
  int result = g_test_run ();
  remove_entry (folder);
  return result;
}

/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey-cached-content
 * @title: Cached content
 * @short_description: content that is kept on disk, to play without the network
 *
 * The `CachedContent` of the Swift interface. docs/offline.md says what is kept. The player of
 * latchkey_agent_make_player() for the same URL plays it, with or without the network.
 *
 * Nothing in this file needs GLib or GStreamer. Every function may be called from any thread, also from inside a callback,
 * and none blocks. Callbacks come on threads of Latchkey; no main loop is needed. They must return at once. Strings are
 * UTF-8 and end with a zero byte; those that are handed in are copied. %NULL for an object does nothing and gives 0 or
 * %NULL.
 */

#ifndef LATCHKEY_CACHED_CONTENT_H
#define LATCHKEY_CACHED_CONTENT_H

#include <stddef.h>
#include <stdint.h>

#include "latchkey-content-info.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * LatchkeyCachedContent:
 *
 * One piece of content that is in the cache, or is to be. Counted by references. Its download goes on when the last
 * reference goes, as long as the process lives.
 */
typedef struct _LatchkeyCachedContent LatchkeyCachedContent;

/**
 * LatchkeyCacheProgress:
 *
 * How far it came, at one time. A value, counted by references; what it has inside is valid as long as it is.
 */
typedef struct _LatchkeyCacheProgress LatchkeyCacheProgress;

/**
 * LatchkeyCacheStatus:
 * @LATCHKEY_CACHE_NOT_CACHED: nothing of it is in the cache
 * @LATCHKEY_CACHE_WAITING: it waits for the end of another download
 * @LATCHKEY_CACHE_CACHING: its download is under way
 * @LATCHKEY_CACHE_PAUSED: a part of it is in the cache
 * @LATCHKEY_CACHE_COMPLETE: all of it is in the cache
 * @LATCHKEY_CACHE_FAILED: the download ended before its time; the progress has the error. What is in the cache stays and
 *   plays; latchkey_cached_content_start() goes on from there.
 *
 * What is going on.
 */
typedef enum {
  LATCHKEY_CACHE_NOT_CACHED = 0,
  LATCHKEY_CACHE_WAITING = 1,
  LATCHKEY_CACHE_CACHING = 2,
  LATCHKEY_CACHE_PAUSED = 3,
  LATCHKEY_CACHE_COMPLETE = 4,
  LATCHKEY_CACHE_FAILED = 5
} LatchkeyCacheStatus;

/**
 * LatchkeyCacheErrorCode:
 * @LATCHKEY_CACHE_ERROR_NONE: there is no error
 * @LATCHKEY_CACHE_ERROR_INVALID_URL: the URL cannot be used
 * @LATCHKEY_CACHE_ERROR_UNREACHABLE: the network or the server does not answer
 * @LATCHKEY_CACHE_ERROR_SERVER_ERROR: the server answers with an error, see latchkey_cache_progress_get_http_status()
 * @LATCHKEY_CACHE_ERROR_INVALID_CONTENT: it is not what it was said to be
 * @LATCHKEY_CACHE_ERROR_UNSUPPORTED_CONTENT: content of this kind cannot be cached
 * @LATCHKEY_CACHE_ERROR_CONTENT_CHANGED: the server has other content now than what is cached
 * @LATCHKEY_CACHE_ERROR_DISK_FULL: there is no room
 * @LATCHKEY_CACHE_ERROR_NOT_PERMITTED: the folder or its files may not be used
 * @LATCHKEY_CACHE_ERROR_DAMAGED: what is on disk was damaged
 * @LATCHKEY_CACHE_ERROR_IN_USE: another process has it open
 * @LATCHKEY_CACHE_ERROR_INPUT_OUTPUT: the disk failed
 * @LATCHKEY_CACHE_ERROR_NOT_CACHED: it is not in the cache
 * @LATCHKEY_CACHE_ERROR_CANCELLED: it was cancelled
 * @LATCHKEY_CACHE_ERROR_OTHER: anything else; the message says what
 * @LATCHKEY_CACHE_ERROR_LATER_VERSION: a later version of the library made what is there
 * @LATCHKEY_CACHE_ERROR_LICENSE_NOT_KEPT: a key or a license was refused, or may not be stored: what is in the cache does
 *   not play without the network; as a warning
 *
 * What went wrong.
 */
typedef enum {
  LATCHKEY_CACHE_ERROR_NONE = 0,
  LATCHKEY_CACHE_ERROR_INVALID_URL = 1,
  LATCHKEY_CACHE_ERROR_UNREACHABLE = 2,
  LATCHKEY_CACHE_ERROR_SERVER_ERROR = 3,
  LATCHKEY_CACHE_ERROR_INVALID_CONTENT = 4,
  LATCHKEY_CACHE_ERROR_UNSUPPORTED_CONTENT = 5,
  LATCHKEY_CACHE_ERROR_CONTENT_CHANGED = 6,
  LATCHKEY_CACHE_ERROR_DISK_FULL = 7,
  LATCHKEY_CACHE_ERROR_NOT_PERMITTED = 8,
  LATCHKEY_CACHE_ERROR_DAMAGED = 9,
  LATCHKEY_CACHE_ERROR_IN_USE = 10,
  LATCHKEY_CACHE_ERROR_INPUT_OUTPUT = 11,
  LATCHKEY_CACHE_ERROR_NOT_CACHED = 12,
  LATCHKEY_CACHE_ERROR_CANCELLED = 13,
  LATCHKEY_CACHE_ERROR_OTHER = 14,
  LATCHKEY_CACHE_ERROR_LATER_VERSION = 15,
  LATCHKEY_CACHE_ERROR_LICENSE_NOT_KEPT = 16
} LatchkeyCacheErrorCode;

/**
 * LatchkeyCacheOptions:
 * @size: `sizeof (LatchkeyCacheOptions)`; the table may grow, and the size says what the application knows
 * @maximum_bit_rate: in bits a second: the best variant up to this is kept, or the least if all have more; 0: the best
 * @audio_tracks: (nullable) (array zero-terminated=1): names or languages of the audio tracks to keep, as the manifest has
 *   them; %NULL: the one that plays by default
 * @folder: (nullable): the folder of the cache; %NULL: latchkey/content in the user's data folder, which agents play from
 *
 * Which tracks are kept, and where. All zero but @size is the default of each.
 */
typedef struct {
  size_t size;
  uint64_t maximum_bit_rate;
  const char *const *audio_tracks;
  const char *folder;
} LatchkeyCacheOptions;

/**
 * LatchkeyCacheListener:
 * @progress: how far it came; lent for the time of the call
 * @user_data: what latchkey_cached_content_add_listener() got
 */
typedef void (*LatchkeyCacheListener) (LatchkeyCacheProgress *progress, void *user_data);

/**
 * LatchkeyCacheListCallback:
 * @items: (array length=count): all content in the cache, as a whole or in part; lent for the time of the call
 * @count: how many
 * @error: %LATCHKEY_CACHE_ERROR_NONE, or why the cache cannot be read
 * @message: (nullable): the same in words; lent for the time of the call
 * @user_data: what latchkey_cached_content_list() got
 */
typedef void (*LatchkeyCacheListCallback) (LatchkeyCachedContent *const *items, size_t count,
                                           LatchkeyCacheErrorCode error, const char *message, void *user_data);

/**
 * latchkey_cached_content_new:
 * @url: where the content is, at a web server
 * @type: what the URL points to: not %LATCHKEY_CONTENT_SMOOTH_STREAMING
 * @options: (nullable): which tracks, and where
 *
 * The content with this URL, in the cache or not. Which tracks counts if nothing is cached yet.
 *
 * Returns: (transfer full) (nullable): the content; %NULL if the URL is none of a web server's, content of @type cannot
 *   be cached, the size of @options is too small, or the environment names no folder for the cache
 */
LatchkeyCachedContent *latchkey_cached_content_new (const char *url, LatchkeyContentType type,
                                                    const LatchkeyCacheOptions *options);

/**
 * latchkey_cached_content_list:
 * @folder: (nullable): the folder of the cache; %NULL: the user's own
 * @callback: gets what there is, once
 * @user_data: for @callback
 * @destroy: (nullable): called with @user_data behind @callback
 *
 * Finds everything that is in the cache.
 *
 * Returns: the number of the call, for latchkey_call_cancel(); 0 without a @callback, and @destroy is not called then
 */
uint64_t latchkey_cached_content_list (const char *folder, LatchkeyCacheListCallback callback, void *user_data,
                                       void (*destroy) (void *user_data));

/**
 * latchkey_cached_content_ref:
 * @content: (nullable): some content
 *
 * Returns: (transfer full): @content, with one more reference
 */
LatchkeyCachedContent *latchkey_cached_content_ref (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_unref:
 * @content: (nullable) (transfer full): some content
 *
 * Gives a reference back. With the last one its listeners end; its download goes on.
 */
void latchkey_cached_content_unref (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_get_url:
 * @content: (nullable): some content
 *
 * Returns: (nullable): the URL as it is asked for; valid as long as @content
 */
const char *latchkey_cached_content_get_url (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_get_type:
 * @content: (nullable): some content
 *
 * Returns: what the URL points to
 */
LatchkeyContentType latchkey_cached_content_get_type (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_start:
 * @content: (nullable): some content
 *
 * Starts the download, or goes on with it where it stopped, also after a crash. FairPlay-style keys of HLS are asked for
 * first, of the loaders of latchkey_loader_register() and as the configuration file says, so that they are stored.
 * PlayReady-style licenses are not: if latchkey_cached_content_start_with_license() was refused one, going on with this
 * function forgets the refusal.
 */
void latchkey_cached_content_start (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_start_with_license:
 * @content: (nullable): some content
 *
 * The same as latchkey_cached_content_start(), and acquires the PlayReady-style licenses of the content first, if the license
 * store of the configuration file has none that may be used. One that is refused, or that may not be stored, ends no
 * download: the warning of the progress is %LATCHKEY_CACHE_ERROR_LICENSE_NOT_KEPT then, and the content is not ready to play.
 * An application that sends the challenges by itself calls latchkey_agent_acquire_license() before, and
 * latchkey_cached_content_start(). That one asks for no PlayReady-style license: if it follows a refusal, the refusal is
 * forgotten, warning and all, while the license is still missing.
 */
void latchkey_cached_content_start_with_license (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_pause:
 * @content: (nullable): some content
 *
 * Stops the download; what is cached stays.
 */
void latchkey_cached_content_pause (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_purge:
 * @content: (nullable): some content
 *
 * Stops the download and removes everything of the content from the disk, also while it plays: playback goes on from the
 * network then. Licenses stay. The status is %LATCHKEY_CACHE_NOT_CACHED when it is done, or %LATCHKEY_CACHE_FAILED.
 */
void latchkey_cached_content_purge (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_refresh:
 * @content: (nullable): some content
 *
 * Looks at the disk, for the first time or again. Listeners are called if that changes something.
 */
void latchkey_cached_content_refresh (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_get_progress:
 * @content: (nullable): some content
 *
 * Nothing is known of what is on disk until latchkey_cached_content_refresh(), or another of the operations, is done.
 *
 * Returns: (transfer full) (nullable): how far it came
 */
LatchkeyCacheProgress *latchkey_cached_content_get_progress (LatchkeyCachedContent *content);

/**
 * latchkey_cached_content_add_listener:
 * @content: (nullable): some content
 * @listener: called with the present progress, and with every change. One that does not keep up misses some, and never
 *   the last.
 * @user_data: for @listener
 * @destroy: (nullable): called with @user_data once @listener is called no more
 *
 * Returns: the listener's number; 0 without @content or @listener, and @destroy is not called then
 */
uint64_t latchkey_cached_content_add_listener (LatchkeyCachedContent *content, LatchkeyCacheListener listener,
                                               void *user_data, void (*destroy) (void *user_data));

/**
 * latchkey_cached_content_remove_listener:
 * @content: (nullable): some content
 * @listener: what latchkey_cached_content_add_listener() returned
 *
 * A call that is under way goes on.
 *
 * Returns: 1, or 0 if there is no such listener any more
 */
int latchkey_cached_content_remove_listener (LatchkeyCachedContent *content, uint64_t listener);

/**
 * latchkey_cache_progress_ref:
 * @progress: (nullable): a progress
 *
 * Returns: (transfer full): @progress, with one more reference
 */
LatchkeyCacheProgress *latchkey_cache_progress_ref (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_unref:
 * @progress: (nullable) (transfer full): a progress
 *
 * Gives a reference back.
 */
void latchkey_cache_progress_unref (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_status:
 * @progress: (nullable): a progress
 *
 * Returns: what is going on
 */
LatchkeyCacheStatus latchkey_cache_progress_get_status (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_total_duration:
 * @progress: (nullable): a progress
 *
 * Returns: of the content, in nanoseconds; UINT64_MAX (GST_CLOCK_TIME_NONE) if that is not known yet
 */
uint64_t latchkey_cache_progress_get_total_duration (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_cached_duration:
 * @progress: (nullable): a progress
 *
 * Returns: what plays without the network, from the start on, in nanoseconds: never more than is on disk
 */
uint64_t latchkey_cache_progress_get_cached_duration (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_cached_size:
 * @progress: (nullable): a progress
 *
 * Returns: what is on disk, in bytes; parts in the middle that players brought count too
 */
uint64_t latchkey_cache_progress_get_cached_size (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_is_ready_to_play:
 * @progress: (nullable): a progress
 *
 * Returns: 1 if there is enough for playback to start without the network, else 0
 */
int latchkey_cache_progress_is_ready_to_play (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_error:
 * @progress: (nullable): a progress
 *
 * Returns: why it failed; %LATCHKEY_CACHE_ERROR_NONE if it did not
 */
LatchkeyCacheErrorCode latchkey_cache_progress_get_error (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_message:
 * @progress: (nullable): a progress
 *
 * Returns: (nullable): why it failed, in words; valid as long as @progress
 */
const char *latchkey_cache_progress_get_message (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_http_status:
 * @progress: (nullable): a progress
 *
 * Returns: the status of the answer that ended the download; 0 if there is none
 */
int latchkey_cache_progress_get_http_status (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_warning:
 * @progress: (nullable): a progress
 *
 * Returns: what went wrong without an end of the download: %LATCHKEY_CACHE_ERROR_DAMAGED if the index of the content was
 *   mended with losses, %LATCHKEY_CACHE_ERROR_LICENSE_NOT_KEPT; else %LATCHKEY_CACHE_ERROR_NONE
 */
LatchkeyCacheErrorCode latchkey_cache_progress_get_warning (LatchkeyCacheProgress *progress);

/**
 * latchkey_cache_progress_get_warning_message:
 * @progress: (nullable): a progress
 *
 * Returns: (nullable): the same in words; valid as long as @progress
 */
const char *latchkey_cache_progress_get_warning_message (LatchkeyCacheProgress *progress);

#ifdef __cplusplus
}
#endif

#endif /* LATCHKEY_CACHED_CONTENT_H */

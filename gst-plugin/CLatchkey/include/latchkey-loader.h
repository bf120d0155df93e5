/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey-loader
 * @title: Resource loaders
 * @short_description: getting keys for protected media, from every language that can call C
 *
 * A resource loader answers the key requests of Latchkey's elements: with keys, with a license as it came, or with an
 * error. It is a table of functions and a pointer of yours. docs/loaders.md says what a loader is and when it is asked.
 *
 * Nothing in this file needs GLib or GStreamer. Strings are UTF-8 and end with a zero byte. Every function may be
 * called from any thread, also from inside a callback. %NULL for a request or a session does nothing and returns 0.
 */

#ifndef LATCHKEY_LOADER_H
#define LATCHKEY_LOADER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * LatchkeyKeyRequest:
 *
 * A question for keys. Counted by references. It stays valid after its session is closed or gone: then answers do not
 * count, and what it says of itself is still there. All callbacks for one request get the same pointer.
 */
typedef struct _LatchkeyKeyRequest LatchkeyKeyRequest;

/**
 * LatchkeySession:
 *
 * The keys of a viewing session, for an application that does not want the session that a pipeline makes for itself.
 * Counted by references.
 */
typedef struct _LatchkeySession LatchkeySession;

/**
 * LatchkeyErrorCode:
 * @LATCHKEY_ERROR_NONE: no error
 * @LATCHKEY_ERROR_DENIED: the key is refused
 * @LATCHKEY_ERROR_KEY_NOT_FOUND: there was an answer, but not for the key that was asked for
 * @LATCHKEY_ERROR_MALFORMED_RESPONSE: the answer cannot be read
 * @LATCHKEY_ERROR_MALFORMED_REQUEST: the request cannot be made, as with a content identifier that is too long
 * @LATCHKEY_ERROR_NETWORK: the license service cannot be reached
 * @LATCHKEY_ERROR_SERVER_STATUS: the license service answered with an HTTP status that is no success
 * @LATCHKEY_ERROR_TIMED_OUT: no answer in time
 * @LATCHKEY_ERROR_CANCELLED: the request was withdrawn
 * @LATCHKEY_ERROR_SESSION_CLOSED: the session is closed or gone
 * @LATCHKEY_ERROR_INVALID_CONFIGURATION: a setting, a certificate or the like cannot be used
 * @LATCHKEY_ERROR_LEASE_EXPIRED: the time for which the key was allowed is over
 * @LATCHKEY_ERROR_NO_LOADER: no loader takes the request
 *
 * Why a key is not there. Other numbers count as %LATCHKEY_ERROR_DENIED.
 */
typedef enum {
  LATCHKEY_ERROR_NONE = 0,
  LATCHKEY_ERROR_DENIED = 1,
  LATCHKEY_ERROR_KEY_NOT_FOUND = 2,
  LATCHKEY_ERROR_MALFORMED_RESPONSE = 3,
  LATCHKEY_ERROR_MALFORMED_REQUEST = 4,
  LATCHKEY_ERROR_NETWORK = 5,
  LATCHKEY_ERROR_SERVER_STATUS = 6,
  LATCHKEY_ERROR_TIMED_OUT = 7,
  LATCHKEY_ERROR_CANCELLED = 8,
  LATCHKEY_ERROR_SESSION_CLOSED = 9,
  LATCHKEY_ERROR_INVALID_CONFIGURATION = 10,
  LATCHKEY_ERROR_LEASE_EXPIRED = 11,
  LATCHKEY_ERROR_NO_LOADER = 12
} LatchkeyErrorCode;

/**
 * LatchkeyKey:
 * @key_id: the KID, in the byte order of a UUID
 * @key: the content key
 */
typedef struct {
  uint8_t key_id[16];
  uint8_t key[16];
} LatchkeyKey;

/**
 * LatchkeyRetryReason:
 * @LATCHKEY_RETRY_TIMED_OUT: the loader finished the request with %LATCHKEY_ERROR_TIMED_OUT
 * @LATCHKEY_RETRY_EXPIRED_LEASE: the time of the answer, or of its stored key, was over when it came, or the loader
 *   finished the request with %LATCHKEY_ERROR_LEASE_EXPIRED
 * @LATCHKEY_RETRY_OBSOLETE_KEY: the answer to a renewal brings no more time than the session has
 *
 * Why a request may be made again. More may come.
 */
typedef enum {
  LATCHKEY_RETRY_TIMED_OUT = 1,
  LATCHKEY_RETRY_EXPIRED_LEASE = 2,
  LATCHKEY_RETRY_OBSOLETE_KEY = 3
} LatchkeyRetryReason;

/**
 * LatchkeyLoaderFunctions:
 * @size: `sizeof (LatchkeyLoaderFunctions)`; the table may grow, and the size says what the application knows. Every member
 *   is as large as a pointer, so that no padding counts as known.
 * @should_wait: (nullable): whether the loader takes the request; 0 asks the next loader. %NULL takes every request.
 * @load: (nullable): the request was taken. Finish it here or later, from any thread, once. %NULL if @should_wait
 *   does that.
 * @cancel: (nullable): a request that was taken needs no answer any more: it was withdrawn, other code answered, or the
 *   session is over. Called once at most, never after the loader finished it, and maybe while @load still runs.
 * @should_retry: (nullable): an answer of this loader cannot be used, for @reason: whether the request is to be made again,
 *   as a new one. A loader that finds its stored key expired removes it here. %NULL: no. After four attempts this is not
 *   called.
 * @update_persistable_key: (nullable): playback with a stored key of this loader begins, and its time with it: store these
 *   bytes in the place of the old ones, or say latchkey_key_request_did_not_store(). %NULL if keys have no such time, or
 *   it may begin anew with each playback. @key is lent for the call.
 * @needs_no_network: not 0 if the keys can be had at any time, without a network and without being stored: a download
 *   then counts them as kept
 *
 * @should_retry and @update_persistable_key are called inside the function that finishes the request: hold no lock there
 * that they take. The others are called on threads of Latchkey, several requests at the same time; never on a streaming
 * thread, and no main loop is needed. All must return at once: hand work that takes time to a thread or a main loop of
 * yours. The request is lent for the call; latchkey_key_request_ref() keeps it.
 */
typedef struct {
  size_t size;
  int (*should_wait) (LatchkeyKeyRequest *request, void *user_data);
  void (*load) (LatchkeyKeyRequest *request, void *user_data);
  void (*cancel) (LatchkeyKeyRequest *request, void *user_data);
  int (*should_retry) (LatchkeyKeyRequest *request, LatchkeyRetryReason reason, void *user_data);
  void (*update_persistable_key) (LatchkeyKeyRequest *request, const uint8_t *key, size_t size, void *user_data);
  size_t needs_no_network;
} LatchkeyLoaderFunctions;

/**
 * latchkey_loader_register:
 * @name: (nullable): for logs and error texts
 * @functions: the functions; copied
 * @user_data: (nullable): goes with every call
 * @destroy: (nullable): called once with @user_data, on any thread, when @functions cannot be called any more: the
 *   loader is not registered and no session that has it is left
 *
 * Gives a loader to every pipeline whose session begins from now on, ahead of what the configuration names. Call it
 * before the first pipeline leaves READY. Loaders are asked in the order in which they were registered.
 *
 * Returns: a number for latchkey_loader_unregister(), or 0 if @functions has a size that is too small, or neither
 * @should_wait nor @load. @destroy is not called then.
 */
uint64_t latchkey_loader_register (const char *name, const LatchkeyLoaderFunctions *functions, void *user_data,
                                   void (*destroy) (void *user_data));

/**
 * latchkey_loader_unregister:
 * @id: what latchkey_loader_register() returned
 *
 * Sessions that begin from now on do not get the loader. Those that are there keep it.
 *
 * Returns: 1, or 0 if no such loader is registered.
 */
int latchkey_loader_unregister (uint64_t id);

/**
 * latchkey_session_new:
 *
 * Makes a session without loaders. latchkey_session_attach() of latchkey.h gives it to a pipeline.
 *
 * Returns: (transfer full): a session, never %NULL
 */
LatchkeySession *latchkey_session_new (void);

/**
 * latchkey_session_ref:
 * @session: (nullable): a session
 *
 * Returns: (transfer full): @session, with one more reference
 */
LatchkeySession *latchkey_session_ref (LatchkeySession *session);

/**
 * latchkey_session_unref:
 * @session: (nullable) (transfer full): a session
 *
 * Gives a reference back. When the last one goes, and no pipeline has the session, its requests are cancelled.
 */
void latchkey_session_unref (LatchkeySession *session);

/**
 * latchkey_session_add_loader:
 * @session: a session
 * @name: (nullable): as in latchkey_loader_register(), and so on
 * @functions: the functions; copied
 * @user_data: (nullable): goes with every call
 * @destroy: (nullable): called once with @user_data, when the session has no use for the loader any more
 *
 * Adds a loader behind those that the session has.
 *
 * Returns: 1, or 0 if @functions cannot be used. @destroy is not called then.
 */
int latchkey_session_add_loader (LatchkeySession *session, const char *name, const LatchkeyLoaderFunctions *functions,
                                 void *user_data, void (*destroy) (void *user_data));

/**
 * latchkey_session_close:
 * @session: a session
 * @reason: (nullable): for the error that elements post
 *
 * Ends the session: every key is unusable, every request is cancelled, answers do not count any more. Playback ends
 * with an error.
 */
void latchkey_session_close (LatchkeySession *session, const char *reason);

/**
 * latchkey_key_request_ref:
 * @request: (nullable): a request
 *
 * Returns: (transfer full): @request, with one more reference
 */
LatchkeyKeyRequest *latchkey_key_request_ref (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_unref:
 * @request: (nullable) (transfer full): a request
 *
 * Gives a reference back. Pointers that came from the request are not valid any more when the last one goes.
 */
void latchkey_key_request_unref (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_get_id:
 * @request: a request
 *
 * Returns: a number that no other request of the process has, never 0
 */
uint64_t latchkey_key_request_get_id (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_get_key_system:
 * @request: a request
 *
 * Returns: (nullable) (transfer none): `clearkey`, `fairplay` or `playready`; %NULL if the media names no system
 * that has an exchange of its own. Valid as long as the request.
 */
const char *latchkey_key_request_get_key_system (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_get_key_id_count:
 * @request: a request
 *
 * Returns: how many keys are asked for by KID; 0 for media without a KID
 */
size_t latchkey_key_request_get_key_id_count (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_get_key_id:
 * @request: a request
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): the 16 bytes of a KID, in the byte order of a UUID; %NULL behind the last. For a
 * key that a playlist names by URI, and whose media has no KID, a number that stands for it. Valid as long as the
 * request.
 */
const uint8_t *latchkey_key_request_get_key_id (LatchkeyKeyRequest *request, size_t index);

/**
 * latchkey_key_request_get_key_uri:
 * @request: a request
 *
 * Returns: (nullable) (transfer none): the URI by which a playlist names the key, as `skd://…`, or %NULL. Valid as
 * long as the request.
 */
const char *latchkey_key_request_get_key_uri (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_get_suggested_url:
 * @request: a request
 *
 * Returns: (nullable) (transfer none): a license URL that the media names, or %NULL. Not trusted: send no credentials
 * there. Valid as long as the request.
 */
const char *latchkey_key_request_get_suggested_url (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_get_init_data_count:
 * @request: a request
 *
 * Returns: how many pieces of initialization data the media has
 */
size_t latchkey_key_request_get_init_data_count (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_get_init_data:
 * @request: a request
 * @index: from 0
 * @size: (out) (nullable): the number of bytes
 * @origin: (out) (nullable) (transfer none): where it was found, as `isobmff/moov` or `hls/m3u8`
 *
 * Returns: (nullable) (transfer none): the bytes, as a `pssh` box, unchanged and not trusted; %NULL behind the last.
 * Valid as long as the request, as is @origin.
 */
const uint8_t *latchkey_key_request_get_init_data (LatchkeyKeyRequest *request, size_t index, size_t *size,
                                                   const char **origin);

/**
 * latchkey_key_request_get_challenge:
 * @request: a request
 * @size: (out) (nullable): the number of bytes
 *
 * The body for the license service, if the request alone is enough to make it: for ClearKey the JSON license request of W3C
 * Encrypted Media Extensions. FairPlay's is made by
 * latchkey_key_request_make_streaming_content_key_request_data().
 *
 * Returns: (nullable) (transfer none): the bytes, or %NULL if there are none. Valid as long as the request.
 */
const uint8_t *latchkey_key_request_get_challenge (LatchkeyKeyRequest *request, size_t *size);

/**
 * latchkey_key_request_is_renewal:
 * @request: a request
 *
 * Returns: 1 if the request extends keys that are usable now, else 0
 */
int latchkey_key_request_is_renewal (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_is_finished:
 * @request: a request
 *
 * Returns: 1 if the request needs no answer any more: it was answered, withdrawn as after a time-out, or its session is
 *   closed or gone. An answer returns 0 from then on. Else 0.
 */
int latchkey_key_request_is_finished (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_make_streaming_content_key_request_data:
 * @request: a request of the key system `fairplay`
 * @certificate: the application certificate in DER
 * @certificate_size: its size in bytes
 * @content_id: the content identifier, 2 to 200 bytes
 * @content_id_size: its size in bytes
 * @data: (out): the SPC; free it with latchkey_free()
 * @size: (out): its size in bytes
 * @message: (out) (nullable): the text of an error; free it with latchkey_free()
 *
 * Makes the server playback context (SPC) for a key server, as AVFoundation's method of that name does. The request
 * remembers the exchange: latchkey_key_request_finish_with_license() opens the CKC that answers it. Needs a key payload
 * provider, or for tests `test-ask-file` in the configuration.
 *
 * Returns: %LATCHKEY_ERROR_NONE, or why there is no SPC; @data is %NULL then
 */
LatchkeyErrorCode latchkey_key_request_make_streaming_content_key_request_data (
    LatchkeyKeyRequest *request, const uint8_t *certificate, size_t certificate_size, const uint8_t *content_id,
    size_t content_id_size, uint8_t **data, size_t *size, char **message);

/**
 * latchkey_key_request_set_lease:
 * @request: a request
 * @milliseconds: how long the keys may be used, counted from when they were asked for; 0: without an end
 *
 * Sets the lease of the keys that the answer brings. Call it before the answer. The session asks for a renewal ahead
 * of the end (see latchkey_key_request_is_renewal()); without one the keys are unusable then. A license that has a lease
 * of its own keeps that.
 */
void latchkey_key_request_set_lease (LatchkeyKeyRequest *request, uint64_t milliseconds);

/**
 * latchkey_key_request_finish_with_keys:
 * @request: a request
 * @keys: (array length=count): keys with their KIDs; copied into memory that is locked and wiped
 * @count: how many
 *
 * Answers with keys. All are taken, also those that were not asked for; keys that were and are not there fail. Keys that come
 * after the request was withdrawn are kept for later requests, unless the session is closed or gone.
 *
 * Returns: 1 if the request waited for the answer; 0 if it was finished before (latchkey_key_request_is_finished()), or is
 *   made again
 */
int latchkey_key_request_finish_with_keys (LatchkeyKeyRequest *request, const LatchkeyKey *keys, size_t count);

/**
 * latchkey_key_request_finish_with_key:
 * @request: a request for one key: one KID, one key URI, or media without a KID
 * @key: the 16 bytes of the key
 * @iv: (nullable): the 16 bytes of the IV that came with the key, for media that has none of its own
 *
 * Answers with the one key.
 *
 * Returns: as latchkey_key_request_finish_with_keys()
 */
int latchkey_key_request_finish_with_key (LatchkeyKeyRequest *request, const uint8_t *key, const uint8_t *iv);

/**
 * latchkey_key_request_finish_with_license:
 * @request: a request
 * @license: the license service's response, as it came: a JSON ClearKey license, or a CKC
 * @size: its size in bytes
 *
 * Answers with a license. The request opens it: as a CKC if it made an SPC, else as ClearKey's.
 *
 * Returns: as latchkey_key_request_finish_with_keys(); a license that cannot be opened counts, and fails the keys
 */
int latchkey_key_request_finish_with_license (LatchkeyKeyRequest *request, const uint8_t *license, size_t size);

/**
 * latchkey_key_request_finish_with_error:
 * @request: a request
 * @code: why
 * @message: (nullable): for people; goes into the error that elements post. No secrets.
 *
 * Denies the keys that are missing.
 *
 * Returns: as latchkey_key_request_finish_with_keys()
 */
int latchkey_key_request_finish_with_error (LatchkeyKeyRequest *request, LatchkeyErrorCode code, const char *message);

/**
 * latchkey_key_request_is_for_storage:
 * @request: a request
 *
 * Whether the key is wanted by a download, to be stored, and nothing plays. Answer with
 * latchkey_key_request_finish_with_persistable_key(), or with an error that says why there is none: any other key leaves the
 * content not ready to play, unless the loader has `needs_no_network`.
 *
 * Returns: 1 if it is, else 0
 */
int latchkey_key_request_is_for_storage (LatchkeyKeyRequest *request);

/**
 * latchkey_key_request_set_requests_persistable_key:
 * @request: a request of the key system `fairplay`
 * @requests: not 0: the SPC asks the key server for a key that may be stored
 *
 * Call it before latchkey_key_request_make_streaming_content_key_request_data(). At first a request that is for storage
 * asks for such a key, and no other does.
 */
void latchkey_key_request_set_requests_persistable_key (LatchkeyKeyRequest *request, int requests);

/**
 * latchkey_key_request_can_store_key:
 * @request: a request that made an SPC
 * @license: the CKC that answers it
 * @size: its size in bytes
 *
 * Returns: 1 if the key server allows the key in @license to be stored; 0 if it does not, or @license cannot be
 *   opened
 */
int latchkey_key_request_can_store_key (LatchkeyKeyRequest *request, const uint8_t *license, size_t size);

/**
 * latchkey_key_request_make_persistable_key:
 * @request: a request that made an SPC
 * @license: the CKC that answers it
 * @license_size: its size in bytes
 * @key: (out): the stored key; free it with latchkey_free()
 * @size: (out): its size in bytes
 * @message: (out) (nullable): the text of an error; free it with latchkey_free()
 *
 * Makes the key in @license into bytes to be stored, as AVFoundation's
 * `persistableContentKey(fromKeyVendorResponse:options:)` does. They are sealed for this device: with the secret of
 * `device-secret`, or of the folder `stored-keys`, in `[fairplay]` of the configuration. Keep them under the content
 * identifier, and answer this request and later ones with latchkey_key_request_finish_with_persistable_key().
 *
 * Returns: %LATCHKEY_ERROR_NONE, or why there is none; @key is %NULL then. %LATCHKEY_ERROR_MALFORMED_RESPONSE if the CKC
 *   cannot be opened or does not allow it, %LATCHKEY_ERROR_INVALID_CONFIGURATION if no device secret is configured,
 *   %LATCHKEY_ERROR_MALFORMED_REQUEST if the request made no SPC.
 */
LatchkeyErrorCode latchkey_key_request_make_persistable_key (LatchkeyKeyRequest *request, const uint8_t *license,
                                                             size_t license_size, uint8_t **key, size_t *size,
                                                             char **message);

/**
 * latchkey_key_request_finish_with_persistable_key:
 * @request: a request of the key system `fairplay`
 * @key: what latchkey_key_request_make_persistable_key() made, for this request or for an earlier one for the same content
 * @size: its size in bytes
 *
 * Answers with a stored key. Unless the request is for storage, its playback begins now:
 * `update_persistable_key` of the loader is called inside this function if that changes the key, and `should_retry`
 * if its time is over.
 *
 * Returns: as latchkey_key_request_finish_with_keys(), and 0 if the request is made again; bytes that cannot be opened
 *   here count, and fail the key
 */
int latchkey_key_request_finish_with_persistable_key (LatchkeyKeyRequest *request, const uint8_t *key, size_t size);

/**
 * latchkey_key_request_did_not_store:
 * @request: a request
 * @code: why
 * @message: (nullable): for people; no secrets
 *
 * Says that what `update_persistable_key` brought could not be stored: elements post `latchkey-key-not-stored`, and
 * playback goes on.
 */
void latchkey_key_request_did_not_store (LatchkeyKeyRequest *request, LatchkeyErrorCode code, const char *message);

/**
 * latchkey_free:
 * @memory: (nullable): what a function above says to free with it
 */
void latchkey_free (void *memory);

#ifdef __cplusplus
}
#endif

#endif /* LATCHKEY_LOADER_H */

/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey-records
 * @title: What is kept on this device
 * @short_description: the stored licenses, and the viewing sessions that servers may count
 *
 * Lists the PlayReady-style licenses of the license store, and the viewing sessions that are written down, whichever
 * agent or process they came from; takes one license out, and ends sessions that were left over.
 * latchkey_reset_licenses() of latchkey-agent.h empties the store. FairPlay-style keys that are stored are in the store of
 * the folder `stored-keys` of the configuration, and are not in the list.
 *
 * Nothing in this file needs GLib or GStreamer. Every function may be called from any thread, also from inside a callback,
 * and none blocks. What takes time returns a number, for latchkey_call_cancel(), and calls back exactly once, on a thread
 * of Latchkey, maybe before the function has returned; `destroy` is called behind that with the same `user_data`. Callbacks
 * must return at once. What they get is lent for the time of the call; its `_ref` function keeps it. Strings are UTF-8 and
 * end with a zero byte; those that are handed in are copied. %NULL for an object does nothing and gives 0 or %NULL.
 *
 * Errors are %LATCHKEY_AGENT_ERROR_CONFIGURATION, if what is asked for is not configured or cannot be used, and
 * %LATCHKEY_AGENT_ERROR_CANCELLED.
 */

#ifndef LATCHKEY_RECORDS_H
#define LATCHKEY_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "latchkey-agent-event.h"
#include "latchkey-content-info.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * LatchkeyLicense:
 *
 * A license in the store, as it was when it was listed; without its keys. A value, counted by references; what it has
 * inside is valid as long as it is.
 */
typedef struct _LatchkeyLicense LatchkeyLicense;

/**
 * LatchkeyViewingSession:
 *
 * A session that a session server may count, as it was when it was listed. A value, counted by references; what it has
 * inside is valid as long as it is.
 */
typedef struct _LatchkeyViewingSession LatchkeyViewingSession;

/**
 * LatchkeyLicenseListCallback:
 * @licenses: (array length=count): the licenses, in the order of their KIDs
 * @count: how many
 * @error: (nullable): why they cannot be listed
 * @user_data: what latchkey_licenses_list() got
 */
typedef void (*LatchkeyLicenseListCallback) (LatchkeyLicense *const *licenses, size_t count, LatchkeyAgentError *error,
                                             void *user_data);

/**
 * LatchkeyLicenseRemovedCallback:
 * @removed: 1 if the license was there, else 0
 * @error: (nullable): why it could not be removed
 * @user_data: what latchkey_license_remove() got
 */
typedef void (*LatchkeyLicenseRemovedCallback) (int removed, LatchkeyAgentError *error, void *user_data);

/**
 * LatchkeyViewingSessionListCallback:
 * @sessions: (array length=count): the sessions, by name
 * @count: how many
 * @error: (nullable): why they cannot be listed
 * @user_data: what latchkey_viewing_sessions_list() got
 */
typedef void (*LatchkeyViewingSessionListCallback) (LatchkeyViewingSession *const *sessions, size_t count,
                                                    LatchkeyAgentError *error, void *user_data);

/**
 * LatchkeyViewingSessionsEndedCallback:
 * @ended: how many were ended, or given up after the fifth try
 * @left: how many could not be ended
 * @error: (nullable): why nothing was tried
 * @user_data: what latchkey_viewing_sessions_end_left_over() got
 */
typedef void (*LatchkeyViewingSessionsEndedCallback) (size_t ended, size_t left, LatchkeyAgentError *error,
                                                      void *user_data);

/**
 * latchkey_licenses_list:
 * @configuration_file: (nullable): the configuration that names the license store; %NULL for what elements go by:
 *   LATCHKEY_CONFIG, or latchkey/latchkey.conf in the user's configuration folder
 * @callback: gets the licenses
 * @user_data: (nullable): goes with the callback
 * @destroy: (nullable): called with @user_data behind the callback
 *
 * Lists every PlayReady-style license in the store, with how its rights stand now. Looks, and changes nothing; makes no
 * store if there is none. Needs no network.
 *
 * Returns: the number of the call; 0 without a @callback, and @destroy is not called then
 */
uint64_t latchkey_licenses_list (const char *configuration_file, LatchkeyLicenseListCallback callback, void *user_data,
                                 void (*destroy) (void *user_data));

/**
 * latchkey_license_remove:
 * @configuration_file: (nullable): as in latchkey_licenses_list()
 * @id: the 16 bytes of latchkey_license_get_id(); copied
 * @callback: (nullable): called when it is done
 * @user_data: (nullable): goes with the callback
 * @destroy: (nullable): called with @user_data behind the callback
 *
 * Takes one license out of the store; it is gone from the disk when the callback comes. A playback that has its keys goes
 * on. When it was first played stays on record: acquired again, it goes on from there.
 *
 * Returns: the number of the call; 0 without @id, and @destroy is not called then
 */
uint64_t latchkey_license_remove (const char *configuration_file, const uint8_t *id,
                                  LatchkeyLicenseRemovedCallback callback, void *user_data,
                                  void (*destroy) (void *user_data));

/**
 * latchkey_license_ref:
 * @license: (nullable): a license
 *
 * Returns: (transfer full): @license, with one more reference
 */
LatchkeyLicense *latchkey_license_ref (LatchkeyLicense *license);

/**
 * latchkey_license_unref:
 * @license: (nullable) (transfer full): a license
 *
 * Gives a reference back.
 */
void latchkey_license_unref (LatchkeyLicense *license);

/**
 * latchkey_license_get_id:
 * @license: (nullable): a license
 *
 * Returns: (nullable) (transfer none): 16 bytes, which no other license of the store has
 */
const uint8_t *latchkey_license_get_id (LatchkeyLicense *license);

/**
 * latchkey_license_get_key_system:
 * @license: (nullable): a license
 *
 * Returns: (nullable) (transfer none): `playready`. Others may come.
 */
const char *latchkey_license_get_key_system (LatchkeyLicense *license);

/**
 * latchkey_license_get_key_id:
 * @license: (nullable): a license
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): the 16 bytes of a KID that it is for, in the byte order of a UUID; %NULL behind the
 *   last
 */
const uint8_t *latchkey_license_get_key_id (LatchkeyLicense *license, size_t index);

/**
 * latchkey_license_get_domain:
 * @license: (nullable): a license
 *
 * Returns: (nullable) (transfer none): the account of the domain that it is bound to, as the text of a UUID; %NULL if
 *   it is bound to the device
 */
const char *latchkey_license_get_domain (LatchkeyLicense *license);

/**
 * latchkey_license_get_rights:
 * @license: (nullable): a license
 *
 * Returns: (nullable) (transfer none): how its rights stood when it was listed, with the dates and the reason. A license
 *   that this device cannot open has %LATCHKEY_RIGHTS_NONE. latchkey_rights_ref() keeps it longer than @license.
 */
LatchkeyRights *latchkey_license_get_rights (LatchkeyLicense *license);

/**
 * latchkey_viewing_sessions_list:
 * @configuration_file: (nullable): the configuration that names the session server; %NULL as in latchkey_licenses_list()
 * @callback: gets the sessions
 * @user_data: (nullable): goes with the callback
 * @destroy: (nullable): called with @user_data behind the callback
 *
 * Lists the sessions that session servers may count for this device: those of playbacks that go on, in whatever process,
 * and those that were left over.
 *
 * Returns: the number of the call; 0 without a @callback, and @destroy is not called then
 */
uint64_t latchkey_viewing_sessions_list (const char *configuration_file, LatchkeyViewingSessionListCallback callback,
                                         void *user_data, void (*destroy) (void *user_data));

/**
 * latchkey_viewing_sessions_end_left_over:
 * @configuration_file: (nullable): as in latchkey_viewing_sessions_list()
 * @callback: (nullable): called when it is done
 * @user_data: (nullable): goes with the callback
 * @destroy: (nullable): called with @user_data behind the callback
 *
 * Ends the sessions that processes left over at the configured server, as after a crash; those of processes that are
 * still there stay. The next playback does the same: call this to end them earlier.
 *
 * Returns: the number of the call, never 0
 */
uint64_t latchkey_viewing_sessions_end_left_over (const char *configuration_file,
                                                  LatchkeyViewingSessionsEndedCallback callback, void *user_data,
                                                  void (*destroy) (void *user_data));

/**
 * latchkey_viewing_session_ref:
 * @session: (nullable): a viewing session
 *
 * Returns: (transfer full): @session, with one more reference
 */
LatchkeyViewingSession *latchkey_viewing_session_ref (LatchkeyViewingSession *session);

/**
 * latchkey_viewing_session_unref:
 * @session: (nullable) (transfer full): a viewing session
 *
 * Gives a reference back.
 */
void latchkey_viewing_session_unref (LatchkeyViewingSession *session);

/**
 * latchkey_viewing_session_get_name:
 * @session: (nullable): a viewing session
 *
 * Returns: (nullable) (transfer none): the client's own name of it, random
 */
const char *latchkey_viewing_session_get_name (LatchkeyViewingSession *session);

/**
 * latchkey_viewing_session_get_server_url:
 * @session: (nullable): a viewing session
 *
 * Returns: (nullable) (transfer none): the URL of its session server, without what may be secret in it
 */
const char *latchkey_viewing_session_get_server_url (LatchkeyViewingSession *session);

/**
 * latchkey_viewing_session_get_process_id:
 * @session: (nullable): a viewing session
 *
 * Returns: the process that plays; 0 if that is gone, and the session was left over
 */
int64_t latchkey_viewing_session_get_process_id (LatchkeyViewingSession *session);

/**
 * latchkey_viewing_session_get_attempts:
 * @session: (nullable): a viewing session
 *
 * Returns: how often ending it was tried in vain
 */
unsigned int latchkey_viewing_session_get_attempts (LatchkeyViewingSession *session);

#ifdef __cplusplus
}
#endif

#endif /* LATCHKEY_RECORDS_H */

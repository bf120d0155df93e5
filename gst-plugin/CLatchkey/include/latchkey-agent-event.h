/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey-agent-event
 * @title: The agent's events and errors
 * @short_description: what happens while protected content plays
 *
 * What the listeners of latchkey_agent_add_listener() and the callbacks of latchkey-agent.h get.
 *
 * Nothing in this file needs GLib or GStreamer. Everything here is a value: it does not change, and may be read from any
 * thread. Strings are UTF-8 and end with a zero byte; they, and what an object has inside, are valid as long as the
 * object. %NULL for an object, and a question that its type does not answer, give 0 or %NULL; so does an index behind the
 * last.
 */

#ifndef LATCHKEY_AGENT_EVENT_H
#define LATCHKEY_AGENT_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "latchkey-content-info.h"
#include "latchkey-loader.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * LatchkeyAgentErrorCode:
 * @LATCHKEY_AGENT_ERROR_NONE: no error
 * @LATCHKEY_AGENT_ERROR_INVALID_URL: the content URL cannot be fetched by any means here
 * @LATCHKEY_AGENT_ERROR_UNREACHABLE: no answer from the content's server
 * @LATCHKEY_AGENT_ERROR_SERVER_ERROR: the content's server answered with an error status
 * @LATCHKEY_AGENT_ERROR_INVALID_CONTENT: what came is not what the content type says, as the web page of a captive portal
 * @LATCHKEY_AGENT_ERROR_UNSUPPORTED_CONTENT: it is what the type says, and of a kind that is not played
 * @LATCHKEY_AGENT_ERROR_NOT_PROTECTED: a license was asked for, and nothing is protected
 * @LATCHKEY_AGENT_ERROR_LICENSE_NOT_ACQUIRED: no license was acquired
 * @LATCHKEY_AGENT_ERROR_CONFIGURATION: the configuration, the license store or an element cannot be used
 * @LATCHKEY_AGENT_ERROR_CANCELLED: the call was cancelled, or the agent's last reference went meanwhile
 * @LATCHKEY_AGENT_ERROR_INVALID_ARGUMENT: what the function was given cannot be used
 *
 * The kinds of an agent's errors.
 */
typedef enum {
  LATCHKEY_AGENT_ERROR_NONE = 0,
  LATCHKEY_AGENT_ERROR_INVALID_URL = 1,
  LATCHKEY_AGENT_ERROR_UNREACHABLE = 2,
  LATCHKEY_AGENT_ERROR_SERVER_ERROR = 3,
  LATCHKEY_AGENT_ERROR_INVALID_CONTENT = 4,
  LATCHKEY_AGENT_ERROR_UNSUPPORTED_CONTENT = 5,
  LATCHKEY_AGENT_ERROR_NOT_PROTECTED = 6,
  LATCHKEY_AGENT_ERROR_LICENSE_NOT_ACQUIRED = 7,
  LATCHKEY_AGENT_ERROR_CONFIGURATION = 8,
  LATCHKEY_AGENT_ERROR_CANCELLED = 9,
  LATCHKEY_AGENT_ERROR_INVALID_ARGUMENT = 10
} LatchkeyAgentErrorCode;

/**
 * LatchkeyAgentState:
 * @LATCHKEY_AGENT_STATE_INITIALIZED: nothing is known yet
 * @LATCHKEY_AGENT_STATE_INSPECTING: the content and the rights are being looked at
 * @LATCHKEY_AGENT_STATE_NEEDS_LICENSE: there are no rights to play it now
 * @LATCHKEY_AGENT_STATE_ACQUIRING: a license is being acquired
 * @LATCHKEY_AGENT_STATE_READY: it may be played
 * @LATCHKEY_AGENT_STATE_PLAYING: it plays
 * @LATCHKEY_AGENT_STATE_PAUSED: it was begun, and stands still
 * @LATCHKEY_AGENT_STATE_WAITING_FOR_LICENSE: it was begun, and waits for a license
 * @LATCHKEY_AGENT_STATE_ENDED: it played to its end
 * @LATCHKEY_AGENT_STATE_FAILED: playback failed
 * @LATCHKEY_AGENT_STATE_ABORTED: playback was ended because the right to it was gone
 *
 * Where an agent stands between its content and its playback.
 */
typedef enum {
  LATCHKEY_AGENT_STATE_INITIALIZED = 0,
  LATCHKEY_AGENT_STATE_INSPECTING = 1,
  LATCHKEY_AGENT_STATE_NEEDS_LICENSE = 2,
  LATCHKEY_AGENT_STATE_ACQUIRING = 3,
  LATCHKEY_AGENT_STATE_READY = 4,
  LATCHKEY_AGENT_STATE_PLAYING = 5,
  LATCHKEY_AGENT_STATE_PAUSED = 6,
  LATCHKEY_AGENT_STATE_WAITING_FOR_LICENSE = 7,
  LATCHKEY_AGENT_STATE_ENDED = 8,
  LATCHKEY_AGENT_STATE_FAILED = 9,
  LATCHKEY_AGENT_STATE_ABORTED = 10
} LatchkeyAgentState;

/**
 * LatchkeyAgentEventType:
 * @LATCHKEY_AGENT_EVENT_UNKNOWN: of a later version
 * @LATCHKEY_AGENT_EVENT_RIGHTS_NOT_AVAILABLE: nothing more can be decrypted until a license is installed; what was
 *   decrypted plays on, and then playback waits. Acquire one. Has rights and KIDs. Once, and not again before a license
 *   was acquired.
 * @LATCHKEY_AGENT_EVENT_UNTRUSTED_SYSTEM_TIME: the system clock was set back, or cannot be trusted, so that licenses with
 *   dates are of no use. Has a reason. Once, and not again before something was decrypted.
 * @LATCHKEY_AGENT_EVENT_INVALID_CONTENT: what came is not what was asked for, as when a captive portal answers with a web
 *   page. Has a URL and a reason. Once, and not again before a piece of content could be read.
 * @LATCHKEY_AGENT_EVENT_SERVER_ERROR: the content's server answered with an error status. Has a URL and an HTTP status.
 * @LATCHKEY_AGENT_EVENT_PLAYBACK_SHOULD_BE_ABORTED: something failed from which playback may not recover: stop. Has a
 *   reason.
 * @LATCHKEY_AGENT_EVENT_PLAYBACK_WILL_BE_ABORTED: playback is being ended. Has a reason.
 * @LATCHKEY_AGENT_EVENT_SESSION_SETUP_ERROR: the session server refused a session; playback ends. Has an HTTP status, a
 *   reason, and the server's code, message and conflicts.
 * @LATCHKEY_AGENT_EVENT_SESSION_HEARTBEAT_ERROR: a heartbeat failed; if it is final, playback ends. Has the same.
 * @LATCHKEY_AGENT_EVENT_SESSION_TEARDOWN_ERROR: the session could not be ended; the next start tries again. Has the same.
 * @LATCHKEY_AGENT_EVENT_OUTPUT_STATUS: what the outputs may show has changed. Has an output status and a reason.
 * @LATCHKEY_AGENT_EVENT_STATE_CHANGED: the agent's own state has changed. Has a state.
 * @LATCHKEY_AGENT_EVENT_CACHE_EDGE_REACHED: playback has come to the end of what is cached, and the rest cannot be had
 *   without the network: it stops. Has a reason.
 * @LATCHKEY_AGENT_EVENT_LOG_MESSAGE: a line of the log that is not below the agent's threshold. Has a level, and the line
 *   as its reason.
 *
 * What happens while protected content plays. If nothing else is said, each time.
 */
typedef enum {
  LATCHKEY_AGENT_EVENT_UNKNOWN = 0,
  LATCHKEY_AGENT_EVENT_RIGHTS_NOT_AVAILABLE = 1,
  LATCHKEY_AGENT_EVENT_UNTRUSTED_SYSTEM_TIME = 2,
  LATCHKEY_AGENT_EVENT_INVALID_CONTENT = 3,
  LATCHKEY_AGENT_EVENT_SERVER_ERROR = 4,
  LATCHKEY_AGENT_EVENT_PLAYBACK_SHOULD_BE_ABORTED = 5,
  LATCHKEY_AGENT_EVENT_PLAYBACK_WILL_BE_ABORTED = 6,
  LATCHKEY_AGENT_EVENT_SESSION_SETUP_ERROR = 7,
  LATCHKEY_AGENT_EVENT_SESSION_HEARTBEAT_ERROR = 8,
  LATCHKEY_AGENT_EVENT_SESSION_TEARDOWN_ERROR = 9,
  LATCHKEY_AGENT_EVENT_OUTPUT_STATUS = 10,
  LATCHKEY_AGENT_EVENT_STATE_CHANGED = 11,
  LATCHKEY_AGENT_EVENT_LOG_MESSAGE = 12,
  LATCHKEY_AGENT_EVENT_CACHE_EDGE_REACHED = 13
} LatchkeyAgentEventType;

/**
 * LatchkeyLogLevel:
 * @LATCHKEY_LOG_DEFAULT: %LATCHKEY_LOG_INFO, as a threshold
 * @LATCHKEY_LOG_DEBUG: every request and what came of it
 * @LATCHKEY_LOG_INFO: what a person wants to know
 * @LATCHKEY_LOG_WARNING: what may go wrong
 * @LATCHKEY_LOG_ERROR: what went wrong
 *
 * How much a line of the log matters.
 */
typedef enum {
  LATCHKEY_LOG_DEFAULT = 0,
  LATCHKEY_LOG_DEBUG = 1,
  LATCHKEY_LOG_INFO = 2,
  LATCHKEY_LOG_WARNING = 3,
  LATCHKEY_LOG_ERROR = 4
} LatchkeyLogLevel;

/**
 * LatchkeyOutputStatus:
 * @video: 1 if pictures are shown
 * @audio: 1 if sound is heard
 * @max_pixels: the most pixels of a picture; 0 for no limit
 *
 * What the outputs may show.
 */
typedef struct {
  int video;
  int audio;
  uint64_t max_pixels;
} LatchkeyOutputStatus;

/**
 * LatchkeyAgentError:
 *
 * Why an agent could not do what it was asked. Counted by references.
 */
typedef struct _LatchkeyAgentError LatchkeyAgentError;

/**
 * LatchkeyAgentEvent:
 *
 * Something that happened. Counted by references.
 */
typedef struct _LatchkeyAgentEvent LatchkeyAgentEvent;

/**
 * latchkey_agent_state_get_name:
 * @state: a state
 *
 * Returns: (transfer none): a word for logs, as `waitingForLicense`; `unknown` for other numbers. Never freed.
 */
const char *latchkey_agent_state_get_name (LatchkeyAgentState state);

/**
 * latchkey_agent_event_type_get_name:
 * @type: a type
 *
 * Returns: (transfer none): words for logs, as `rights not available`; `unknown` for other numbers. Never freed.
 */
const char *latchkey_agent_event_type_get_name (LatchkeyAgentEventType type);

/**
 * latchkey_agent_error_ref:
 * @error: (nullable): an error
 *
 * Returns: (transfer full): @error, with one more reference
 */
LatchkeyAgentError *latchkey_agent_error_ref (LatchkeyAgentError *error);

/**
 * latchkey_agent_error_unref:
 * @error: (nullable) (transfer full): an error
 *
 * Gives a reference back.
 */
void latchkey_agent_error_unref (LatchkeyAgentError *error);

/**
 * latchkey_agent_error_get_code:
 * @error: (nullable): an error
 *
 * Returns: the kind, for programs; %LATCHKEY_AGENT_ERROR_NONE for %NULL
 */
LatchkeyAgentErrorCode latchkey_agent_error_get_code (LatchkeyAgentError *error);

/**
 * latchkey_agent_error_get_message:
 * @error: an error
 *
 * Returns: (nullable) (transfer none): for people: what is wrong with what, and what to do. URLs in it have no query.
 */
const char *latchkey_agent_error_get_message (LatchkeyAgentError *error);

/**
 * latchkey_agent_error_get_http_status:
 * @error: an error
 *
 * Returns: the status of the content's server, for %LATCHKEY_AGENT_ERROR_SERVER_ERROR, or that by which a license service
 * refuses, for %LATCHKEY_AGENT_ERROR_LICENSE_NOT_ACQUIRED; else 0
 */
int latchkey_agent_error_get_http_status (LatchkeyAgentError *error);

/**
 * latchkey_agent_error_get_key_error:
 * @error: an error
 *
 * Returns: why there is no license, for %LATCHKEY_AGENT_ERROR_LICENSE_NOT_ACQUIRED; else %LATCHKEY_ERROR_NONE
 */
LatchkeyErrorCode latchkey_agent_error_get_key_error (LatchkeyAgentError *error);

/**
 * latchkey_agent_error_is_temporary:
 * @error: an error
 *
 * Returns: 1 if the same call may succeed later without further action, else 0
 */
int latchkey_agent_error_is_temporary (LatchkeyAgentError *error);

/**
 * latchkey_agent_event_ref:
 * @event: (nullable): an event
 *
 * Returns: (transfer full): @event, with one more reference
 */
LatchkeyAgentEvent *latchkey_agent_event_ref (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_unref:
 * @event: (nullable) (transfer full): an event
 *
 * Gives a reference back.
 */
void latchkey_agent_event_unref (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_type:
 * @event: an event
 *
 * Returns: what happened
 */
LatchkeyAgentEventType latchkey_agent_event_get_type (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_reason:
 * @event: an event
 *
 * Returns: (nullable) (transfer none): in words, for people; holds no secret
 */
const char *latchkey_agent_event_get_reason (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_url:
 * @event: an event
 *
 * Returns: (nullable) (transfer none): what was fetched, without its query
 */
const char *latchkey_agent_event_get_url (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_http_status:
 * @event: an event
 *
 * Returns: the status of the content's server or of the session server; 0 if there was no answer
 */
int latchkey_agent_event_get_http_status (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_rights:
 * @event: an event
 *
 * Returns: (nullable) (transfer none): how the rights stand. Belongs to @event; latchkey_rights_ref() keeps it longer.
 */
LatchkeyRights *latchkey_agent_event_get_rights (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_key_id:
 * @event: an event
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): the 16 bytes of a KID that has no rights; %NULL behind the last
 */
const uint8_t *latchkey_agent_event_get_key_id (LatchkeyAgentEvent *event, size_t index);

/**
 * latchkey_agent_event_get_server_code:
 * @event: an event
 *
 * Returns: (nullable) (transfer none): the session server's own number or word; empty for none
 */
const char *latchkey_agent_event_get_server_code (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_server_message:
 * @event: an event
 *
 * Returns: (nullable) (transfer none): in the session server's words
 */
const char *latchkey_agent_event_get_server_message (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_conflict:
 * @event: an event
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): a session that is in the way; %NULL behind the last
 */
const char *latchkey_agent_event_get_conflict (LatchkeyAgentEvent *event, size_t index);

/**
 * latchkey_agent_event_is_final:
 * @event: an event
 *
 * Returns: 1 if a heartbeat error ends playback, else 0
 */
int latchkey_agent_event_is_final (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_output_status:
 * @event: an event
 * @status: (out): filled in
 *
 * Returns: 1, or 0 if the event has none: @status is zero then
 */
int latchkey_agent_event_get_output_status (LatchkeyAgentEvent *event, LatchkeyOutputStatus *status);

/**
 * latchkey_agent_event_get_state:
 * @event: an event
 *
 * Returns: the new state of the agent
 */
LatchkeyAgentState latchkey_agent_event_get_state (LatchkeyAgentEvent *event);

/**
 * latchkey_agent_event_get_log_level:
 * @event: an event
 *
 * Returns: how much the line matters; %LATCHKEY_LOG_DEFAULT if the event is none
 */
LatchkeyLogLevel latchkey_agent_event_get_log_level (LatchkeyAgentEvent *event);

#ifdef __cplusplus
}
#endif

#endif /* LATCHKEY_AGENT_EVENT_H */

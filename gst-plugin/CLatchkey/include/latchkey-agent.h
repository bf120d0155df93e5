/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey-agent
 * @title: The agent
 * @short_description: one piece of protected content, from the look at its rights to the end of its playback
 *
 * An agent looks at a piece of content, manages its rights, makes the player for it, and reports events. It is the
 * `Agent` of the Swift interface; docs/agent.md says what it does, docs/embedding.md how C and Python use it.
 *
 * **Threads.** Every function may be called from any thread, also from inside a callback, and none waits, but for
 * latchkey_agent_set_hdmi_alternative_image(), which decodes, and latchkey_agent_set_hdmi_mode(), which empties the sinks
 * of what is not allowed any more: never call that on a thread that brings frames to a sink. Callbacks come on threads
 * of Latchkey; no main loop is needed. They must return at once: hand work that takes time to a thread or a main loop of
 * yours, as by g_idle_add().
 *
 * **Calls that take time** return a number. Their callback is called exactly once, maybe before the function that began
 * them has returned, and after it `destroy` with the same `user_data`. latchkey_call_cancel() ends one early, and so does
 * the last latchkey_agent_unref(): the callback gets %LATCHKEY_AGENT_ERROR_CANCELLED, unless the call had ended already.
 * If a function returns 0, its arguments cannot be used, and neither callback nor `destroy` is called.
 *
 * **What callbacks get** is lent for the time of the call; its `_ref` function keeps it.
 *
 * Strings are UTF-8 and end with a zero byte; those that are handed in are copied. %NULL for an agent or a request does
 * nothing and returns 0.
 */

#ifndef LATCHKEY_AGENT_H
#define LATCHKEY_AGENT_H

#include <gst/gst.h>
#include <stddef.h>
#include <stdint.h>

#include "latchkey-agent-event.h"
#include "latchkey-content-info.h"
#include "latchkey-loader.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * LatchkeyAgent:
 *
 * Plays one piece of protected content. Counted by references. Keep it for as long as the playback goes on: when the last
 * reference goes, its keys are closed, and a playback that is under way ends with an error that says so.
 */
typedef struct _LatchkeyAgent LatchkeyAgent;

/**
 * LatchkeyServiceRequest:
 *
 * A challenge on its way to a license or domain service, for an application's delegate. Counted by references.
 */
typedef struct _LatchkeyServiceRequest LatchkeyServiceRequest;

/**
 * LatchkeyAcquisition:
 * @LATCHKEY_ACQUISITION_MANUAL: the application, by latchkey_agent_acquire_license(): nothing is asked of a license
 *   service otherwise. Samples without rights wait, and the application is notified.
 * @LATCHKEY_ACQUISITION_AUTOMATIC: the elements, as soon as a key is needed
 *
 * Who acquires licenses.
 */
typedef enum {
  LATCHKEY_ACQUISITION_MANUAL = 0,
  LATCHKEY_ACQUISITION_AUTOMATIC = 1
} LatchkeyAcquisition;

/**
 * LatchkeyHdmiMode:
 * @LATCHKEY_HDMI_DEFAULT: the license decides
 * @LATCHKEY_HDMI_DISABLE: none may be there: playback ends, even if the license would allow it
 * @LATCHKEY_HDMI_ALLOW: they are allowed, even if the license does not allow them
 * @LATCHKEY_HDMI_AUDIO_ONLY: sound only
 * @LATCHKEY_HDMI_ALTERNATIVE: another picture instead of the video: see
 *   latchkey_agent_set_hdmi_alternative_image()
 *
 * What is made of external digital outputs while protected content plays.
 */
typedef enum {
  LATCHKEY_HDMI_DEFAULT = 0,
  LATCHKEY_HDMI_DISABLE = 1,
  LATCHKEY_HDMI_ALLOW = 2,
  LATCHKEY_HDMI_AUDIO_ONLY = 3,
  LATCHKEY_HDMI_ALTERNATIVE = 4
} LatchkeyHdmiMode;

/**
 * LatchkeyServiceOperation:
 * @LATCHKEY_SERVICE_ACQUIRE_LICENSE: a license is asked for
 * @LATCHKEY_SERVICE_JOIN_DOMAIN: the device wants to join a domain, which a service asked for
 *
 * What a service is asked to do.
 */
typedef enum {
  LATCHKEY_SERVICE_ACQUIRE_LICENSE = 0,
  LATCHKEY_SERVICE_JOIN_DOMAIN = 1
} LatchkeyServiceOperation;

/**
 * LatchkeyAgentOptions:
 * @size: `sizeof (LatchkeyAgentOptions)`; the table may grow, and the size says what the application knows
 * @acquisition: how licenses are acquired
 * @log_threshold: lines of the log below this are no events
 * @hold_timeout: how long samples wait for a license, with %LATCHKEY_ACQUISITION_MANUAL, before playback ends; in
 *   milliseconds; 0 for two minutes
 * @video_sink: (nullable): the players' sink in the words of gst-launch; %NULL for `autovideosink`
 * @audio_sink: (nullable): the same for sound; %NULL for `autoaudiosink`
 * @outputs: (nullable): the source of the data on the outputs, as latchkeyguard's property `outputs` takes it; %NULL
 *   for `kms`
 * @configuration_file: (nullable): where keys and licenses come from; %NULL for what elements go by: LATCHKEY_CONFIG, or
 *   latchkey/latchkey.conf in the user's configuration folder. A file that cannot be used is an error of
 *   latchkey_agent_get_content_info() and of what else needs it.
 *
 * What an agent is made with. All zero but @size is the default of each.
 */
typedef struct {
  size_t size;
  LatchkeyAcquisition acquisition;
  LatchkeyLogLevel log_threshold;
  uint64_t hold_timeout;
  const char *video_sink;
  const char *audio_sink;
  const char *outputs;
  const char *configuration_file;
} LatchkeyAgentOptions;

/**
 * LatchkeyDelegateFunctions:
 * @size: `sizeof (LatchkeyDelegateFunctions)`; the table may grow, and the size says what the application knows
 * @perform_license_acquisition: (nullable): sends a challenge for a license, or has it sent; %NULL has it sent
 * @perform_join_domain: (nullable): the same for a challenge to join a domain
 * @cancel: (nullable): the answer is not wanted any more. Called once at most for a request, never after it was finished:
 *   on the thread that cancels, inside latchkey_call_cancel() or the last latchkey_agent_unref(), or, if the function
 *   that performs has not returned yet, right behind it on the same thread.
 *
 * Sends the challenges of PlayReady-style licenses in the place of Latchkey: with fields or cookies of its own, to another
 * address, or through a portal that knows the user. Answer each request once, in the function or later, from any thread:
 * with latchkey_service_request_send(), latchkey_service_request_finish_with_response() or
 * latchkey_service_request_finish_with_error(). A request that is lent, not kept and not answered has failed.
 */
typedef struct {
  size_t size;
  void (*perform_license_acquisition) (LatchkeyServiceRequest *request, void *user_data);
  void (*perform_join_domain) (LatchkeyServiceRequest *request, void *user_data);
  void (*cancel) (LatchkeyServiceRequest *request, void *user_data);
} LatchkeyDelegateFunctions;

/**
 * LatchkeyContentInfoCallback:
 * @info: (nullable): what the content is; %NULL if it could not be found out
 * @error: (nullable): why not
 * @user_data: what the function got
 */
typedef void (*LatchkeyContentInfoCallback) (LatchkeyContentInfo *info, LatchkeyAgentError *error, void *user_data);

/**
 * LatchkeyLicenseCallback:
 * @rights: (nullable): how the rights stand now: a license may be one for the future. %NULL if none was acquired.
 * @error: (nullable): why not
 * @user_data: what the function got
 */
typedef void (*LatchkeyLicenseCallback) (LatchkeyRights *rights, LatchkeyAgentError *error, void *user_data);

/**
 * LatchkeyResetCallback:
 * @count: how many records there were
 * @error: (nullable): why they could not be removed
 * @user_data: what the function got
 */
typedef void (*LatchkeyResetCallback) (size_t count, LatchkeyAgentError *error, void *user_data);

/**
 * LatchkeyAgentListener:
 * @event: what happened
 * @user_data: what latchkey_agent_add_listener() got
 */
typedef void (*LatchkeyAgentListener) (LatchkeyAgentEvent *event, void *user_data);

/**
 * latchkey_agent_new:
 * @content_url: an absolute `http`, `https` or, for files, `file` URL
 * @type: what it points to
 * @options: (nullable): %NULL for the defaults
 *
 * A URL that cannot be used is an error of latchkey_agent_get_content_info(). Loaders of latchkey_loader_register() are
 * asked for keys before those of the configuration.
 *
 * Returns: (transfer full) (nullable): an agent; %NULL if @content_url is %NULL, @type is no type, the size of
 *   @options is too small, or a number in it is none of its type's
 */
LatchkeyAgent *latchkey_agent_new (const char *content_url, LatchkeyContentType type,
                                   const LatchkeyAgentOptions *options);

/**
 * latchkey_agent_ref:
 * @agent: (nullable): an agent
 *
 * Returns: (transfer full): @agent, with one more reference
 */
LatchkeyAgent *latchkey_agent_ref (LatchkeyAgent *agent);

/**
 * latchkey_agent_unref:
 * @agent: (nullable) (transfer full): an agent
 *
 * Gives a reference back. With the last one the keys are closed, calls that are under way are cancelled, and listeners
 * get no more events. latchkey_agent_close() before it lets them hear how the viewing session ends.
 */
void latchkey_agent_unref (LatchkeyAgent *agent);

/**
 * latchkey_agent_close:
 * @agent: (nullable): an agent
 *
 * Ends the agent before its last reference goes: its keys are closed, a playback that is under way ends with an error,
 * and calls that are under way or begin later are cancelled. Listeners end when the viewing session was ended, or could
 * not be, which is an event: after two seconds at most. Their `destroy` comes then. Keep a reference until then. Again
 * does nothing.
 */
void latchkey_agent_close (LatchkeyAgent *agent);

/**
 * latchkey_agent_get_content_info:
 * @agent: an agent
 * @callback: (nullable): called with what was found out
 * @user_data: (nullable): goes with the callback
 * @destroy: (nullable): called with @user_data behind the callback
 *
 * Looks at the content, and at the rights that are installed for it. An untrusted clock is repaired if a time service
 * is configured. Checks that the content is what its type says.
 *
 * Returns: a number for latchkey_call_cancel(), never 0 for an agent. Errors are %LATCHKEY_AGENT_ERROR_INVALID_URL,
 *   %LATCHKEY_AGENT_ERROR_UNREACHABLE, %LATCHKEY_AGENT_ERROR_SERVER_ERROR, %LATCHKEY_AGENT_ERROR_INVALID_CONTENT,
 *   %LATCHKEY_AGENT_ERROR_UNSUPPORTED_CONTENT, %LATCHKEY_AGENT_ERROR_CONFIGURATION and
 *   %LATCHKEY_AGENT_ERROR_CANCELLED.
 */
uint64_t latchkey_agent_get_content_info (LatchkeyAgent *agent, LatchkeyContentInfoCallback callback, void *user_data,
                                          void (*destroy) (void *user_data));

/**
 * latchkey_agent_acquire_license:
 * @agent: an agent
 * @delegate: (nullable): sends the challenges; copied. Its functions get @user_data. %NULL: Latchkey sends them.
 * @callback: (nullable): called with the rights
 * @user_data: (nullable): goes with the callback and with @delegate
 * @destroy: (nullable): called with @user_data behind the callback
 *
 * Acquires the licenses for the content and installs them. Whatever waits for one goes on.
 *
 * Returns: a number for latchkey_call_cancel(), or 0 if the size of @delegate is too small. Errors are
 *   %LATCHKEY_AGENT_ERROR_LICENSE_NOT_ACQUIRED, %LATCHKEY_AGENT_ERROR_NOT_PROTECTED and those of
 *   latchkey_agent_get_content_info(). A delegate for keys that are not those of PlayReady-style licenses is
 *   %LATCHKEY_AGENT_ERROR_LICENSE_NOT_ACQUIRED with %LATCHKEY_ERROR_INVALID_CONFIGURATION.
 */
uint64_t latchkey_agent_acquire_license (LatchkeyAgent *agent, const LatchkeyDelegateFunctions *delegate,
                                         LatchkeyLicenseCallback callback, void *user_data,
                                         void (*destroy) (void *user_data));

/**
 * latchkey_reset_licenses:
 * @configuration_file: (nullable): the configuration that names the license store; %NULL as in #LatchkeyAgentOptions
 * @callback: (nullable): called with the number of records
 * @user_data: (nullable): goes with the callback
 * @destroy: (nullable): called with @user_data behind the callback
 *
 * Removes every license and domain from the license store, and every stored key of FairPlay-style key servers, whatever
 * acquired them. Without PlayReady-style licenses in the configuration, the store is the user's own.
 *
 * Returns: a number for latchkey_call_cancel(), never 0. The error is %LATCHKEY_AGENT_ERROR_CONFIGURATION if the store or
 *   the folder of stored keys cannot be used.
 */
uint64_t latchkey_reset_licenses (const char *configuration_file, LatchkeyResetCallback callback, void *user_data,
                                  void (*destroy) (void *user_data));

/**
 * latchkey_call_cancel:
 * @call: what the function that began it returned
 *
 * Ends a call early. Its callback is still called, soon.
 *
 * Returns: 1, or 0 if there is no such call any more
 */
int latchkey_call_cancel (uint64_t call);

/**
 * latchkey_agent_set_custom_challenge_data:
 * @agent: an agent
 * @data: (nullable): XML, say; %NULL: nothing
 *
 * Goes into the signed part of PlayReady-style license challenges from now on, for the service to read. Only services that
 * the settings name get it: license-url, domain-url and custom-data-origins.
 */
void latchkey_agent_set_custom_challenge_data (LatchkeyAgent *agent, const char *data);

/**
 * latchkey_agent_set_hdmi_mode:
 * @agent: an agent
 * @mode: a mode; other numbers count as %LATCHKEY_HDMI_DEFAULT
 *
 * Counts for players that are made, and for pipelines that are attached, later.
 */
void latchkey_agent_set_hdmi_mode (LatchkeyAgent *agent, LatchkeyHdmiMode mode);

/**
 * latchkey_agent_set_hdmi_alternative_image:
 * @agent: an agent
 * @image: (nullable) (array length=size): the bytes of a PNG or JPEG file, or of what else GStreamer decodes; %NULL, as at
 *   the start: a white picture. Copied.
 * @size: how many
 * @error: (out) (nullable) (transfer full): %LATCHKEY_AGENT_ERROR_CONFIGURATION if the image cannot be decoded,
 *   %LATCHKEY_AGENT_ERROR_INVALID_ARGUMENT without an agent; the image before stays then. latchkey_agent_error_unref()
 *   frees it.
 *
 * Sets what takes the place of the video with %LATCHKEY_HDMI_ALTERNATIVE. It keeps its proportions, with black around it.
 * Counts from the next frame on, for what plays and for what is made later. This function decodes the image before it
 * returns.
 *
 * Returns: 1, or 0 with @error
 */
int latchkey_agent_set_hdmi_alternative_image (LatchkeyAgent *agent, const void *image, size_t size,
                                               LatchkeyAgentError **error);

/**
 * latchkey_agent_set_audio_track:
 * @agent: an agent
 * @name: (nullable): a name of latchkey_content_info_get_audio_track_name(); %NULL: the default
 *
 * Chooses the audio track that plays, also while it plays. A name that the content does not have is in the log.
 *
 * Of a file, the names have to be known as it starts to play: latchkey_agent_get_content_info() brings them. Without that, the
 * default track plays until the file was looked into. The player has to be `playbin3`, or another one around `decodebin3`.
 */
void latchkey_agent_set_audio_track (LatchkeyAgent *agent, const char *name);

/**
 * latchkey_agent_get_state:
 * @agent: an agent
 *
 * Returns: where it stands now
 */
LatchkeyAgentState latchkey_agent_get_state (LatchkeyAgent *agent);

/**
 * latchkey_agent_make_player:
 * @agent: an agent
 * @error: (out) (nullable) (transfer full): why there is none: %LATCHKEY_AGENT_ERROR_CONFIGURATION if an element is
 *   missing, a sink cannot be made or the configuration cannot be used. latchkey_agent_error_unref() frees it.
 *
 * Makes a player for the content: `playbin3` with the agent's session, its loaders, and output guards in front of the
 * sinks. It is a pipeline as any other: play it with gst_element_set_state(), read its bus, and set it to
 * %GST_STATE_NULL before the last reference goes. It may play again and again, but not if it ended before its first
 * picture, as when a session was refused: `playbin3` before GStreamer 1.26 may abort the process when it starts again
 * then. Make another player instead. It does not keep the agent.
 *
 * Returns: (transfer full) (nullable): an element without a floating reference, for gst_object_unref(); %NULL with @error
 */
GstElement *latchkey_agent_make_player (LatchkeyAgent *agent, LatchkeyAgentError **error);

/**
 * latchkey_agent_attach:
 * @agent: an agent
 * @pipeline: (transfer none): a pipeline of the application's own
 * @error: (out) (nullable) (transfer full): as in latchkey_agent_make_player(), and
 *   %LATCHKEY_AGENT_ERROR_INVALID_ARGUMENT if @pipeline is %NULL
 *
 * Makes @pipeline use this agent's session and loaders, and watches it. Call it before the pipeline leaves READY. Guards
 * (`latchkeyguard`) that are in it get the HDMI mode; it is the application that puts them in front of the sinks. The
 * pipeline is not kept.
 *
 * Returns: 1, or 0 with @error
 */
int latchkey_agent_attach (LatchkeyAgent *agent, GstElement *pipeline, LatchkeyAgentError **error);

/**
 * latchkey_agent_add_listener:
 * @agent: an agent
 * @listener: called with each event from now on
 * @user_data: (nullable): goes with every call
 * @destroy: (nullable): called once with @user_data, on a thread of Latchkey, when @listener is not called any more
 *
 * Listens to what happens. A listener gets one event at a time, in their order; one that falls behind by a thousand
 * loses the oldest.
 *
 * Returns: a number for latchkey_agent_remove_listener(), or 0 if @listener is %NULL
 */
uint64_t latchkey_agent_add_listener (LatchkeyAgent *agent, LatchkeyAgentListener listener, void *user_data,
                                      void (*destroy) (void *user_data));

/**
 * latchkey_agent_remove_listener:
 * @agent: an agent
 * @listener: what latchkey_agent_add_listener() returned
 *
 * Ends a listener. A call that is under way on another thread goes on; `destroy` comes behind it.
 *
 * Returns: 1, or 0 if there is no such listener
 */
int latchkey_agent_remove_listener (LatchkeyAgent *agent, uint64_t listener);

/**
 * latchkey_service_request_ref:
 * @request: (nullable): a request
 *
 * Returns: (transfer full): @request, with one more reference
 */
LatchkeyServiceRequest *latchkey_service_request_ref (LatchkeyServiceRequest *request);

/**
 * latchkey_service_request_unref:
 * @request: (nullable) (transfer full): a request
 *
 * Gives a reference back. When the last one goes and the request is not answered, the acquisition has failed.
 */
void latchkey_service_request_unref (LatchkeyServiceRequest *request);

/**
 * latchkey_service_request_get_operation:
 * @request: a request
 *
 * Returns: what the service is asked to do
 */
LatchkeyServiceOperation latchkey_service_request_get_operation (LatchkeyServiceRequest *request);

/**
 * latchkey_service_request_get_url:
 * @request: a request
 *
 * Returns: (nullable) (transfer none): where Latchkey would send it. Valid as long as @request;
 *   latchkey_service_request_set_url() does not change it.
 */
const char *latchkey_service_request_get_url (LatchkeyServiceRequest *request);

/**
 * latchkey_service_request_get_challenge:
 * @request: a request
 * @size: (out) (nullable): the number of bytes
 *
 * Returns: (nullable) (transfer none): the body for the service: SOAP in UTF-8, signed. Valid as long as @request.
 */
const uint8_t *latchkey_service_request_get_challenge (LatchkeyServiceRequest *request, size_t *size);

/**
 * latchkey_service_request_get_soap_action:
 * @request: a request
 *
 * Returns: (nullable) (transfer none): the header field `SOAPAction`, for an application that sends it by itself, by POST
 *   with the Content-Type `text/xml; charset=utf-8`. Valid as long as @request.
 */
const char *latchkey_service_request_get_soap_action (LatchkeyServiceRequest *request);

/**
 * latchkey_service_request_set_url:
 * @request: a request
 * @url: an absolute `http` or `https` URL
 *
 * Where latchkey_service_request_send() sends it.
 */
void latchkey_service_request_set_url (LatchkeyServiceRequest *request, const char *url);

/**
 * latchkey_service_request_add_header:
 * @request: a request
 * @name: the name of a header field
 * @value: its value
 *
 * Goes with latchkey_service_request_send(), beside what Latchkey sends.
 */
void latchkey_service_request_add_header (LatchkeyServiceRequest *request, const char *name, const char *value);

/**
 * latchkey_service_request_send:
 * @request: a request
 *
 * Has Latchkey send it as it is now, and take the answer.
 *
 * Returns: 1, or 0 if the request was answered before or is not wanted any more
 */
int latchkey_service_request_send (LatchkeyServiceRequest *request);

/**
 * latchkey_service_request_finish_with_response:
 * @request: a request
 * @response: the body of the service's answer, a fault included; copied
 * @size: the number of bytes
 *
 * The application has sent it by itself.
 *
 * Returns: 1, or 0 if the request was answered before or is not wanted any more
 */
int latchkey_service_request_finish_with_response (LatchkeyServiceRequest *request, const uint8_t *response,
                                                   size_t size);

/**
 * latchkey_service_request_finish_with_error:
 * @request: a request
 * @code: why there is no answer
 * @message: (nullable): for people, without a secret
 *
 * The acquisition has failed.
 *
 * Returns: 1, or 0 if the request was answered before or is not wanted any more
 */
int latchkey_service_request_finish_with_error (LatchkeyServiceRequest *request, LatchkeyErrorCode code,
                                                const char *message);

#ifdef __cplusplus
}
#endif

#endif /* LATCHKEY_AGENT_H */

/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey-content-info
 * @title: Content information
 * @short_description: what some content is, how it is protected, and what rights are installed for it
 *
 * What latchkey_agent_get_content_info() of latchkey-agent.h finds out. docs/embedding.md says how the parts go together.
 *
 * Nothing in this file needs GLib or GStreamer. Everything here is a value: it does not change, and may be read from any
 * thread. Strings are UTF-8 and end with a zero byte; they, and what an object has inside, are valid as long as the
 * object. KIDs are 16 bytes in the byte order of a UUID. %NULL for an object gives 0 or %NULL; so does an index behind the
 * last.
 */

#ifndef LATCHKEY_CONTENT_INFO_H
#define LATCHKEY_CONTENT_INFO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * LatchkeyContentType:
 * @LATCHKEY_CONTENT_UNKNOWN: none of these
 * @LATCHKEY_CONTENT_HLS: a playlist of HTTP Live Streaming (RFC 8216), master or media
 * @LATCHKEY_CONTENT_SMOOTH_STREAMING: a client manifest of Smooth Streaming ([MS-SSTR])
 * @LATCHKEY_CONTENT_PIFF: a PIFF file, local or at a web server
 * @LATCHKEY_CONTENT_DASH: a manifest of DASH (ISO/IEC 23009-1)
 * @LATCHKEY_CONTENT_MP4: an MP4 file, local or at a web server
 *
 * What a content URL is expected to point to.
 */
typedef enum {
  LATCHKEY_CONTENT_UNKNOWN = 0,
  LATCHKEY_CONTENT_HLS = 1,
  LATCHKEY_CONTENT_SMOOTH_STREAMING = 2,
  LATCHKEY_CONTENT_PIFF = 3,
  LATCHKEY_CONTENT_DASH = 4,
  LATCHKEY_CONTENT_MP4 = 5
} LatchkeyContentType;

/**
 * LatchkeyRightsStatus:
 * @LATCHKEY_RIGHTS_NONE: there are none; acquire a license
 * @LATCHKEY_RIGHTS_VALID: they may be used
 * @LATCHKEY_RIGHTS_FUTURE: they cannot be used yet
 * @LATCHKEY_RIGHTS_EXPIRED: they cannot be used any more; acquire a license
 * @LATCHKEY_RIGHTS_UNTRUSTED_TIME: they depend on dates, and the clock cannot be trusted; correct the clock
 *
 * Whether the rights for some content may be used now.
 */
typedef enum {
  LATCHKEY_RIGHTS_NONE = 0,
  LATCHKEY_RIGHTS_VALID = 1,
  LATCHKEY_RIGHTS_FUTURE = 2,
  LATCHKEY_RIGHTS_EXPIRED = 3,
  LATCHKEY_RIGHTS_UNTRUSTED_TIME = 4
} LatchkeyRightsStatus;

/**
 * LatchkeyTrackKind:
 * @LATCHKEY_TRACK_OTHER: anything else
 * @LATCHKEY_TRACK_VIDEO: pictures, with their sound if that comes in the same stream
 * @LATCHKEY_TRACK_AUDIO: sound alone
 * @LATCHKEY_TRACK_TEXT: subtitles and captions
 *
 * What a track has for the user.
 */
typedef enum {
  LATCHKEY_TRACK_OTHER = 0,
  LATCHKEY_TRACK_VIDEO = 1,
  LATCHKEY_TRACK_AUDIO = 2,
  LATCHKEY_TRACK_TEXT = 3
} LatchkeyTrackKind;

/**
 * LatchkeyRights:
 *
 * How the installed rights for some content stand. Counted by references.
 */
typedef struct _LatchkeyRights LatchkeyRights;

/**
 * LatchkeyContentInfo:
 *
 * What is known of some content before it plays. Counted by references.
 */
typedef struct _LatchkeyContentInfo LatchkeyContentInfo;

/**
 * LatchkeyTrack:
 *
 * A track of some content, or one of several qualities of it. Belongs to its #LatchkeyContentInfo.
 */
typedef struct _LatchkeyTrack LatchkeyTrack;

/**
 * LatchkeyKeyPeriod:
 *
 * A time in which one key, or none, is for a track. Belongs to its #LatchkeyContentInfo.
 */
typedef struct _LatchkeyKeyPeriod LatchkeyKeyPeriod;

/**
 * LatchkeyKeyNeed:
 *
 * A key that playback will ask for, and the source that will be asked for it as things are configured now. Belongs to
 * its #LatchkeyContentInfo.
 */
typedef struct _LatchkeyKeyNeed LatchkeyKeyNeed;

/**
 * latchkey_content_type_from_url:
 * @url: (nullable): a URL
 *
 * A guess from the end of the URL's path, for people who type URLs.
 *
 * Returns: the type, or %LATCHKEY_CONTENT_UNKNOWN if the URL says nothing
 */
LatchkeyContentType latchkey_content_type_from_url (const char *url);

/**
 * latchkey_rights_status_get_name:
 * @status: a status
 *
 * Returns: (transfer none): a word for logs, as `untrustedTime`; `unknown` for other numbers. Never freed.
 */
const char *latchkey_rights_status_get_name (LatchkeyRightsStatus status);

/**
 * latchkey_rights_ref:
 * @rights: (nullable): rights
 *
 * Returns: (transfer full): @rights, with one more reference
 */
LatchkeyRights *latchkey_rights_ref (LatchkeyRights *rights);

/**
 * latchkey_rights_unref:
 * @rights: (nullable) (transfer full): rights
 *
 * Gives a reference back.
 */
void latchkey_rights_unref (LatchkeyRights *rights);

/**
 * latchkey_rights_get_status:
 * @rights: rights
 *
 * Returns: whether they may be used now; %LATCHKEY_RIGHTS_NONE for %NULL
 */
LatchkeyRightsStatus latchkey_rights_get_status (LatchkeyRights *rights);

/**
 * latchkey_rights_get_reason:
 * @rights: rights
 *
 * Returns: (nullable) (transfer none): why it is so, in words for people; holds no secret
 */
const char *latchkey_rights_get_reason (LatchkeyRights *rights);

/**
 * latchkey_rights_get_begin:
 * @rights: rights
 * @seconds: (out) (nullable): when they begin, in seconds since 1970-01-01T00:00:00Z
 *
 * Returns: 1, or 0 if there is no limit
 */
int latchkey_rights_get_begin (LatchkeyRights *rights, int64_t *seconds);

/**
 * latchkey_rights_get_end:
 * @rights: rights
 * @seconds: (out) (nullable): when they end, in seconds since 1970-01-01T00:00:00Z
 *
 * Returns: 1, or 0 if there is no limit, and if the end counts from the first use, before that
 */
int latchkey_rights_get_end (LatchkeyRights *rights, int64_t *seconds);

/**
 * latchkey_rights_expire_after_first_use:
 * @rights: rights
 *
 * Returns: 1 if they end some time after their first use, which is still to come; else 0
 */
int latchkey_rights_expire_after_first_use (LatchkeyRights *rights);

/**
 * latchkey_content_info_ref:
 * @info: (nullable): content information
 *
 * Returns: (transfer full): @info, with one more reference
 */
LatchkeyContentInfo *latchkey_content_info_ref (LatchkeyContentInfo *info);

/**
 * latchkey_content_info_unref:
 * @info: (nullable) (transfer full): content information
 *
 * Gives a reference back. What belongs to @info is not valid any more when the last one goes.
 */
void latchkey_content_info_unref (LatchkeyContentInfo *info);

/**
 * latchkey_content_info_is_protected:
 * @info: content information
 *
 * Returns: 1 if something of it is encrypted, else 0
 */
int latchkey_content_info_is_protected (LatchkeyContentInfo *info);

/**
 * latchkey_content_info_get_rights:
 * @info: content information
 *
 * Returns: (nullable) (transfer none): the rights that are installed for it. %LATCHKEY_RIGHTS_VALID for content that is
 *   not protected. Belongs to @info; latchkey_rights_ref() keeps it longer.
 */
LatchkeyRights *latchkey_content_info_get_rights (LatchkeyContentInfo *info);

/**
 * latchkey_content_info_get_key_system:
 * @info: content information
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): `clearkey`, `fairplay` or `playready`: the systems that the content names and that
 *   Latchkey has an exchange for, in the order of the content; %NULL behind the last
 */
const char *latchkey_content_info_get_key_system (LatchkeyContentInfo *info, size_t index);

/**
 * latchkey_content_info_get_key_id_count:
 * @info: content information
 *
 * Returns: how many KIDs the content names; 0 if it names none before it plays, as with `skd://` keys
 */
size_t latchkey_content_info_get_key_id_count (LatchkeyContentInfo *info);

/**
 * latchkey_content_info_get_key_id:
 * @info: content information
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): a KID; %NULL behind the last
 */
const uint8_t *latchkey_content_info_get_key_id (LatchkeyContentInfo *info, size_t index);

/**
 * latchkey_content_info_get_audio_track_name:
 * @info: content information
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): what latchkey_agent_set_audio_track() takes; %NULL behind the last. There is none
 *   if there is no choice to name.
 */
const char *latchkey_content_info_get_audio_track_name (LatchkeyContentInfo *info, size_t index);

/**
 * latchkey_content_info_get_license_url:
 * @info: content information
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): where the content says that licenses are; %NULL behind the last. Not trusted: send
 *   nothing secret there.
 */
const char *latchkey_content_info_get_license_url (LatchkeyContentInfo *info, size_t index);

/**
 * latchkey_content_info_get_track:
 * @info: content information
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): a track, in the order of the content; %NULL behind the last
 */
LatchkeyTrack *latchkey_content_info_get_track (LatchkeyContentInfo *info, size_t index);

/**
 * latchkey_content_info_get_key_need:
 * @info: content information
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): a key that playback will ask for; %NULL behind the last. Keys that the content
 *   itself gives away, as AES-128 of HLS does, are not among them.
 */
LatchkeyKeyNeed *latchkey_content_info_get_key_need (LatchkeyContentInfo *info, size_t index);

/**
 * latchkey_track_get_kind:
 * @track: a track
 *
 * Returns: what it has for the user
 */
LatchkeyTrackKind latchkey_track_get_kind (LatchkeyTrack *track);

/**
 * latchkey_track_get_name:
 * @track: a track
 *
 * Returns: (nullable) (transfer none): what people choose it by; %NULL if the content has no name for it
 */
const char *latchkey_track_get_name (LatchkeyTrack *track);

/**
 * latchkey_track_get_language:
 * @track: a track
 *
 * Returns: (nullable) (transfer none): a tag of BCP 47 or a code of ISO 639-2, as the content spells it, or %NULL
 */
const char *latchkey_track_get_language (LatchkeyTrack *track);

/**
 * latchkey_track_get_codecs:
 * @track: a track
 *
 * Returns: (nullable) (transfer none): the parameter `codecs` of RFC 6381, or four characters, or %NULL
 */
const char *latchkey_track_get_codecs (LatchkeyTrack *track);

/**
 * latchkey_track_get_bit_rate:
 * @track: a track
 *
 * Returns: bits a second, or 0 if that is not known
 */
uint64_t latchkey_track_get_bit_rate (LatchkeyTrack *track);

/**
 * latchkey_track_get_width:
 * @track: a track
 *
 * Returns: pixels, or 0 if that is not known
 */
uint32_t latchkey_track_get_width (LatchkeyTrack *track);

/**
 * latchkey_track_get_height:
 * @track: a track
 *
 * Returns: pixels, or 0 if that is not known
 */
uint32_t latchkey_track_get_height (LatchkeyTrack *track);

/**
 * latchkey_track_get_key_period:
 * @track: a track
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): a key period, in the order of time, clear ones among them; %NULL behind the last.
 *   Tracks that were not looked into, as subtitles, have none.
 */
LatchkeyKeyPeriod *latchkey_track_get_key_period (LatchkeyTrack *track, size_t index);

/**
 * latchkey_key_period_get_start:
 * @period: a key period
 * @seconds: (out) (nullable): from the start of the content, of a live playlist from its first segment
 *
 * Returns: 1, or 0 if that is not known
 */
int latchkey_key_period_get_start (LatchkeyKeyPeriod *period, double *seconds);

/**
 * latchkey_key_period_get_end:
 * @period: a key period
 * @seconds: (out) (nullable): in the same seconds
 *
 * Returns: 1, or 0 if that is not known, or not yet
 */
int latchkey_key_period_get_end (LatchkeyKeyPeriod *period, double *seconds);

/**
 * latchkey_key_period_get_method:
 * @period: a key period
 *
 * Returns: (nullable) (transfer none): the encryption scheme (`cenc`, `cbcs`, …), the METHOD of a playlist, or
 *   `envelope`; %NULL: it is clear
 */
const char *latchkey_key_period_get_method (LatchkeyKeyPeriod *period);

/**
 * latchkey_key_period_get_key_format:
 * @period: a key period
 *
 * Returns: (nullable) (transfer none): the KEYFORMAT of a playlist, or %NULL
 */
const char *latchkey_key_period_get_key_format (LatchkeyKeyPeriod *period);

/**
 * latchkey_key_period_get_key_uri:
 * @period: a key period
 *
 * Returns: (nullable) (transfer none): the URI that names the key, without its query; of a `data:` URI, its media type;
 *   or %NULL
 */
const char *latchkey_key_period_get_key_uri (LatchkeyKeyPeriod *period);

/**
 * latchkey_key_period_get_key_id:
 * @period: a key period
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): a KID that the content names before it plays; %NULL behind the last
 */
const uint8_t *latchkey_key_period_get_key_id (LatchkeyKeyPeriod *period, size_t index);

/**
 * latchkey_key_need_get_key_system:
 * @need: a key need
 *
 * Returns: (nullable) (transfer none): the system that will be asked, as things are configured now. If none is
 *   configured: the one that the content names; %NULL if it names none
 */
const char *latchkey_key_need_get_key_system (LatchkeyKeyNeed *need);

/**
 * latchkey_key_need_get_key_uri:
 * @need: a key need
 *
 * Returns: (nullable) (transfer none): the URI that names the key, without its query, or %NULL
 */
const char *latchkey_key_need_get_key_uri (LatchkeyKeyNeed *need);

/**
 * latchkey_key_need_get_key_id:
 * @need: a key need
 * @index: from 0
 *
 * Returns: (nullable) (transfer none): a KID; %NULL behind the last
 */
const uint8_t *latchkey_key_need_get_key_id (LatchkeyKeyNeed *need, size_t index);

/**
 * latchkey_key_need_get_source:
 * @need: a key need
 *
 * Returns: (nullable) (transfer none): where the key comes from, in words, as `the license store` or a service with its
 *   URL; %NULL: from nowhere, and playback will wait for a key that does not come
 */
const char *latchkey_key_need_get_source (LatchkeyKeyNeed *need);

#ifdef __cplusplus
}
#endif

#endif /* LATCHKEY_CONTENT_INFO_H */

/* SPDX-License-Identifier: MPL-2.0 */

/**
 * SECTION:latchkey-secure-decryptor
 * @title: Secure decryptors
 * @short_description: decryption by a platform's trusted environment, into memory that the CPU may not see
 *
 * A secure decryptor takes the decryption out of Latchkey's hands, for decoders that want memory which the CPU may not
 * see. Latchkey goes on to ask for keys, to keep their terms, and to read what the container says of each sample; the
 * secure decryptor gets the encrypted bytes in ordinary memory and writes the clear ones into the decoder's. It is a
 * table of functions and a pointer of yours. docs/hardware.md says when it is used.
 *
 * Strings are UTF-8 and end with a zero byte. Every function may be called from any thread, also from inside a callback.
 * %NULL for a stream or a sample does nothing and returns 0.
 */

#ifndef LATCHKEY_SECURE_DECRYPTOR_H
#define LATCHKEY_SECURE_DECRYPTOR_H

#include <gst/gst.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * LatchkeySecureStream:
 *
 * What a stream is, once decrypted. Lent for the time of the callback.
 */
typedef struct _LatchkeySecureStream LatchkeySecureStream;

/**
 * LatchkeySecureSample:
 *
 * One sample on its way into secure memory. It, and every pointer that comes from it, is lent for the time of the
 * callback.
 */
typedef struct _LatchkeySecureSample LatchkeySecureSample;

/**
 * LatchkeyScheme:
 * @LATCHKEY_SCHEME_NONE: the whole sample is clear, and is to be copied
 * @LATCHKEY_SCHEME_CENC: AES-CTR over the protected bytes
 * @LATCHKEY_SCHEME_CBC1: AES-CBC over whole blocks, chained through the sample
 * @LATCHKEY_SCHEME_CENS: AES-CTR with a pattern of blocks
 * @LATCHKEY_SCHEME_CBCS: AES-CBC with a pattern of blocks; each subsample begins with the IV
 *
 * The protection schemes of ISO/IEC 23001-7.
 */
typedef enum {
  LATCHKEY_SCHEME_NONE = 0,
  LATCHKEY_SCHEME_CENC = 1,
  LATCHKEY_SCHEME_CBC1 = 2,
  LATCHKEY_SCHEME_CENS = 3,
  LATCHKEY_SCHEME_CBCS = 4
} LatchkeyScheme;

/**
 * LatchkeySecureDecryptorFunctions:
 * @size: `sizeof (LatchkeySecureDecryptorFunctions)`; the table may grow, and the size says what the application knows
 * @memory_feature: (nullable): the caps feature of the memory, as `memory:SecMem`; the caps get it if the decoder takes
 *   it. %NULL if the platform's decoders have none: then the memory that the decoder proposes decides. Copied.
 * @takes: (nullable): whether it decrypts such a stream; 0 leaves it to the next, and at last to Latchkey's own
 *   decryption into ordinary memory. %NULL takes streams of video.
 * @create: makes what decrypts one stream, at its first caps and at each change of them. Returns a pointer of yours that
 *   goes with the functions below, or %NULL if it cannot: say why with latchkey_secure_stream_set_error().
 * @decrypt: decrypts one sample, and returns when the clear bytes are in latchkey_secure_sample_get_memory() and nowhere
 *   else. Returns 1, or 0 if it cannot: say why with latchkey_secure_sample_set_error(). Playback ends then.
 * @allocate: (nullable): memory of at least as many bytes, with a reference for the caller, if the decoder proposed
 *   none. %NULL: there is none.
 * @free: (nullable): called once with what @create returned, when the stream has ended or has got other caps
 *
 * The functions are called on streaming threads; those of one stream one at a time. They may take as long as decryption
 * takes, and must not wait for anything else.
 */
typedef struct {
  size_t size;
  const char *memory_feature;
  int (*takes) (LatchkeySecureStream *stream, void *user_data);
  void *(*create) (LatchkeySecureStream *stream, void *user_data);
  int (*decrypt) (void *decryptor, LatchkeySecureSample *sample);
  GstMemory *(*allocate) (void *decryptor, size_t size);
  void (*free) (void *decryptor);
} LatchkeySecureDecryptorFunctions;

/**
 * latchkey_secure_decryptor_register:
 * @name: (nullable): for logs and error texts
 * @functions: the functions; copied
 * @user_data: (nullable): goes with @takes and @create
 * @destroy: (nullable): called once with @user_data, on any thread, when @functions cannot be called any more: the
 *   decryptor is not registered and no stream that has it is left
 *
 * Has streams whose caps come from now on decrypted by @functions; those of HLS, if the demuxer starts from now on.
 * Several are asked in the order in which they were registered.
 *
 * Returns: a number for latchkey_secure_decryptor_unregister(), or 0 if @functions has a size that is too small, or
 * no @create or @decrypt. @destroy is not called then.
 */
uint64_t latchkey_secure_decryptor_register (const char *name, const LatchkeySecureDecryptorFunctions *functions,
                                             void *user_data, void (*destroy) (void *user_data));

/**
 * latchkey_secure_decryptor_unregister:
 * @id: what latchkey_secure_decryptor_register() returned
 *
 * Streams whose caps come from now on do not get it. Those that have it keep it.
 *
 * Returns: 1, or 0 if no such decryptor is registered.
 */
int latchkey_secure_decryptor_unregister (uint64_t id);

/**
 * latchkey_secure_stream_get_media_type:
 * @stream: a stream
 *
 * Returns: (transfer none): the media type, as `video/x-h264`
 */
const char *latchkey_secure_stream_get_media_type (LatchkeySecureStream *stream);

/**
 * latchkey_secure_stream_get_caps:
 * @stream: a stream
 *
 * Returns: (transfer none): the caps of the clear media, as gst_caps_to_string() writes them
 */
const char *latchkey_secure_stream_get_caps (LatchkeySecureStream *stream);

/**
 * latchkey_secure_stream_set_error:
 * @stream: a stream
 * @message: (nullable): for people; goes into the error that the element posts. No secrets. Copied.
 *
 * Says why `create` returns %NULL.
 */
void latchkey_secure_stream_set_error (LatchkeySecureStream *stream, const char *message);

/**
 * latchkey_secure_sample_get_scheme:
 * @sample: a sample
 *
 * Returns: how the sample is encrypted
 */
LatchkeyScheme latchkey_secure_sample_get_scheme (LatchkeySecureSample *sample);

/**
 * latchkey_secure_sample_get_pattern:
 * @sample: a sample
 * @crypt_blocks: (out) (nullable): blocks of 16 bytes that are encrypted, in a row
 * @skip_blocks: (out) (nullable): blocks that are clear behind them
 *
 * The pattern of `cens` and `cbcs`. Both are 0 if every block is encrypted, and in the other schemes.
 */
void latchkey_secure_sample_get_pattern (LatchkeySecureSample *sample, uint8_t *crypt_blocks, uint8_t *skip_blocks);

/**
 * latchkey_secure_sample_get_key_id:
 * @sample: a sample
 *
 * Returns: (nullable) (transfer none): the 16 bytes of the KID, in the byte order of a UUID; %NULL if the media names
 * none
 */
const uint8_t *latchkey_secure_sample_get_key_id (LatchkeySecureSample *sample);

/**
 * latchkey_secure_sample_get_key:
 * @sample: a sample
 *
 * What the resource loader gave for the KID. Latchkey does not look at these bytes here: a loader whose keys never leave
 * the trusted environment answers with 16 bytes by which that knows them, in place of the key.
 *
 * Returns: (nullable) (transfer none): 16 bytes; %NULL for a sample of %LATCHKEY_SCHEME_NONE
 */
const uint8_t *latchkey_secure_sample_get_key (LatchkeySecureSample *sample);

/**
 * latchkey_secure_sample_get_iv:
 * @sample: a sample
 *
 * Returns: (nullable) (transfer none): 16 bytes. An IV of 8 bytes has zeros behind. %NULL for %LATCHKEY_SCHEME_NONE
 */
const uint8_t *latchkey_secure_sample_get_iv (LatchkeySecureSample *sample);

/**
 * latchkey_secure_sample_get_subsample_count:
 * @sample: a sample
 *
 * Returns: how many subsamples there are; together they are exactly the sample. 0: all of it is protected, or clear
 * if the scheme is %LATCHKEY_SCHEME_NONE
 */
size_t latchkey_secure_sample_get_subsample_count (LatchkeySecureSample *sample);

/**
 * latchkey_secure_sample_get_subsample:
 * @sample: a sample
 * @index: from 0
 * @clear_bytes: (out) (nullable): bytes that are clear, first
 * @protected_bytes: (out) (nullable): bytes behind them that the scheme applies to
 *
 * Returns: 1, or 0 behind the last
 */
int latchkey_secure_sample_get_subsample (LatchkeySecureSample *sample, size_t index, uint32_t *clear_bytes,
                                          uint32_t *protected_bytes);

/**
 * latchkey_secure_sample_get_data:
 * @sample: a sample
 * @size: (out) (nullable): the number of bytes
 *
 * Returns: (transfer none): the encrypted bytes, in ordinary memory
 */
const uint8_t *latchkey_secure_sample_get_data (LatchkeySecureSample *sample, size_t *size);

/**
 * latchkey_secure_sample_get_memory:
 * @sample: a sample
 *
 * Returns: (transfer none): where the clear bytes belong, from its first byte on: the decoder's memory, or that of
 * `allocate`. It holds as many bytes as the sample has. Do not map it for the CPU.
 */
GstMemory *latchkey_secure_sample_get_memory (LatchkeySecureSample *sample);

/**
 * latchkey_secure_sample_set_error:
 * @sample: a sample
 * @message: (nullable): for people; goes into the error that the element posts. No secrets. Copied.
 *
 * Says why `decrypt` returns 0.
 */
void latchkey_secure_sample_set_error (LatchkeySecureSample *sample, const char *message);

#ifdef __cplusplus
}
#endif

#endif /* LATCHKEY_SECURE_DECRYPTOR_H */

/* SPDX-License-Identifier: MPL-2.0 */

/* Decrypts a track in a trusted environment, into memory that the CPU may not see. The environment and its memory are
   played here: put your platform's in the two places that say so. A fakesink takes the part of the decoder.

   cc examples/secure_decryptor.c -o secure $(pkg-config --cflags --libs latchkey-1.0)
   ./secure FILE KID:KEY */

#include <latchkey.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  guint64 decrypted, copied, bytes;
} Session;

/* Your platform's memory goes here: often its decoder or its library has a GstAllocator already. */

typedef GstAllocator ExampleAllocator;
typedef GstAllocatorClass ExampleAllocatorClass;
G_DEFINE_TYPE (ExampleAllocator, example_allocator, GST_TYPE_ALLOCATOR)

static GstMemory *
example_alloc (GstAllocator *allocator, gsize size, GstAllocationParams *params)
{
  GstMemory *memory = g_new0 (GstMemory, 1);
  (void) params;
  gst_memory_init (memory, GST_MEMORY_FLAG_NOT_MAPPABLE | GST_MEMORY_FLAG_NO_SHARE, allocator, NULL, size, 0, 0, size);
  return memory;
}

static void
example_free (GstAllocator *allocator, GstMemory *memory)
{
  (void) allocator;
  g_free (memory);
}

static void
example_allocator_class_init (ExampleAllocatorClass *klass)
{
  klass->alloc = example_alloc;
  klass->free = example_free;
}

static void
example_allocator_init (ExampleAllocator *allocator)
{
  allocator->mem_type = "ExampleSecureMemory";
  GST_OBJECT_FLAG_SET (allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

static GstAllocator *allocator;

static GstMemory *
allocate (void *decryptor, size_t size)
{
  (void) decryptor;
  return gst_allocator_alloc (allocator, size, NULL);
}

static void *
create (LatchkeySecureStream *stream, void *user_data)
{
  printf ("stream: %s\n", latchkey_secure_stream_get_caps (stream));
  return user_data;
}

/* Called on the streaming thread, sample by sample. */
static int
decrypt (void *decryptor, LatchkeySecureSample *sample)
{
  Session *session = decryptor;
  size_t size;
  const uint8_t *data = latchkey_secure_sample_get_data (sample, &size);
  GstMemory *memory = latchkey_secure_sample_get_memory (sample);
  LatchkeyScheme scheme = latchkey_secure_sample_get_scheme (sample);
  const uint8_t *key = latchkey_secure_sample_get_key (sample), *iv = latchkey_secure_sample_get_iv (sample);

  if (data == NULL || memory == NULL || (scheme != LATCHKEY_SCHEME_NONE && (key == NULL || iv == NULL))) {
    latchkey_secure_sample_set_error (sample, "something is missing");
    return 0;
  }
  for (size_t i = 0; i < latchkey_secure_sample_get_subsample_count (sample); i++) {
    uint32_t clear_bytes, protected_bytes;
    latchkey_secure_sample_get_subsample (sample, i, &clear_bytes, &protected_bytes);
    /* Your platform's call goes here: key or its handle, IV, bytes, and where they belong in `memory`. */
  }
  if (scheme == LATCHKEY_SCHEME_NONE)
    session->copied++;
  else
    session->decrypted++;
  session->bytes += size;
  return 1;
}

int
main (int argc, char **argv)
{
  static const LatchkeySecureDecryptorFunctions functions = {
    .size = sizeof (LatchkeySecureDecryptorFunctions),
    .memory_feature = "memory:ExampleSecure",
    .create = create,
    .decrypt = decrypt,
    .allocate = allocate,
  };
  Session session = { 0 };
  GstElement *pipeline, *source, *decryptor;
  GstMessage *message;
  int status = 1;

  if (argc != 3) {
    fprintf (stderr, "Usage: %s FILE KID:KEY\n", argv[0]);
    return 2;
  }
  gst_init (NULL, NULL);
  latchkey_register_elements (NULL);
  allocator = gst_object_ref_sink (g_object_new (example_allocator_get_type (), NULL));
  latchkey_secure_decryptor_register ("example", &functions, &session, NULL);

  /* The filter is what a decoder of secure memory would say of itself. */
  pipeline = gst_parse_launch ("filesrc name=source ! qtdemux name=demuxer demuxer.video_0 ! latchkeycencdec "
      "name=decryptor ! video/x-h264(memory:ExampleSecure) ! fakesink", NULL);
  if (pipeline == NULL) {
    fprintf (stderr, "GStreamer's good plug-ins are missing\n");
    return 1;
  }
  source = gst_bin_get_by_name (GST_BIN (pipeline), "source");
  decryptor = gst_bin_get_by_name (GST_BIN (pipeline), "decryptor");
  g_object_set (source, "location", argv[1], NULL);
  g_object_set (decryptor, "keys", argv[2], NULL);
  gst_object_unref (source);
  gst_object_unref (decryptor);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (GST_ELEMENT_BUS (pipeline), GST_CLOCK_TIME_NONE,
      GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
  if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS) {
    printf ("%" G_GUINT64_FORMAT " samples decrypted, %" G_GUINT64_FORMAT " copied, %" G_GUINT64_FORMAT
        " bytes in secure memory\n", session.decrypted, session.copied, session.bytes);
    status = 0;
  } else {
    GError *error = NULL;
    gst_message_parse_error (message, &error, NULL);
    fprintf (stderr, "error: %s\n", error->message);
    g_clear_error (&error);
  }
  gst_message_unref (message);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (pipeline);
  gst_object_unref (allocator);
  return status;
}

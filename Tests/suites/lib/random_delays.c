/* SPDX-License-Identifier: MPL-2.0 */

/* Preloaded into processes: before 5 % of the calls in which liblatchkey-1.0.so hands something to GStreamer, and around 5 % of its
   locks, a thread sleeps for up to a millisecond. So steps of several threads come in orders that they hardly have otherwise.
   $DELAY_SEED chooses others. The file $DELAY_NOTE is made at the first one. */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERCENT 5
#define MICROSECONDS 1000

/* Where the library is in memory; 0: it was not loaded yet. */
static atomic_uintptr_t first, last;

static int
look (struct dl_phdr_info *info, size_t size, void *data)
{
  (void) size, (void) data;
  if (strstr (info->dlpi_name, "/liblatchkey-1.0.so") == NULL)
    return 0;
  for (int index = 0; index < info->dlpi_phnum; index++) {
    const ElfW (Phdr) *part = &info->dlpi_phdr[index];
    if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0) {
      last = info->dlpi_addr + part->p_vaddr + part->p_memsz;
      first = info->dlpi_addr + part->p_vaddr;
    }
  }
  return 1;
}

static void
note (void)
{
  static atomic_flag is_noted = ATOMIC_FLAG_INIT;
  const char *path = getenv ("DELAY_NOTE");
  int file;

  if (path == NULL || atomic_flag_test_and_set (&is_noted))
    return;
  file = open (path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0)
    close (file);
}

/* Sleeps now and then, if the caller is the library. */
static void
delay (const void *caller)
{
  static atomic_uint threads;
  static __thread uint32_t number;

  if ((uintptr_t) caller < first || (uintptr_t) caller >= last)
    return;
  if (number == 0) {
    const char *seed = getenv ("DELAY_SEED");
    number = 2654435761u * (++threads + (seed == NULL ? 1 : (uint32_t) atoi (seed))) | 1;
  }
  number ^= number << 13;
  number ^= number >> 17;
  number ^= number << 5;
  if (number % 100 >= PERCENT)
    return;
  note ();
  usleep (number / 100 % MICROSECONDS);
}

/* The same function of the library that has it, which may have been loaded for one user alone. */
#define NEXT(library, name, type) \
  static type next; \
  if (next == NULL) \
    next = (type) dlsym (library, name)
#define LOADED(name) dlopen (name, RTLD_LAZY)
/* The calls of mutexes are too many to look for the library in each. */
#define FIND() \
  if (first == 0) \
    dl_iterate_phdr (look, NULL)

typedef int (*Call) (void *, void *);
typedef void (*Lock) (void *);
typedef int (*PosixLock) (pthread_mutex_t *);

#define HANDS_ON(function) \
  int function (void *object, void *content) \
  { \
    NEXT (LOADED ("libgstreamer-1.0.so.0"), #function, Call); \
    FIND (); \
    delay (__builtin_return_address (0)); \
    return next (object, content); \
  }

HANDS_ON (gst_pad_push)
HANDS_ON (gst_pad_chain)
HANDS_ON (gst_pad_push_event)
HANDS_ON (gst_element_post_message)

void
g_mutex_lock (void *mutex)
{
  NEXT (LOADED ("libglib-2.0.so.0"), "g_mutex_lock", Lock);
  delay (__builtin_return_address (0));
  next (mutex);
}

void
g_mutex_unlock (void *mutex)
{
  NEXT (LOADED ("libglib-2.0.so.0"), "g_mutex_unlock", Lock);
  next (mutex);
  delay (__builtin_return_address (0));
}

int
pthread_mutex_lock (pthread_mutex_t *mutex)
{
  NEXT (RTLD_NEXT, "pthread_mutex_lock", PosixLock);
  delay (__builtin_return_address (0));
  return next (mutex);
}

int
pthread_mutex_unlock (pthread_mutex_t *mutex)
{
  int status;

  NEXT (RTLD_NEXT, "pthread_mutex_unlock", PosixLock);
  status = next (mutex);
  delay (__builtin_return_address (0));
  return status;
}

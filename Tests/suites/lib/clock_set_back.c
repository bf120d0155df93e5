/* SPDX-License-Identifier: MPL-2.0 */

/* Preloaded into a process: its system clock is behind by $CLOCK_SET_BACK_SECONDS, or ahead if that is negative, as long as
 * the file $CLOCK_SET_BACK is there. */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef int (*ClockGettime) (clockid_t, struct timespec *);

int
clock_gettime (clockid_t clock, struct timespec *now)
{
  ClockGettime real = (ClockGettime) dlsym (RTLD_NEXT, "clock_gettime");
  const char *file = getenv ("CLOCK_SET_BACK");
  const char *seconds = getenv ("CLOCK_SET_BACK_SECONDS");
  int status = real (clock, now);
  if (status == 0 && clock == CLOCK_REALTIME && file != NULL && seconds != NULL && access (file, F_OK) == 0)
    now->tv_sec -= atol (seconds);
  return status;
}

time_t
time (time_t *result)
{
  struct timespec now;
  clock_gettime (CLOCK_REALTIME, &now);
  if (result != NULL)
    *result = now.tv_sec;
  return now.tv_sec;
}

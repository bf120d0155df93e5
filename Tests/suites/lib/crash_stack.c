/* SPDX-License-Identifier: MPL-2.0 */

/* Preloaded into children of the suites: on a signal of a crash it writes the stack of the thread to standard error, one
   frame a line, and lets the process die of the signal. children.py reads in it whose crash that was. */

#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define FRAMES 128

static void
say (const char *text)
{
  if (write (STDERR_FILENO, text, strlen (text)) < 0)
    _exit (1);
}

static void
show (int number)
{
  void *frames[FRAMES];

  say ("\nCRASH STACK\n");
  backtrace_symbols_fd (frames, backtrace (frames, FRAMES), STDERR_FILENO);
  say ("CRASH END\n");
  /* The handler is gone. */
  raise (number);
}

__attribute__ ((constructor)) static void
install (void)
{
  struct sigaction action = { .sa_handler = show, .sa_flags = SA_RESETHAND };
  void *frame;

  /* The first call loads a library, which a handler must not. */
  backtrace (&frame, 1);
  sigaction (SIGSEGV, &action, NULL);
  sigaction (SIGABRT, &action, NULL);
  sigaction (SIGTRAP, &action, NULL);
}

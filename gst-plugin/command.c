/* SPDX-License-Identifier: MPL-2.0 */

/* The command latchkey. All of it is in liblatchkey-1.0, so that it is installed once. */

void latchkey_command_main (void);

int
main (void)
{
  latchkey_command_main ();
  return 0;
}

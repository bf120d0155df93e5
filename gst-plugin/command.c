/* SPDX-License-Identifier: MPL-2.0 */

/* The command latchkey. All of it is in liblatchkey-1.0, so that it is installed once. */

void latchkey_command_main (int argc, char **argv);

int
main (int argc, char **argv)
{
  latchkey_command_main (argc, argv);
  return 0;
}

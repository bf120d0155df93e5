/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CLIBXML2_H
#define LATCHKEY_CLIBXML2_H

#include <libxml/parser.h>
#include <libxml/parserInternals.h>

#endif

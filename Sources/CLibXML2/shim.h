/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CLIBXML2_H
#define LATCHKEY_CLIBXML2_H

/* With this, encoding.h brings the types of ICU, of which Foundation has a version of its own: a compiler that sees both
 * may refuse them. What depends on it is in structures that nobody here looks into. */
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/parser.h>
#include <libxml/parserInternals.h>

#endif

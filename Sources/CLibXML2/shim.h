/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CLIBXML2_H
#define LATCHKEY_CLIBXML2_H

/* With this, encoding.h brings the types of ICU, of which Foundation has a version of its own: a compiler that sees both
 * may refuse them. What depends on it is in structures that nobody here looks into. */
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <dlfcn.h>
#include <libxml/parser.h>
#include <libxml/parserInternals.h>

/* What is called after the structures of this header; 2.14 has others. */
#if LIBXML_VERSION >= 21400
#define LATCHKEY_LIBXML2_FILE "libxml2.so.16"
#else
#define LATCHKEY_LIBXML2_FILE "libxml2.so.2"
#endif

/* The functions that are used, with the types that libxml2's header gives them. They are found at run time: libxml2 brings
 * ICU, which a process that reads no XML does without. */
#define LATCHKEY_XML_FUNCTIONS(USE) \
    USE(InitParser) \
    USE(CreateMemoryParserCtxt) \
    USE(CtxtUseOptions) \
    USE(ParseDocument) \
    USE(StopParser) \
    USE(FreeParserCtxt)

struct latchkey_xml {
#define LATCHKEY_XML_FIELD(name) __typeof__(&xml##name) name;
    LATCHKEY_XML_FUNCTIONS(LATCHKEY_XML_FIELD)
#undef LATCHKEY_XML_FIELD
};

/* Loads the library, for ever, and fills the table. Gives NULL where all is well, the name of a function that it
 * lacks where *loaded is 1, and otherwise why it cannot be loaded, which is valid until this thread's next call. */
static inline const char *latchkey_xml_load(struct latchkey_xml *xml, const char *file, int *loaded)
{
    void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    *loaded = library != NULL;
    if (!library) {
        const char *reason = dlerror();
        return reason ? reason : file;
    }
#define LATCHKEY_XML_FIND(name) \
    if (!(xml->name = (__typeof__(xml->name))dlsym(library, "xml" #name))) \
        return "xml" #name;
    LATCHKEY_XML_FUNCTIONS(LATCHKEY_XML_FIND)
#undef LATCHKEY_XML_FIND
    return NULL;
}

#endif

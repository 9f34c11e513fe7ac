/* json (private): the reader of JSON, which extend.h declares for libraries on top of this one. */
#ifndef TG_BASE_JSON_H
#define TG_BASE_JSON_H

#include <tapegrad/extend.h>

#endif

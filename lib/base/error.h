/* error (private): setting a tg_error, which extend.h declares for libraries on top of this one. */
#ifndef TG_BASE_ERROR_H
#define TG_BASE_ERROR_H

#include <tapegrad/extend.h>

#endif

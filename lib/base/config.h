/* config (private): the marks of configs, which extend.h declares for libraries on top of this one. */
#ifndef TG_BASE_CONFIG_H
#define TG_BASE_CONFIG_H

#include <tapegrad/extend.h>

#endif

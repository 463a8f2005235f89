// For the sources that are compiled for some instruction set alone: each is the only one of its
// set, so nothing else may come in with it that the linker could take for others, too.
#pragma once

#define XXH_INLINE_ALL
#define XXH_PREFETCH_DIST 4096
#include <xxhash.h>

// For the sources of Xxh3 alone: each is the only one that is compiled for its instruction set, so
// nothing else may come in with it that the linker could take for others, too.
#pragma once

#define XXH_INLINE_ALL
#define XXH_PREFETCH_DIST 4096
#include <xxhash.h>

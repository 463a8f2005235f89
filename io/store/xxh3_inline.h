// Include of the sources that are compiled for one instruction set. Each is the only one of its
// set. Nothing else may come in with it, or the linker could take it for the code of other sources,
// too.
#pragma once

#define XXH_INLINE_ALL
#define XXH_PREFETCH_DIST 4096
#include <xxhash.h>

#pragma once

// Header-only and without exceptions: the packaged shared library is built with them. The
// assertions of toml++ are off, as one is false for the text "[:". The forbidden cases are errors a
// few lines on. With NDEBUG toml++ would tell the compiler to assume them.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ASSERT(condition) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

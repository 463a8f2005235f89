#pragma once

#include <sys/stat.h>

#include <string>

#include "tests/tools/temporary_directory.h"

namespace sluice::bench {

/// A report of 1 GiB read in one second with 0.1 s of CPU time.
inline constexpr char kFakeReport[] =
    "cat <<'END'\n"
    "{\n"
    "  \"jobs\" : [ { \"error\" : 0, \"job_runtime\" : 1000, \"usr_cpu\" : 4.0, \"sys_cpu\" : "
    "6.0,\n"
    "    \"read\" : { \"io_bytes\" : 1073741824, \"runtime\" : 1000 } } ]\n"
    "}\n"
    "END\n";

/// Writes a program that has a version, and otherwise is the shell script `body`; its path.
inline std::string WriteFakeFio(const tools::TemporaryDirectory& directory,
                                const std::string& body) {
  const std::string path = directory.Write(
      "fio", "#!/bin/sh\nif [ \"$1\" = --version ]; then echo fio-0; exit 0; fi\n" + body);
  chmod(path.c_str(), 0700);
  return path;
}

}  // namespace sluice::bench

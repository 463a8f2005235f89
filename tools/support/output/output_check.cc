#include "tools/support/output/output_check.h"

#include <sys/stat.h>

#include <map>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/support/output/output_path.h"

namespace sluice::tools {
namespace {

/// Whether both paths name one file, however they are written.
bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat a_info {};
  struct stat b_info {};
  return stat(a.c_str(), &a_info) == 0 && stat(b.c_str(), &b_info) == 0 &&
         a_info.st_dev == b_info.st_dev && a_info.st_ino == b_info.st_ino;
}

absl::Status CheckIsNoInput(const NamedPath& output, std::span<const NamedPath> inputs) {
  for (const NamedPath& input : inputs) {
    if (!IsSameFile(output.path, input.path)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{} {} would replace what {} reads, {}", output.name, output.path, input.name, input.path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOutputs(std::span<const NamedPath> outputs, std::span<const NamedPath> inputs) {
  std::map<std::string, std::string> names;
  // A file that standard output goes to would be replaced under it.
  const absl::StatusOr<OutputPath> standard = ResolveOutput("/dev/stdout");
  if (standard.ok() && standard->kind == OutputPath::Kind::kFile) {
    names.emplace(standard->path, "standard output");
  }
  for (const NamedPath& named : outputs) {
    const absl::StatusOr<OutputPath> output = ResolveOutput(named.path);
    if (!output.ok()) return base::Annotate(output.status(), named.name);
    const auto [other, inserted] = names.try_emplace(output->path, named.name);
    if (!inserted) {
      return absl::InvalidArgumentError(
          fmt::format("{} and {} name the same file, {}", other->second, named.name, output->path));
    }
    SLUICE_RETURN_IF_ERROR(CheckIsNoInput(named, inputs));
  }
  return absl::OkStatus();
}

}  // namespace sluice::tools

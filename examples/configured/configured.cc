// A program with a configuration file: its own keys beside those of the Runtime, and overrides from
// the command line. A key that nobody knows is an error.
//
//   configured [--config FILE] [KEY=VALUE ...]   # configured tiers.dram.bytes=8MiB job.rows=10
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

constexpr std::string_view kDefaults = R"(
page_bytes = "64KiB"
[tiers.dram]
bytes = "4MiB"
[tiers.nvme]
bytes = "16MiB"
[job]
tier = "dram"
)";

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> overrides(argv + 1, argv + argc);
  const bool has_file = overrides.size() >= 2 && overrides[0] == "--config";
  sluice::Config config = has_file ? Check(sluice::Config::Load(overrides[1]))
                                   : Check(sluice::Config::Parse(kDefaults, "built-in"));
  if (has_file) overrides.erase(overrides.begin(), overrides.begin() + 2);
  for (const std::string& assignment : overrides) Check(config.Set(assignment));

  std::int64_t rows = 4;  // kept where no key says otherwise
  std::string tier_name = "dram";
  if (!config.Has("job.rows")) std::printf("job.rows is %jd\n", std::intmax_t{rows});
  Check(config.Read("job.rows", &rows));
  Check(config.Read("job.tier", &tier_name));
  sluice::RuntimeOptions options = Check(sluice::ReadRuntimeOptions(config));
  Check(config.Finish());  // keys that nobody has read are errors now
  std::printf("%s\n", config.Values().c_str());

  const sluice::TierId tier = Check(sluice::ParseTierId(tier_name));
  const auto runtime = Check(sluice::Runtime::Create(options));
  const sluice::TensorId tensor =
      Check(runtime->CreateTensor({.name = "rows", .shape = {rows, 1 << 16}}));
  // A request that could never be granted is known before any work.
  Check(runtime->CheckAccess({.tensor = tensor, .tier = tier}));
  const std::vector<std::int64_t> shape = Check(runtime->ShapeOfTensor(tensor));
  const sluice::DType type = Check(runtime->TypeOfTensor(tensor));
  sluice::Op op = runtime->BeginOp({.name = "read"});
  const sluice::Lease lease = Check(op.Acquire({.tensor = tensor, .tier = tier}));
  std::printf("%s of %s in %s\n",
              sluice::ToString(sluice::Bytes(lease.Contiguous().size())).c_str(),
              std::string(sluice::ToString(type)).c_str(),
              sluice::ToString(lease.tier()).c_str());
  const std::uint64_t bytes = static_cast<std::uint64_t>(shape[0] * shape[1]) * SizeOf(type);
  return lease.tier() == tier && lease.Contiguous().size() == bytes ? 0 : 1;
}

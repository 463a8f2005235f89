// Spill files on several drives: a directory on each. The drives share the pages in proportion to
// their measured rates. A drive that fails takes no more pages, and the program hears of it.
//
//   drives DIRECTORY DIRECTORY ...   # of the user, not writable by others, best on different
//   drives
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

struct Alarms : sluice::EventListener {
  void OnDriveFenced(const sluice::DriveFencedEvent& event) override {
    std::printf("%s takes no pages: %s\n", event.directory.c_str(), event.cause.ToString().c_str());
    for (const sluice::SoleCopy& copy : event.sole_copies) {
      std::printf("read %s soon: %ju bytes are on that drive alone\n",
                  copy.tensor.c_str(),
                  std::uintmax_t{copy.bytes});
    }
  }
};

/// Prints each drive. Returns the number of drives that were written to and read from.
std::size_t PrintDrives(const sluice::IoStats& io) {
  std::size_t used = 0;
  for (const sluice::DriveStats& drive : io.drives) {
    std::printf("%s: %ju places by %.1f GB/s at the start, %ju pages out, %ju pages in%s\n",
                drive.directory.c_str(),
                std::uintmax_t{drive.places},
                drive.bytes_per_second_at_start / 1e9,
                std::uintmax_t{drive.writes},
                std::uintmax_t{drive.reads},
                drive.fenced ? ", fenced" : "");
    used += drive.writes > 0 && drive.reads > 0;
  }
  return used;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "Usage: %s DIRECTORY DIRECTORY ...\n", argv[0]);
    return 2;
  }
  Alarms alarms;  // outlives the Runtime
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.dram_bytes = 2_MiB;
  options.nvme_bytes = 32_MiB;  // sum over all drives
  options.io.directory = argv[1];
  options.io.more_directories.assign(argv + 2, argv + argc);
  options.io.keep_free = 64_MiB;  // space of each file system that others may need
  options.listener = &alarms;
  const auto runtime = Check(sluice::Runtime::Create(options));

  std::vector<std::uint64_t> values(2 << 20), read(values.size());
  std::iota(values.begin(), values.end(), std::uint64_t{0});
  const sluice::TensorId tensor = Check(
      runtime->CreateTensor({.name = "values", .shape = {2 << 20}, .dtype = sluice::DType::kI64}));
  Check(runtime->Write(tensor, std::as_bytes(std::span(values))));
  Check(runtime->Read(tensor, std::as_writable_bytes(std::span(read))));
  const std::size_t used = PrintDrives(runtime->GetStats().io);
  return read == values && used == static_cast<std::size_t>(argc - 1) ? 0 : 1;
}

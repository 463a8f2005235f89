#include "runtime/engine/report/profiler_ranges.h"

#include <nvtx3/nvToolsExt.h>

namespace sluice::engine {
namespace {

nvtxDomainHandle_t OpenDomain() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("sluice");
  const auto name = [&](ProfilerCategory category, const char* text) {
    nvtxDomainNameCategoryA(domain, static_cast<std::uint32_t>(category), text);
  };
  name(ProfilerCategory::kPageIn, "page-in");
  name(ProfilerCategory::kPageOut, "page-out");
  name(ProfilerCategory::kEvict, "evict");
  name(ProfilerCategory::kStall, "stall");
  return domain;
}

/// Null where no profiler listens.
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t kDomain = OpenDomain();
  return kDomain;
}

}  // namespace

bool ProfilerListens() { return Domain() != nullptr; }

std::uint64_t ProfilerRange::Open(ProfilerCategory category, const std::string& name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = static_cast<std::uint32_t>(category);
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  return nvtxDomainRangeStartEx(Domain(), &attributes);
}

void ProfilerRange::Close(std::uint64_t number) { nvtxDomainRangeEnd(Domain(), number); }

}  // namespace sluice::engine

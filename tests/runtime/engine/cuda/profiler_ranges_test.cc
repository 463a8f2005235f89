#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::CudaRuntimeFixture;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::Pair;

/// Ranges that a profiler inside this program has been told of.
class Profiler {
 public:
  static Profiler& Get() {
    static Profiler profiler;
    return profiler;
  }

  void NameCategory(std::uint32_t category, const std::string& name) {
    const base::MutexLock lock(mutex_);
    categories_[category] = name;
  }
  nvtxRangeId_t Start(const nvtxEventAttributes_t& event) {
    const base::MutexLock lock(mutex_);
    seen_.insert({categories_[event.category], event.message.ascii});
    open_.insert(++last_);
    return last_;
  }
  void End(nvtxRangeId_t range) {
    const base::MutexLock lock(mutex_);
    EXPECT_EQ(open_.erase(range), 1u) << "each interval ends once";
  }

  std::set<std::pair<std::string, std::string>> seen() {
    const base::MutexLock lock(mutex_);
    return seen_;
  }
  std::set<nvtxRangeId_t> open() {
    const base::MutexLock lock(mutex_);
    return open_;
  }
  std::vector<std::string> domains;

 private:
  base::Mutex mutex_;
  std::map<std::uint32_t, std::string> categories_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<std::string, std::string>> seen_ ABSL_GUARDED_BY(mutex_);
  std::set<nvtxRangeId_t> open_ ABSL_GUARDED_BY(mutex_);
  nvtxRangeId_t last_ ABSL_GUARDED_BY(mutex_) = 0;
};

nvtxDomainHandle_t CreateDomain(const char* name) {
  Profiler::Get().domains.emplace_back(name);
  return reinterpret_cast<nvtxDomainHandle_t>(&Profiler::Get());  // any handle that is not null
}
void NameCategory(nvtxDomainHandle_t, std::uint32_t category, const char* name) {
  Profiler::Get().NameCategory(category, name);
}
nvtxRangeId_t StartRange(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  return Profiler::Get().Start(*event);
}
void EndRange(nvtxDomainHandle_t, nvtxRangeId_t range) { Profiler::Get().End(range); }

template <typename Function>
void Set(NvtxFunctionTable table, std::uint32_t slot, Function function) {
  *table[slot] = reinterpret_cast<NvtxFunctionPointer>(function);
}

int Attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  Set(table, NVTX_CBID_CORE2_DomainCreateA, &CreateDomain);
  Set(table, NVTX_CBID_CORE2_DomainNameCategoryA, &NameCategory);
  Set(table, NVTX_CBID_CORE2_DomainRangeStartEx, &StartRange);
  Set(table, NVTX_CBID_CORE2_DomainRangeEnd, &EndRange);
  return 1;
}

/// NVTX looks here for a profiler that is part of the program, at its first use.
const bool kAttached = [] {
  InitializeInjectionNvtx2_fnptr = &Attach;
  return true;
}();

TEST(ProfilerRangesTest, AProfilerSeesWhatMovesAndWhoWaits) {
  ASSERT_TRUE(kAttached);
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
  const std::uint64_t bytes = CudaRuntimeFixture::kHbmPages * kGpuPage;
  for (const char* name : {"first", "second"}) {
    const TensorId tensor = gpu.runtime().Make(name, bytes);
    ASSERT_THAT(gpu->Write(tensor, testing::Pattern(1, bytes)), IsOk());
    ASSERT_THAT(gpu.Add(tensor, 1, stream), IsOk());
  }
  stream.Synchronize();
  gpu.runtime().Stop();
  EXPECT_THAT(Profiler::Get().domains, ElementsAre("sluice"));
  EXPECT_THAT(Profiler::Get().seen(),
              AllOf(Contains(Pair("page-in", "first")),
                    Contains(Pair("page-out", "first")),
                    Contains(Pair("evict", "first")),
                    Contains(Pair("stall", "add"))));
  EXPECT_THAT(Profiler::Get().open(), IsEmpty());
}

}  // namespace
}  // namespace sluice

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/mutex.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr int kThreads = 3;
constexpr int kOps = 150;

/// Expected content of every tensor. The tensor's own lease guards its copy here: the holder of a
/// write lease may write the copy, too.
struct Shadow {
  std::vector<TensorId> tensors;
  std::vector<std::vector<std::byte>> bytes;
};

Shadow MakeTensors(RuntimeFixture& runtime, std::mt19937_64& random) {
  Shadow shadow;
  for (int segment = 0; segment < 24; ++segment) {
    std::vector<TensorSpec> specs;
    const int count = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < count; ++i) {
      specs.push_back(ByteTensor("s" + std::to_string(segment) + "." + std::to_string(i),
                                 1 + random() % (5 * kPage / 2)));
    }
    const auto tensors = runtime->CreateTensors(specs);
    EXPECT_THAT(tensors, IsOk());
    for (int i = 0; i < count; ++i) {
      shadow.tensors.push_back((*tensors)[static_cast<std::size_t>(i)]);
      shadow.bytes.emplace_back(SizeOf(specs[static_cast<std::size_t>(i)]).count());
    }
  }
  return shadow;
}

/// One to three different tensors in one tier, each whole or in part, in any mode.
std::vector<Access> RandomAccesses(const Shadow& shadow, std::mt19937_64& random) {
  std::vector<Access> accesses;
  const TierId tier = random() % 2 == 0 ? kHbm0 : kDram0;
  std::size_t index = random() % shadow.tensors.size();
  for (std::uint64_t left = 1 + random() % 3; left > 0; --left) {
    const std::uint64_t size = shadow.bytes[index].size();
    Access access{.tensor = shadow.tensors[index], .tier = tier, .contiguous = random() % 2 == 0};
    access.mode = static_cast<AccessMode>(random() % 4);
    access.range.offset = random() % 3 == 0 ? random() % size : 0;
    access.range.bytes = size - access.range.offset;
    if (random() % 3 == 0) access.range.bytes = 1 + random() % access.range.bytes;
    accesses.push_back(access);
    index = (index + 1 + random() % (shadow.tensors.size() / 4)) % shadow.tensors.size();
  }
  return accesses;
}

bool Overwrites(const std::vector<Access>& accesses) {
  return std::any_of(accesses.begin(), accesses.end(), [](const Access& access) {
    return access.mode == AccessMode::kOverwrite;
  });
}

std::size_t IndexOf(const Shadow& shadow, TensorId tensor) {
  return static_cast<std::size_t>(std::find(shadow.tensors.begin(), shadow.tensors.end(), tensor) -
                                  shadow.tensors.begin());
}

void CheckAndWrite(const Lease& lease,
                   const Access& access,
                   Shadow& shadow,
                   std::mt19937_64& random) {
  std::byte* expected = shadow.bytes[IndexOf(shadow, access.tensor)].data() + access.range.offset;
  for (const std::span<std::byte> span : lease.Spans()) {
    if (access.mode != AccessMode::kOverwrite) {
      ASSERT_TRUE(std::equal(span.begin(), span.end(), expected));
    }
    if (access.mode != AccessMode::kRead) {
      for (std::byte& byte : span) byte = static_cast<std::byte>(random());
      std::copy(span.begin(), span.end(), expected);
    }
    expected += span.size();
  }
  if (access.contiguous) {
    const std::span<std::byte> whole = lease.Contiguous();
    ASSERT_TRUE(
        std::equal(whole.begin(),
                   whole.end(),
                   shadow.bytes[IndexOf(shadow, access.tensor)].data() + access.range.offset));
  }
}

void RunThread(RuntimeFixture& runtime, Shadow& shadow, std::uint64_t seed, int thread) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < kOps && !::testing::Test::HasFailure(); ++i) {
    const std::vector<Access> accesses = RandomAccesses(shadow, random);
    Op op = runtime->BeginOp(
        {.name = "op" + std::to_string(i), .lane = "lane" + std::to_string(thread)});
    Ticket ticket = op.AcquireAll(accesses);
    // Gives the ticket up, which may come after its grant: an overwrite would then have happened.
    if (random() % 16 == 0 && !Overwrites(accesses)) continue;
    auto leases = ticket.Take();
    ASSERT_THAT(leases, IsOk());
    for (std::size_t k = 0; k < accesses.size(); ++k) {
      CheckAndWrite((*leases)[k], accesses[k], shadow, random);
    }
  }
}

void StressWithSeed(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  RuntimeFixture runtime;
  runtime.options.worker_threads = 2;
  runtime.options.request_queue_capacity = 2;
  runtime.Start();
  std::mt19937_64 random(seed);
  Shadow shadow = MakeTensors(runtime, random);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i, thread_seed = random()] {
      SCOPED_TRACE("seed " + std::to_string(seed));
      RunThread(runtime, shadow, thread_seed, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < shadow.tensors.size(); ++i) {
    EXPECT_EQ(runtime.Read(shadow.tensors[i]), shadow.bytes[i]) << "tensor " << i;
  }
  const Stats stats = runtime->GetStats();
  for (const auto& [name, tier] : stats.tiers) {
    EXPECT_LE(tier.peak_bytes, tier.budget_bytes) << name;
  }
  EXPECT_EQ(stats.pages_lost, 0u);
}

TEST(LeaseStressTest, RandomLeasesOfManyThreadsMatchAShadowCopy) {
  for (std::uint64_t seed = 1; seed <= 4 && !HasFailure(); ++seed) StressWithSeed(seed);
}

}  // namespace
}  // namespace sluice

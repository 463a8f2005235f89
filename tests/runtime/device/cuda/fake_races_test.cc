// Work without an order between its pieces: ThreadSanitizer must report it.

#include <cstdlib>
#include <functional>
#include <thread>

#include "absl/base/config.h"
#include "gtest/gtest.h"
#include "tests/runtime/device/cuda/gpu_session.h"
#include "tests/support/cuda/fake_cuda.h"

namespace sluice::testing {
namespace {

using device::CudaEvent;
using device::CudaStream;

/// Two streams and a frame with two addresses.
struct RaceTrack {
  explicit RaceTrack(FakeCuda& driver)
      : fake(driver),
        gpu(driver),
        first(gpu.Stream()),
        second(gpu.Stream()),
        event(gpu.Event()),
        address(gpu.Addresses(gpu.frame_bytes())),
        alias(gpu.Addresses(gpu.frame_bytes())),
        host(gpu.Pinned(1)) {
    const device::CudaMemory frame = gpu.Frame();
    gpu.Map(address, frame);
    gpu.Map(alias, frame);
  }

  void Add(std::byte* at, CudaStream stream) { CUDA_OK(gpu.lab().LaunchAdd({at, 16}, 1, stream)); }
  /// Returns once the first piece of work has ended, without an order that anything may rely on.
  void Rest() const {
    while (fake.ended_work() == 0) {
      std::this_thread::yield();
    }
  }

  FakeCuda& fake;
  GpuSession gpu;
  CudaStream first;
  CudaStream second;
  CudaEvent event;
  std::byte* address;
  std::byte* alias;
  std::span<std::byte> host;
};

void Race(const std::function<void(RaceTrack&)>& body) {
  FakeCudaOptions options;
  options.facts.granularity = 64 << 10;
  options.delay_max = {};
  FakeCuda fake(options);
  RaceTrack track(fake);
  body(track);
}

#if defined(ABSL_HAVE_THREAD_SANITIZER)

// Times that each race is run: ThreadSanitizer may miss one, by how its threads fall.
constexpr int kRuns = 20;

// ThreadSanitizer's exit code, at the end of a process that it reported something of.
void ExpectRace(const std::function<void(RaceTrack&)>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        for (int run = 0; run < kRuns; ++run) Race(body);
        std::exit(0);
      },
      ::testing::ExitedWithCode(66),
      "ThreadSanitizer: data race");
}

TEST(FakeRacesDeathTest, KernelsOfTwoStreamsOnOneFrame) {
  ExpectRace([](RaceTrack& track) {
    track.Add(track.address, track.first);
    track.Rest();
    track.Add(track.alias, track.second);
  });
}

// Calls on the first stream, after its work has ended, put nothing in order.
TEST(FakeRacesDeathTest, CallsOnAStreamAreNoWait) {
  ExpectRace([](RaceTrack& track) {
    track.Add(track.address, track.first);
    track.Rest();
    CUDA_OK(track.gpu.lab().LaunchGate(0, track.first));
    CUDA_OK(track.gpu.api().RecordEvent(track.event, track.first));
    track.Add(track.alias, track.second);
    while (track.fake.ended_work() < 2) {
      std::this_thread::yield();
    }
    track.gpu.lab().Open(0);
  });
}

TEST(FakeRacesDeathTest, AnEventBeforeTheWorkIsNoWait) {
  ExpectRace([](RaceTrack& track) {
    CUDA_OK(track.gpu.api().RecordEvent(track.event, track.first));
    track.Add(track.address, track.first);
    track.Rest();
    CUDA_OK(track.gpu.api().QueryEvent(track.event));
    CUDA_OK(track.gpu.api().WaitEvent(track.second, track.event));
    track.Add(track.address, track.second);
  });
}

TEST(FakeRacesDeathTest, ACopyOutBesideAFill) {
  ExpectRace([](RaceTrack& track) {
    track.gpu.CopyOut(track.host, track.address, track.first);
    track.Rest();
    CUDA_OK(track.gpu.api().Fill(track.alias, 1, 16, track.second));
  });
}

TEST(FakeRacesDeathTest, TheHostReadsBeforeTheCopyIsWaitedFor) {
  ExpectRace([](RaceTrack& track) {
    track.gpu.CopyOut(track.host, track.address, track.first);
    track.Rest();
    EXPECT_EQ(track.host[0], std::byte{0xA5});
  });
}

TEST(FakeRacesDeathTest, AnUnmapBeforeTheWorkIsWaitedFor) {
  ExpectRace([](RaceTrack& track) {
    track.Add(track.address, track.first);
    track.Rest();
    track.gpu.Unmap(track.address);
  });
}

#endif

// None of these is a race; a report here fails the whole binary.
TEST(FakeRacesTest, WaitsAndReadsAreInOrder) {
  Race([](RaceTrack& track) {
    track.Add(track.address, track.first);
    CUDA_OK(track.gpu.api().RecordEvent(track.event, track.first));
    CUDA_OK(track.gpu.api().WaitEvent(track.second, track.event));
    track.Add(track.alias, track.second);
    track.gpu.Finish(track.second);
    track.gpu.CopyOut(track.host, track.address, track.first);
    track.gpu.CopyOut(track.gpu.Pinned(0), track.alias, track.second);
    track.gpu.Finish(track.first);
    EXPECT_EQ(track.host[0], std::byte{0xA7});
    track.gpu.Unmap(track.address);
  });
}

}  // namespace
}  // namespace sluice::testing

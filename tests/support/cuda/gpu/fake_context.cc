#include "tests/support/cuda/gpu/fake_context.h"

#include <algorithm>
#include <utility>

namespace sluice::testing {

using device::CudaCode;
using device::kCudaSuccess;

FakeContext::FakeContext(const Options& options) : options_(options) {
  legacy_ = &MakeStream(false, false);
}

FakeContext::~FakeContext() {
  fate_.Kill(device::kCudaDeinitialized);
  WaitForAllWork();
}

FakeStream& FakeContext::MakeStream(bool waits_for_legacy, bool of_user) {
  const base::MutexLock lock(mutex_);
  streams_.push_back(
      std::make_unique<FakeStream>(fate_,
                                   FakeStream::Options{.waits_for_legacy = waits_for_legacy,
                                                       .of_user = of_user,
                                                       .seed = options_.seed + streams_.size(),
                                                       .delay_max = options_.delay_max}));
  return *streams_.back();
}

std::vector<FakeStream*> FakeContext::Streams() {
  const base::MutexLock lock(mutex_);
  std::vector<FakeStream*> streams;
  for (const auto& stream : streams_) {
    streams.push_back(stream.get());
  }
  return streams;
}

void FakeContext::Push(FakeStream& stream, std::vector<FakeItem> items) {
  if (&stream != legacy_ && !stream.options().waits_for_legacy) {
    stream.Push(std::move(items));
    return;
  }
  const base::MutexLock lock(legacy_mutex_);
  if (&stream == legacy_) {
    for (FakeStream* other : Streams()) {
      if (other->options().waits_for_legacy) {
        stream.Push({{.wait = &other->Mark()}});
      }
    }
    stream.Push(std::move(items));
    legacy_work_ = &stream.Mark();
    return;
  }
  if (legacy_work_ != nullptr) {
    stream.Push({{.wait = legacy_work_}});
  }
  stream.Push(std::move(items));
}

void FakeContext::WaitForAllWork() {
  std::vector<const FakeFlag*> marks;
  for (FakeStream* stream : Streams()) {
    marks.push_back(&stream->Mark());
  }
  for (const FakeFlag* mark : marks) {
    mark->Wait();
  }
}

CudaCode FakeContext::Error() {
  const CudaCode error = fate_.error();
  if (error != kCudaSuccess) {
    WaitForAllWork();
  }
  return error;
}

bool FakeContext::CapturesBlockingStream() {
  const std::vector<FakeStream*> streams = Streams();
  return std::any_of(streams.begin(), streams.end(), [](FakeStream* stream) {
    return stream->options().waits_for_legacy && stream->capture() != nullptr;
  });
}

int FakeContext::LeakedStreams() {
  const std::vector<FakeStream*> streams = Streams();
  return static_cast<int>(std::count_if(streams.begin(), streams.end(), [](FakeStream* stream) {
    return stream->options().of_user && stream->open();
  }));
}

}  // namespace sluice::testing

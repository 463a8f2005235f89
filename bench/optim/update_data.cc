#include "bench/optim/update_data.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"

namespace sluice::bench {
namespace {

/// Repeats `words` over a stream.
template <typename Word>
void FillWith(std::span<const Word> words, std::byte* data, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += words.size_bytes()) {
    std::memcpy(data + at, words.data(), std::min(words.size_bytes(), bytes - at));
  }
}

/// Numbers of either sign, from 0.5 to 1. The upper halves of fp32 numbers are bf16 numbers.
void FillWithNumbers(std::uint32_t seed, const ByteStream& stream, std::size_t count) {
  constexpr std::uint32_t kHalf = 0x3f000000;
  std::vector<std::uint32_t> words(4096);
  std::vector<std::uint16_t> halves(words.size());
  std::uint32_t random = seed;
  for (std::size_t i = 0; i < words.size(); ++i) {
    random = random * 1664525 + 1013904223;
    words[i] = (random & 0x807fffff) | kHalf;
    halves[i] = static_cast<std::uint16_t>(words[i] >> 16);
  }
  if (stream.element_bytes == 4) FillWith<std::uint32_t>(words, stream.data, 4 * count);
  if (stream.element_bytes == 2) FillWith<std::uint16_t>(halves, stream.data, 2 * count);
}

}  // namespace

std::uint64_t UpdateData::BytesOf(const optim::KernelSpec& spec, std::size_t count) {
  const optim::ElementBytes bytes = BytesPerElement(spec);
  return static_cast<std::uint64_t>((bytes.Kept() + bytes.gradient) * static_cast<double>(count));
}

absl::StatusOr<std::unique_ptr<UpdateData>> UpdateData::Create(const optim::KernelSpec& spec,
                                                               std::size_t count) {
  auto data = std::unique_ptr<UpdateData>(new UpdateData(spec, count));
  SLUICE_RETURN_IF_ERROR(data->Allocate());
  data->Fill();
  return data;
}

absl::Status UpdateData::Allocate() {
  const optim::ElementBytes bytes = BytesPerElement(spec_);
  const int states = optim::StateCount(spec_.optimizer);
  const auto state_bytes = static_cast<std::size_t>(bytes.states / states);
  SLUICE_RETURN_IF_ERROR(AddStream(static_cast<std::size_t>(bytes.parameter), true));
  SLUICE_RETURN_IF_ERROR(AddStream(static_cast<std::size_t>(bytes.gradient), false));
  for (int k = 0; k < states; ++k) {
    SLUICE_RETURN_IF_ERROR(AddStream(state_bytes, true));
    SLUICE_RETURN_IF_ERROR(AddScales());
  }
  return absl::OkStatus();
}

absl::Status UpdateData::AddStream(std::size_t element_bytes, bool writes) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<PageBuffers> buffer,
                          PageBuffers::Create(1, element_bytes * count_));
  streams_.push_back({buffer->memory().data(), element_bytes, writes});
  buffers_.push_back(std::move(buffer));
  return absl::OkStatus();
}

absl::Status UpdateData::AddScales() {
  scales_.push_back(nullptr);
  if (spec_.state != optim::StateType::k8Bit) return absl::OkStatus();
  const std::size_t bytes = count_ / optim::kStateBlock * sizeof(float);
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<PageBuffers> buffer, PageBuffers::Create(1, bytes));
  scales_.back() = reinterpret_cast<float*>(buffer->memory().data());
  std::memset(scales_.back(), 0, bytes);
  buffers_.push_back(std::move(buffer));
  return absl::OkStatus();
}

void UpdateData::Fill() const {
  FillWithNumbers(1, streams_[0], count_);
  FillWithNumbers(2, streams_[1], count_);
  for (std::size_t k = 2; k < streams_.size(); ++k) {
    std::memset(streams_[k].data, 0, streams_[k].element_bytes * count_);
  }
}

optim::KernelArgs UpdateData::Args(std::size_t begin, std::size_t count) const {
  const auto at = [begin](const ByteStream& stream) {
    return stream.data + begin * stream.element_bytes;
  };
  optim::KernelArgs args{.scalars = {.learning_rate = 0.01f,
                                     .beta1 = 0.9f,
                                     .beta2 = 0.999f,
                                     .eps = 1e-8f,
                                     .weight_decay = 0.01f,
                                     .moment1_scale = 1.1f,
                                     .moment2_scale = 1.1f},
                         .key = {.seed = 1, .tensor = 2, .step = 3},
                         .element = begin,
                         .count = count,
                         .parameters = at(streams_[0]),
                         .gradients = at(streams_[1])};
  for (std::size_t k = 0; k + 2 < streams_.size(); ++k) {
    args.states[k].values = at(streams_[k + 2]);
    if (scales_[k] != nullptr) args.states[k].scales = scales_[k] + begin / optim::kStateBlock;
  }
  return args;
}

bool UpdateData::huge() const {
  return std::all_of(
      buffers_.begin(), buffers_.end(), [](const auto& buffer) { return buffer->huge(); });
}

}  // namespace sluice::bench

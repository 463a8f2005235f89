#include "tests/faults/trace/tensor_model.h"

#include <algorithm>
#include <cstring>

namespace sluice::faults {
namespace {

/// The word at `at` of the page.
std::uint64_t Word(Stamp stamp, std::uint64_t at) {
  if (stamp == 0) return 0;
  const std::uint64_t word = stamp * 0x9e3779b97f4a7c15u + at * 0xbf58476d1ce4e5b9u;
  return word ^ (word >> 31);
}

}  // namespace

void FillPage(Stamp stamp, std::span<std::byte> page) {
  for (std::size_t at = 0; at < page.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = Word(stamp, at);
    std::memcpy(page.data() + at, &word, sizeof(word));
  }
}

bool PageHolds(Stamp stamp, std::span<const std::byte> page) {
  std::uint64_t difference = 0;
  for (std::size_t at = 0; at < page.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, page.data() + at, sizeof(word));
    difference |= word ^ Word(stamp, at);
  }
  return difference == 0;
}

bool ModelTensor::lost() const {
  return std::any_of(pages.begin(), pages.end(), [](const ModelPage& page) { return page.lost; });
}

TensorModel::TensorModel(const Trace& trace) {
  for (const TensorShape& shape : trace.tensors) {
    ModelTensor tensor;
    tensor.segment = NewSegment();
    tensor.first_page = static_cast<PageIndex>(owner_.size());
    tensor.reproducible = shape.reproducible;
    tensor.pages.resize(shape.pages);
    owner_.insert(owner_.end(), shape.pages, static_cast<std::uint32_t>(tensors_.size()));
    tensors_.push_back(std::move(tensor));
  }
}

ModelPage& TensorModel::Page(PageIndex page) {
  ModelTensor& owner = Owner(page);
  return owner.pages[page - owner.first_page];
}

}  // namespace sluice::faults

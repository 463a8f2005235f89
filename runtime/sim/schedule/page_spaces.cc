#include "runtime/sim/schedule/page_spaces.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "fmt/format.h"

namespace sluice::sim {
namespace {

/// Limit of the visits per page, of all tensors together. Only tensors that overlap visit a page so
/// often.
constexpr std::uint64_t kVisitsPerPageMax = 16;

/// Spaces in the order of their first tensors, and what each of them holds.
struct Spaces {
  std::vector<std::uint64_t> bytes;
  /// Space of each tensor.
  std::vector<std::size_t> of;
};

Spaces FindSpaces(const FileSchedule& schedule) {
  Spaces spaces;
  absl::flat_hash_map<std::uint64_t, std::size_t> segments;
  for (const FileTensor& tensor : schedule.tensors) {
    std::size_t space = spaces.bytes.size();
    if (tensor.segment.has_value()) {
      space = segments.try_emplace(*tensor.segment, space).first->second;
    }
    if (space == spaces.bytes.size()) spaces.bytes.push_back(0);
    std::uint64_t& bytes = spaces.bytes[space];
    bytes = std::max(bytes, tensor.segment_offset + tensor.bytes);
    spaces.of.push_back(space);
  }
  return spaces;
}

}  // namespace

absl::StatusOr<PageSpaces> PageSpaces::Create(const FileSchedule& schedule,
                                              std::uint64_t page_bytes,
                                              std::uint64_t pages_max) {
  const Spaces spaces = FindSpaces(schedule);
  std::vector<std::uint64_t> first(spaces.bytes.size());
  std::uint64_t pages = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = pages;
    pages += spaces.bytes[i] / page_bytes + (spaces.bytes[i] % page_bytes > 0 ? 1 : 0);
    if (pages > pages_max) {
      return absl::ResourceExhaustedError(
          fmt::format("the tensors have more than {} pages; give a larger --page", pages_max));
    }
  }
  PageSpaces result(page_bytes);
  result.used_.resize(pages);
  result.facts_.resize(pages);
  result.tensors_.resize(pages, UINT32_MAX);
  std::uint64_t visits = kVisitsPerPageMax * pages_max;
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(result.AddTensor(schedule.tensors[i], first[spaces.of[i]], &visits));
  }
  return result;
}

absl::Status PageSpaces::AddTensor(const FileTensor& tensor,
                                   std::uint64_t first_page,
                                   std::uint64_t* visits) {
  const FileAccess whole{static_cast<std::uint32_t>(begin_.size()), {0, tensor.bytes}};
  begin_.push_back(first_page * page_bytes_ + tensor.segment_offset);
  const Range range = OfAccess(whole);
  const std::uint64_t pages = range.last - range.first;
  if (pages > *visits) {
    return absl::ResourceExhaustedError(
        "the tensors of a segment overlap too often; give a larger --page");
  }
  *visits -= pages;
  for (PageIndex page = range.first; page < range.last; ++page) {
    AddFacts(tensor, page);
    if (used_[page] == 0) tensors_[page] = whole.tensor;
    used_[page] += BytesIn(whole, page);
  }
  return absl::OkStatus();
}

/// A page of several tensors is what the first of them is, and exists from iteration to iteration
/// when one of them does.
void PageSpaces::AddFacts(const FileTensor& tensor, PageIndex page) {
  Facts& facts = facts_[page];
  const bool file = tensor.home == TensorHome::kFile;
  if (used_[page] == 0) {
    facts = {tensor.kind, tensor.persistent, file};
    return;
  }
  facts.persistent = facts.persistent || tensor.persistent;
  facts.file_home = facts.file_home && file;
}

PageSpaces::Range PageSpaces::OfAccess(const FileAccess& access) const {
  const std::uint64_t begin = begin_[access.tensor] + access.range.offset;
  return {static_cast<PageIndex>(begin / page_bytes_),
          static_cast<PageIndex>((begin + access.range.bytes - 1) / page_bytes_ + 1)};
}

std::uint64_t PageSpaces::BytesIn(const FileAccess& access, PageIndex page) const {
  const std::uint64_t begin = begin_[access.tensor] + access.range.offset;
  const std::uint64_t page_begin = page * page_bytes_;
  return std::min(begin + access.range.bytes, page_begin + page_bytes_) -
         std::max(begin, page_begin);
}

}  // namespace sluice::sim

#include "numa/memory_sum.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "sluice/units.h"

namespace sluice::numa {
namespace {

std::uint64_t BytesBesideFrames(const MemorySum& sum) {
  std::uint64_t bytes = 0;
  for (const MemoryTerm& term : sum.terms()) {
    if (term.kind == MemoryKind::kOther) bytes += term.bytes;
  }
  return bytes;
}

/// What is left, and where that is said.
struct Room {
  std::uint64_t bytes = 0;
  std::string source;
};

absl::Status NoRoom(std::string_view wanted,
                    const MemorySum& sum,
                    const Room& room,
                    std::string_view fix) {
  return absl::ResourceExhaustedError(absl::StrCat(base::ToAbsl(wanted),
                                                   " of memory (",
                                                   sum.Describe(),
                                                   "), and ",
                                                   ToString(Bytes(room.bytes)),
                                                   " are available (",
                                                   room.source,
                                                   "); ",
                                                   base::ToAbsl(fix),
                                                   ", or raise that limit"));
}

}  // namespace

void MemorySum::Add(MemoryTerm term) {
  if (term.bytes == 0) return;
  bytes_ += term.bytes;
  terms_.push_back(std::move(term));
}

void MemorySum::Add(const MemorySum& other) {
  for (const MemoryTerm& term : other.terms()) Add(term);
}

std::string MemorySum::Describe() const {
  std::vector<MemoryTerm> sorted = terms_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const MemoryTerm& a, const MemoryTerm& b) {
    return a.bytes > b.bytes;
  });
  std::string text;
  for (const MemoryTerm& term : sorted) {
    absl::StrAppend(
        &text, text.empty() ? "" : ", ", ToString(Bytes(term.bytes)), " for ", term.name);
  }
  return text;
}

absl::Status CheckFits(const MemorySum& sum,
                       const MemoryLimits& limits,
                       std::string_view who,
                       std::string_view fix) {
  if (sum.bytes() > limits.available_bytes) {
    return NoRoom(absl::StrCat(base::ToAbsl(who), " takes ", ToString(Bytes(sum.bytes()))),
                  sum,
                  {limits.available_bytes, limits.available_source},
                  fix);
  }
  const std::uint64_t beside = BytesBesideFrames(sum);
  if (!limits.data_bytes || beside <= *limits.data_bytes) return absl::OkStatus();
  return NoRoom(absl::StrCat(base::ToAbsl(who),
                             " takes ",
                             ToString(Bytes(beside)),
                             " beside its frames, in all ",
                             ToString(Bytes(sum.bytes()))),
                sum,
                {*limits.data_bytes, "RLIMIT_DATA (ulimit -d)"},
                fix);
}

}  // namespace sluice::numa

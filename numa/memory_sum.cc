#include "numa/memory_sum.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/strings.h"
#include "sluice/units.h"

namespace sluice::numa {
namespace {

using Counts = bool (*)(MemoryKind kind);

bool IsMemory(MemoryKind kind) {
  return kind != MemoryKind::kStacks && kind != MemoryKind::kAddresses;
}
bool IsData(MemoryKind kind) { return kind == MemoryKind::kOther || kind == MemoryKind::kStacks; }
bool IsAddresses(MemoryKind kind) { return kind != MemoryKind::kChild; }

/// A limit: what it counts, and what is left of it.
struct Limit {
  std::string_view what;
  Counts counts;
  std::uint64_t left = 0;
  std::string_view source;
};

/// Terms that the limit counts, the largest first.
std::vector<MemoryTerm> TermsOf(const MemorySum& sum, Counts counts) {
  std::vector<MemoryTerm> terms;
  for (const MemoryTerm& term : sum.terms()) {
    if (counts(term.kind)) terms.push_back(term);
  }
  std::stable_sort(terms.begin(), terms.end(), [](const MemoryTerm& a, const MemoryTerm& b) {
    return a.bytes > b.bytes;
  });
  return terms;
}

std::uint64_t BytesOf(const std::vector<MemoryTerm>& terms) {
  return std::accumulate(
      terms.begin(), terms.end(), std::uint64_t{0}, [](std::uint64_t sum, const MemoryTerm& term) {
        return sum + term.bytes;
      });
}

/// "366 MiB for frames of dram, 1.75 MiB for threads".
std::string Describe(const std::vector<MemoryTerm>& terms) {
  std::string text;
  for (const MemoryTerm& term : terms) {
    absl::StrAppend(
        &text, text.empty() ? "" : ", ", ToString(Bytes(term.bytes)), " for ", term.name);
  }
  return text;
}

absl::Status CheckLimit(const MemorySum& sum,
                        const Limit& limit,
                        std::string_view who,
                        std::string_view fix) {
  const std::vector<MemoryTerm> terms = TermsOf(sum, limit.counts);
  const std::uint64_t bytes = BytesOf(terms);
  if (bytes <= limit.left) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(base::ToAbsl(who),
                                                   " takes ",
                                                   ToString(Bytes(bytes)),
                                                   " of ",
                                                   base::ToAbsl(limit.what),
                                                   " (",
                                                   Describe(terms),
                                                   "), and ",
                                                   ToString(Bytes(limit.left)),
                                                   " are available (",
                                                   base::ToAbsl(limit.source),
                                                   "); ",
                                                   base::ToAbsl(fix),
                                                   ", or raise that limit"));
}

/// The limit of memory itself. The limit of addresses may be the tightest, but has a check of its
/// own: a child process has one anew.
Limit MemoryLimit(MemoryLimits* limits) {
  if (limits->available_source == kAddressLimit) {
    limits->address_bytes.reset();
    ChooseTightest(limits);
  }
  return {"memory", IsMemory, limits->available_bytes, limits->available_source};
}

}  // namespace

void MemorySum::Add(MemoryTerm term) {
  if (term.bytes > 0) terms_.push_back(std::move(term));
}

void MemorySum::Add(const MemorySum& other) {
  for (const MemoryTerm& term : other.terms()) Add(term);
}

std::uint64_t MemorySum::bytes() const { return BytesOf(TermsOf(*this, IsMemory)); }

absl::Status CheckFits(const MemorySum& sum,
                       const MemoryLimits& limits,
                       std::string_view who,
                       std::string_view fix) {
  MemoryLimits memory = limits;
  SLUICE_RETURN_IF_ERROR(CheckLimit(sum, MemoryLimit(&memory), who, fix));
  if (limits.address_bytes) {
    SLUICE_RETURN_IF_ERROR(CheckLimit(
        sum, {"addresses", IsAddresses, *limits.address_bytes, kAddressLimit}, who, fix));
  }
  if (!limits.data_bytes) return absl::OkStatus();
  return CheckLimit(sum, {"data", IsData, *limits.data_bytes, "RLIMIT_DATA (ulimit -d)"}, who, fix);
}

}  // namespace sluice::numa

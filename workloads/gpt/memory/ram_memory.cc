#include "workloads/gpt/memory/ram_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "sluice/units.h"
#include "workloads/gpt/model/status.h"

namespace sluice::gpt {
namespace {

constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr std::uint64_t kChunk = std::uint64_t{64} << 20;
/// Tensors start on cache lines, as in a Runtime.
constexpr std::uint64_t kAlignment = 64;

constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

absl::StatusOr<std::span<std::byte>> RangeOf(std::span<const std::span<std::byte>> tensors,
                                             const Access& access) {
  const std::uint64_t id = access.tensor.value;
  if (id == 0 || id > tensors.size()) {
    return absl::InvalidArgumentError(fmt::format("no tensor has the id {}", id));
  }
  const std::span<std::byte> all = tensors[id - 1];
  if (access.range == kWholeTensor) return all;
  if (access.range.offset > all.size() || access.range.bytes > all.size() - access.range.offset) {
    return absl::InvalidArgumentError(fmt::format("bytes {}+{} are beyond the {} of tensor {}",
                                                  access.range.offset,
                                                  access.range.bytes,
                                                  all.size(),
                                                  id));
  }
  return all.subspan(access.range.offset, access.range.bytes);
}

/// One span per access.
class WholeBuffers : public OpBuffers {
 public:
  void Add(std::span<std::byte> span) { spans_.push_back(span); }
  std::span<std::byte> Contiguous(std::size_t access) const override { return spans_[access]; }
  std::span<const std::span<std::byte>> Spans(std::size_t access) const override {
    return {&spans_[access], 1};
  }

 private:
  std::vector<std::span<std::byte>> spans_;
};

}  // namespace

/// A mapping of huge pages from which tensors are cut, one after another.
class RamMemory::Chunk {
 public:
  static absl::StatusOr<std::unique_ptr<Chunk>> Create(std::uint64_t bytes) {
    const std::uint64_t size = RoundUp(bytes, kHugePage) + kHugePage;
    void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          fmt::format("the system gives no {} of memory", ToString(Bytes(size))));
    }
    // Huge pages are optional: a kernel without them refuses the call, and only speed depends on
    // it.
    (void)madvise(mapping, size, MADV_HUGEPAGE);
    return std::make_unique<Chunk>(static_cast<std::byte*>(mapping), size);
  }

  Chunk(std::byte* mapping, std::uint64_t size) : mapping_(mapping), size_(size) {
    const auto address = reinterpret_cast<std::uintptr_t>(mapping);
    used_ = RoundUp(address, kHugePage) - address;
  }
  ~Chunk() { munmap(mapping_, size_); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  /// Empty when there is no room.
  std::span<std::byte> Cut(std::uint64_t bytes) {
    if (used_ + bytes > size_) return {};
    const std::span<std::byte> piece(mapping_ + used_, bytes);
    used_ += RoundUp(bytes, kAlignment);
    return piece;
  }

 private:
  std::byte* mapping_;
  std::uint64_t size_;
  std::uint64_t used_ = 0;
};

RamMemory::RamMemory() = default;
RamMemory::~RamMemory() = default;

absl::StatusOr<std::span<std::byte>> RamMemory::Allocate(std::uint64_t bytes) {
  if (bytes == 0) return absl::InvalidArgumentError("a tensor has at least one element");
  if (!chunks_.empty()) {
    if (const std::span<std::byte> piece = chunks_.back()->Cut(bytes); !piece.empty()) return piece;
  }
  GPT_ASSIGN_OR_RETURN(std::unique_ptr<Chunk> chunk, Chunk::Create(std::max(bytes, kChunk)));
  chunks_.push_back(std::move(chunk));
  return chunks_.back()->Cut(bytes);
}

absl::StatusOr<std::vector<TensorId>> RamMemory::CreateTensors(std::span<const TensorSpec> specs) {
  std::vector<TensorId> ids;
  for (const TensorSpec& spec : specs) {
    GPT_ASSIGN_OR_RETURN(const std::span<std::byte> bytes, Allocate(SizeOf(spec).count()));
    tensors_.push_back(bytes);
    ids.push_back(TensorId{tensors_.size()});
  }
  return ids;
}

absl::Status RamMemory::BeginIteration(std::string_view) { return absl::OkStatus(); }
absl::Status RamMemory::EndIteration() { return absl::OkStatus(); }
absl::Status RamMemory::Flush() { return absl::OkStatus(); }
void RamMemory::SetObserver(OpObserver observer) { observer_ = std::move(observer); }

absl::Status RamMemory::Run(OpSpec op) {
  WholeBuffers buffers;
  for (const Access& access : op.accesses) {
    GPT_ASSIGN_OR_RETURN(const std::span<std::byte> bytes, RangeOf(tensors_, access));
    buffers.Add(bytes);
  }
  OpTiming timing{.begin = std::chrono::steady_clock::now()};
  op.compute(buffers);
  timing.end = std::chrono::steady_clock::now();
  timing.name = std::move(op.name);
  if (observer_) observer_(timing);
  return absl::OkStatus();
}

}  // namespace sluice::gpt

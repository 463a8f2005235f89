#include "bench/store/peers.h"

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "bench/store/plain_loop.h"
#include "bench/store/statistics.h"
#include "bench/store/store_side.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

constexpr std::uint32_t kDepth = 8;
constexpr std::array kPeerDirections = {Direction::kRead, Direction::kWrite};

constexpr char kBuffered[] = "buffered";
constexpr char kLibaio[] = "fio-libaio";
constexpr char kDefaultMemory[] = "fio-default-memory";
constexpr char kSmallPages[] = "small-pages";

std::string RowName(Direction direction, std::string_view peer) {
  return fmt::format("peer/{}/random/2MiB/{}", DirectionName(direction), peer);
}

struct Peer {
  std::string name;         ///< in the row's name
  std::string description;  ///< of the row's field
  std::function<absl::StatusOr<Sample>()> run;
  std::vector<Sample> samples = {};
};

std::vector<double> Rates(const std::vector<Sample>& samples) {
  std::vector<double> rates;
  for (const Sample& sample : samples) rates.push_back(sample.GiBPerSecond());
  return rates;
}

double CpuPerGiB(const std::vector<Sample>& samples) {
  std::vector<double> costs;
  for (const Sample& sample : samples) costs.push_back(sample.CpuSecondsPerGiB());
  return Median(costs);
}

/// All peers of one direction.
class PeerRun {
 public:
  PeerRun(const Session& session, const Load& load, const RowFn& add_row)
      : session_(session), load_(load), add_row_(add_row) {
    AddPeers();
  }

  absl::Status Run() {
    if (peers_.empty()) return absl::OkStatus();
    SLUICE_RETURN_IF_ERROR(MakeStore());
    for (int rep = 0; rep < session_.options().peer_reps; ++rep) {
      SLUICE_RETURN_IF_ERROR(RunOnce());
    }
    for (const Peer& peer : peers_) add_row_(MakeRow(peer));
    return absl::OkStatus();
  }

 private:
  void AddPeers();
  void Add(const std::string& name,
           const std::string& description,
           std::function<absl::StatusOr<Sample>()> run);
  absl::Status MakeStore();
  absl::StatusOr<Sample> RunOnSmallPages();
  absl::Status RunOnce();
  std::string NameOf(std::string_view peer) const { return RowName(load_.which.direction, peer); }
  Row MakeRow(const Peer& peer) const;

  const Session& session_;
  const Load load_;
  const RowFn& add_row_;
  std::vector<Peer> peers_;
  std::vector<Sample> ours_;
  std::unique_ptr<StoreSide> store_;
};

void PeerRun::AddPeers() {
  Add(kBuffered, "buffered pread and pwrite, one thread", [this] {
    return RunBuffered(*session_.files(), load_);
  });
  const FioMemory memory = session_.fio_has_huge_pages() ? FioMemory::kHuge : FioMemory::kDefault;
  Add(kLibaio,
      memory == FioMemory::kHuge ? "fio libaio" : "fio libaio on its default memory",
      [this, memory] { return session_.RunFioAs(load_, "libaio", memory); });
  Add(kDefaultMemory, "fio io_uring on its default memory", [this] {
    return session_.RunFioAs(load_, "io_uring", FioMemory::kDefault);
  });
  Add(kSmallPages, "this page store on memory without huge pages", [this] {
    return RunOnSmallPages();
  });
}

void PeerRun::Add(const std::string& name,
                  const std::string& description,
                  std::function<absl::StatusOr<Sample>()> run) {
  if (!MatchesPattern(session_.options().pattern, NameOf(name))) return;
  peers_.push_back({.name = name, .description = description, .run = std::move(run)});
}

absl::Status PeerRun::MakeStore() {
  session_.ShowProgress(NameOf("..."));
  SLUICE_ASSIGN_OR_RETURN(store_, StoreSide::Create(session_.files(), load_, Pages::kHuge));
  return absl::OkStatus();
}

absl::StatusOr<Sample> PeerRun::RunOnSmallPages() {
  SLUICE_RETURN_IF_ERROR(store_->ChangeMemory(Pages::kSmall));
  absl::StatusOr<Sample> sample = store_->Run();
  SLUICE_RETURN_IF_ERROR(store_->ChangeMemory(Pages::kHuge));
  return sample;
}

absl::Status PeerRun::RunOnce() {
  SLUICE_ASSIGN_OR_RETURN(const Sample ours, store_->Run());
  ours_.push_back(ours);
  for (Peer& peer : peers_) {
    SLUICE_RETURN_IF_ERROR(session_.CheckInterrupted());
    session_.ShowProgress(NameOf(peer.name));
    SLUICE_ASSIGN_OR_RETURN(const Sample sample, peer.run());
    peer.samples.push_back(sample);
  }
  return absl::OkStatus();
}

Row PeerRun::MakeRow(const Peer& peer) const {
  const std::vector<double> ours = Rates(ours_);
  const std::vector<double> theirs = Rates(peer.samples);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  return {.name = NameOf(peer.name),
          .value = Median(ours),
          .unit = "GiB/s",
          .reps = static_cast<int>(ours.size()),
          .spread = Spread(ours),
          .huge_pages = store_->huge(),
          .registered_bytes = store_->registered_bytes(),
          .depth = load_.depth,
          .cpu_per_gib = CpuPerGiB(ours_),
          .peer = peer.description,
          .peer_value = Median(theirs),
          .peer_ratio = Median(ratios),
          .peer_cpu_per_gib = CpuPerGiB(peer.samples)};
}

}  // namespace

std::vector<std::string> PeerRowNames() {
  std::vector<std::string> names;
  for (const Direction direction : kPeerDirections) {
    for (const char* const peer : {kBuffered, kLibaio, kDefaultMemory, kSmallPages}) {
      names.push_back(RowName(direction, peer));
    }
  }
  return names;
}

absl::Status MeasurePeers(const Session& session, const RowFn& add_row) {
  for (const Direction direction : kPeerDirections) {
    const Case which{
        .direction = direction, .pattern = Pattern::kRandom, .page_bytes = kPeerPageBytes};
    PeerRun run(session, session.MakeLoad(which, kDepth), add_row);
    SLUICE_RETURN_IF_ERROR(run.Run());
  }
  return absl::OkStatus();
}

}  // namespace sluice::bench

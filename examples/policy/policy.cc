// A replacement policy of one's own: policy [--policy lru|fifo|...|mru]. In a loop over more than
// fits, the page that was used last is the right one to go.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

class Mru : public sluice::Policy {
 public:
  void OnArrive(int tier, const sluice::PageFacts& facts) override { Put(tier, facts.page); }
  void OnUse(int tier, sluice::PageIndex page) override { Put(tier, page); }
  void OnLeave(int tier, sluice::PageIndex page, sluice::Departure) override {
    std::erase(order_[tier], page);
  }
  std::optional<sluice::PageIndex> Victim(
      const sluice::VictimRequest& request,
      const std::function<bool(sluice::PageIndex)>& evictable) override {
    const auto found = std::ranges::find_if(order_[request.tier], evictable);
    return found == order_[request.tier].end() ? std::nullopt : std::optional(*found);
  }

 private:
  void Put(int tier, sluice::PageIndex page) {
    std::erase(order_[tier], page);
    order_[tier].insert(order_[tier].begin(), page);
  }
  std::map<int, std::vector<sluice::PageIndex>> order_;  // per tier, the page used last first
};

int main(int argc, char** argv) {
  using namespace sluice::literals;
  sluice::RuntimeOptions options{.page_bytes = 64_KiB, .dram_bytes = 2_MiB, .nvme_bytes = 8_MiB};
  options.prefetch_ops = 0;  // only the policy decides what is read again
  options.custom_policies["mru"] = {.create = [] { return std::make_unique<Mru>(); },
                                    .online = true};
  options.policy = argc == 3 && std::strcmp(argv[1], "--policy") == 0 ? argv[2] : "mru";
  const auto runtime = Check(sluice::Runtime::Create(options));
  const sluice::TensorId tensor = Check(runtime->CreateTensor({.name = "t", .shape = {1 << 20}}));
  std::vector<float> values(1 << 20);
  for (int round = 0; round < 20; ++round) {
    Check(runtime->Read(tensor, std::as_writable_bytes(std::span(values))));
    if (round == 0) Check(runtime->Write(tensor, std::as_bytes(std::span(values))));
  }
  std::printf("%s: %ju pages read from disk\n",
              options.policy.c_str(),
              std::uintmax_t{runtime->GetStats().links.at("dram-nvme").in.bytes >> 16});
}

// A replacement policy of one's own: policy [--policy lru|fifo|...|mru]. In a loop, mru is right.
#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"
using namespace sluice;
class Mru : public Policy {
 public:
  void OnArrive(int tier, const PageFacts& facts) override { OnUse(tier, facts.page); }
  void OnUse(int tier, PageIndex page) override {
    std::erase(order_[tier], page);
    order_[tier].insert(order_[tier].begin(), page);
  }
  void OnLeave(int tier, PageIndex page, Departure) override { std::erase(order_[tier], page); }
  std::optional<PageIndex> Victim(const VictimRequest& request,
                                  const std::function<bool(PageIndex)>& evictable) override {
    const auto found = std::ranges::find_if(order_[request.tier], evictable);
    return found == order_[request.tier].end() ? std::nullopt : std::optional(*found);
  }
  std::map<int, std::vector<PageIndex>> order_;  // pages per tier, the one used last first
};

int main(int argc, char** argv) {
  RuntimeOptions options{.page_bytes = 64_KiB, .dram_bytes = 2_MiB, .nvme_bytes = 8_MiB};
  options.prefetch_ops = 0;  // nothing but the policy decides what is read again
  options.custom_policies["mru"].create = [] { return std::make_unique<Mru>(); };
  const bool named = argc == 3 && std::string_view(argv[1]) == "--policy";
  if (argc > 1 && !named) return std::fputs("usage: policy [--policy NAME]\n", stderr), 2;
  options.policy = named ? argv[2] : "mru";
  const auto runtime = Check(Runtime::Create(options));
  const TensorId tensor = Check(runtime->CreateTensor({.name = "t", .shape = {1 << 20}}));
  std::vector<std::byte> bytes(4 << 20);
  Check(runtime->Write(tensor, bytes));
  for (int round = 0; round < 20; ++round) Check(runtime->Read(tensor, bytes));
  const std::uintmax_t pages = runtime->GetStats().links.at("dram-nvme").in.bytes >> 16;
  std::printf("%s: %ju pages read from disk\n", options.policy.c_str(), pages);
}

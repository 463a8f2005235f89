#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/strings.h"
#include "runtime/core/core.h"
#include "runtime/core/policies/arc.h"
#include "runtime/core/policies/foresight.h"
#include "runtime/core/policies/replacement.h"
#include "runtime/core/policies/s3_fifo.h"
#include "runtime/core/policies/second_chance.h"
#include "runtime/core/policies/simple.h"
#include "runtime/core/policies/two_queue.h"

namespace sluice::core {
namespace {

struct Named {
  std::string_view name;
  std::shared_ptr<Policy> (*create)(std::string_view name, const PolicyOptions& options);
};

template <typename R, typename... Options>
std::shared_ptr<Policy> Online(std::string_view name, const Options&... options) {
  return std::make_shared<OnlinePolicy>(name, [=] { return std::make_unique<R>(options...); });
}

constexpr std::array kPolicies = {
    Named{"min",
          [](auto, auto&) -> std::shared_ptr<Policy> { return std::make_shared<MinPolicy>(); }},
    Named{"next-use-cost",
          [](auto, auto&) -> std::shared_ptr<Policy> {
            return std::make_shared<NextUseCostPolicy>(NextUseCostOptions{});
          }},
    Named{"planned",
          [](auto, auto&) -> std::shared_ptr<Policy> { return std::make_shared<PlannedPolicy>(); }},
    Named{"fifo", [](auto name, auto&) { return Online<Fifo>(name); }},
    Named{"lru", [](auto name, auto&) { return Online<Lru>(name); }},
    Named{"clock", [](auto name, auto&) { return Online<Clock>(name); }},
    Named{"lfu", [](auto name, auto&) { return Online<Lfu>(name); }},
    Named{"2q", [](auto name, auto&) { return Online<TwoQueue>(name, TwoQueueOptions{}); }},
    Named{"arc", [](auto name, auto&) { return Online<Arc>(name); }},
    Named{"s3fifo", [](auto name, auto&) { return Online<S3Fifo>(name, S3FifoOptions{}); }},
    Named{"sieve", [](auto name, auto&) { return Online<Sieve>(name); }},
    Named{"gdsf", [](auto name, auto&) { return Online<Gdsf>(name, GdsfOptions{}); }},
    Named{"random",
          [](auto name, const PolicyOptions& options) {
            return Online<RandomReplacement>(name, options.random_seed);
          }},
};

}  // namespace

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const Named& named : kPolicies) names.emplace_back(named.name);
  return names;
}

absl::StatusOr<std::shared_ptr<Policy>> CreatePolicy(std::string_view name,
                                                     const PolicyOptions& options) {
  for (const Named& named : kPolicies) {
    if (named.name == name) return named.create(named.name, options);
  }
  const std::vector<std::string> names = PolicyNames();
  return absl::InvalidArgumentError(absl::StrCat("unknown policy \"",
                                                 base::ToAbsl(name),
                                                 "\"; allowed are ",
                                                 absl::StrJoin(names, ", "),
                                                 base::DidYouMean(name, names)));
}

}  // namespace sluice::core

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/strings.h"
#include "runtime/core/core.h"
#include "runtime/core/policies/arc.h"
#include "runtime/core/policies/custom_policy.h"
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
  std::shared_ptr<PagingPolicy> (*create)(std::string_view name, const PolicyOptions& options);
};

template <typename R, typename... Options>
std::shared_ptr<PagingPolicy> Online(std::string_view name, const Options&... options) {
  return std::make_shared<OnlinePolicy>(name, [=] { return std::make_unique<R>(options...); });
}

template <typename P>
std::shared_ptr<PagingPolicy> Knowing() {
  return std::make_shared<P>();
}

constexpr std::array kPolicies = {
    Named{"min", [](auto, auto&) { return Knowing<MinPolicy>(); }},
    Named{"next-use-cost", [](auto, auto&) { return Knowing<NextUseCostPolicy>(); }},
    Named{"planned", [](auto, auto&) { return Knowing<PlannedPolicy>(); }},
    Named{"fifo", [](auto name, auto&) { return Online<Fifo>(name); }},
    Named{"lru", [](auto name, auto&) { return Online<Lru>(name); }},
    Named{"clock", [](auto name, auto&) { return Online<Clock>(name); }},
    Named{"lfu", [](auto name, auto&) { return Online<Lfu>(name); }},
    Named{"2q", [](auto name, auto&) { return Online<TwoQueue>(name); }},
    Named{"arc", [](auto name, auto&) { return Online<Arc>(name); }},
    Named{"s3fifo", [](auto name, auto&) { return Online<S3Fifo>(name); }},
    Named{"sieve", [](auto name, auto&) { return Online<Sieve>(name); }},
    Named{"gdsf", [](auto name, auto&) { return Online<Gdsf>(name); }},
    Named{"random",
          [](auto name, const PolicyOptions& options) {
            return Online<RandomReplacement>(name, options.random_seed);
          }},
};

std::map<std::string, CustomPolicy> CustomOf(const PolicyOptions& options) {
  return options.custom == nullptr ? std::map<std::string, CustomPolicy>() : *options.custom;
}

absl::StatusOr<std::shared_ptr<PagingPolicy>> Adapt(const std::string& name,
                                                    const CustomPolicy& custom) {
  std::unique_ptr<Policy> policy = custom.create ? custom.create() : nullptr;
  if (policy != nullptr) {
    return std::make_shared<AdaptedPolicy>(name, custom.online, std::move(policy));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("custom policy \"", name, "\" makes no policy: set CustomPolicy::create"));
}

bool IsBuiltIn(std::string_view name) {
  return std::ranges::count(kPolicies, name, &Named::name) > 0;
}

absl::Status CheckNames(const std::map<std::string, CustomPolicy>& custom) {
  for (const auto& [name, policy] : custom) {
    if (!IsBuiltIn(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "custom policy \"", name, "\" has the name of a built-in one: choose another name"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const Named& named : kPolicies) names.emplace_back(named.name);
  return names;
}

absl::StatusOr<std::shared_ptr<PagingPolicy>> CreatePolicy(std::string_view name,
                                                           const PolicyOptions& options) {
  const std::map<std::string, CustomPolicy> all_custom = CustomOf(options);
  SLUICE_RETURN_IF_ERROR(CheckNames(all_custom));
  if (const auto found = all_custom.find(std::string(name)); found != all_custom.end()) {
    return Adapt(found->first, found->second);
  }
  for (const Named& named : kPolicies) {
    if (named.name == name) return named.create(named.name, options);
  }
  std::vector<std::string> names = PolicyNames();
  for (const auto& [custom, policy] : all_custom) names.push_back(custom);
  return absl::InvalidArgumentError(absl::StrCat("unknown policy \"",
                                                 base::ToAbsl(name),
                                                 "\"; allowed are ",
                                                 absl::StrJoin(names, ", "),
                                                 base::DidYouMean(name, names)));
}

}  // namespace sluice::core

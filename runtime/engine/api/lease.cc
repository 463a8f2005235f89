#include "sluice/lease.h"

#include <utility>

#include "base/check.h"
#include "runtime/engine/api/lease_state.h"

namespace sluice {

Lease::Lease() = default;
Lease::Lease(std::shared_ptr<internal::LeaseState> state) : state_(std::move(state)) {}
Lease::Lease(Lease&&) noexcept = default;
Lease& Lease::operator=(Lease&&) noexcept = default;
Lease::~Lease() = default;

TensorId Lease::tensor() const { return valid() ? state_->facts().tensor : TensorId{}; }
TierId Lease::tier() const { return valid() ? state_->facts().tier : TierId{}; }
AccessMode Lease::mode() const { return valid() ? state_->facts().mode : AccessMode::kRead; }

std::span<std::byte> Lease::Contiguous() const {
  SLUICE_CHECK(valid(), "Lease::Contiguous needs a valid lease");
  SLUICE_CHECK(state_->facts().address != nullptr,
               "Lease::Contiguous needs an access that asked for a contiguous address");
  return {state_->facts().address, state_->facts().bytes};
}

bool Lease::host_accessible() const {
  SLUICE_CHECK(valid(), "Lease::host_accessible needs a valid lease");
  return state_->facts().host_accessible;
}

bool Lease::pinned() const {
  SLUICE_CHECK(valid(), "Lease::pinned needs a valid lease");
  return state_->facts().pinned;
}

std::span<std::byte> Lease::HostBytes() const {
  SLUICE_CHECK(host_accessible(),
               "Lease::As is for the host, and this lease is in the hbm of a GPU: take "
               "Lease::Contiguous for a kernel, or an access with tier = kDram0");
  return Contiguous();
}

const std::vector<std::span<std::byte>>& Lease::Spans() const {
  SLUICE_CHECK(valid(), "Lease::Spans needs a valid lease");
  return state_->facts().spans;
}

const std::vector<std::uint32_t>& Lease::Nodes() const {
  SLUICE_CHECK(valid(), "Lease::Nodes needs a valid lease");
  return state_->facts().nodes;
}

void Lease::Release() { state_.reset(); }

}  // namespace sluice

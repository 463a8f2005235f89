#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/status.h"
#include "runtime/engine/report/named_range.h"
#include "sluice/runtime.h"

namespace sluice {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS};

/// The actions that were installed before, one per signal.
std::array<struct sigaction, kSignals.size()>& EarlierActions() {
  static constinit std::array<struct sigaction, kSignals.size()> actions{};
  return actions;
}

const struct sigaction& EarlierAction(int signal) {
  return EarlierActions()[signal == SIGBUS ? 1 : 0];
}

/// A line that is made and written by what a signal handler may call. Text that does not fit is cut
/// off.
class SignalLine {
 public:
  SignalLine& Add(std::string_view text) {
    const std::size_t bytes = std::min(text.size(), kTextMax - size_);
    std::memcpy(text_.data() + size_, text.data(), bytes);
    size_ += bytes;
    return *this;
  }
  SignalLine& Add(std::uint64_t number) {
    std::array<char, 20> digits{};
    std::size_t first = digits.size();
    do {
      digits[--first] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    return Add(std::string_view(digits.data() + first, digits.size() - first));
  }
  /// Writes it, with its end.
  void Write() {
    text_[size_++] = '\n';
    for (std::size_t done = 0; done < size_;) {
      const ssize_t written = write(STDERR_FILENO, text_.data() + done, size_ - done);
      if (written < 0 && errno != EINTR) return;
      if (written > 0) done += static_cast<std::size_t>(written);
    }
  }

 private:
  static constexpr std::size_t kTextMax = 511;
  std::array<char, kTextMax + 1> text_{};
  std::size_t size_ = 0;
};

/// The verb for what was tried, as far as the processor tells.
std::string_view DeedOf([[maybe_unused]] void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWriteBit = 2;
  const auto* const user = static_cast<const ucontext_t*>(context);
  return (user->uc_mcontext.gregs[REG_ERR] & kWriteBit) != 0 ? "written" : "read";
#else
  return "touched";
#endif
}

struct Fault {
  int signal;
  void* context;
};

/// A SIGBUS says nothing of leases: what is mapped has no bytes.
void TellFault(void* context, const char* name, std::uint64_t offset) {
  const Fault& fault = *static_cast<const Fault*>(context);
  // Names may be long: what follows them must still fit.
  constexpr std::size_t kNameMax = 300;
  SignalLine line;
  if (name == nullptr) {
    line.Add("sluice: padding between tensors");
  } else {
    line.Add("sluice: tensor '").Add(std::string_view(name).substr(0, kNameMax)).Add("'");
  }
  if (fault.signal == SIGBUS) {
    line.Add(" has no bytes to show at byte ").Add(offset);
    line.Add(": its file has shrunk or cannot be read, or the system is out of memory (SIGBUS)");
  } else {
    line.Add(" is ").Add(DeedOf(fault.context)).Add(" at byte ").Add(offset);
    line.Add(" outside a lease that allows it (SIGSEGV)");
  }
  line.Write();
}

/// Handles the signal as if this handler had not been installed.
void PassOn(int signal, siginfo_t* info, void* context) {
  const struct sigaction& earlier = EarlierAction(signal);
  if ((earlier.sa_flags & SA_SIGINFO) != 0) return earlier.sa_sigaction(signal, info, context);
  const bool sent = info->si_code <= 0;
  if (earlier.sa_handler == SIG_IGN && sent) return;
  if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    return earlier.sa_handler(signal);
  }
  // A signal that was sent comes once; a fault comes again by itself.
  sigaction(signal, &earlier, nullptr);
  if (sent) raise(signal);
}

void OnFault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  Fault fault{signal, context};
  const bool ours =
      info->si_code > 0 && engine::NamedRange::Find(info->si_addr, &TellFault, &fault);
  if (ours) {
    sigaction(signal, &EarlierAction(signal), nullptr);
  } else {
    PassOn(signal, info, context);
  }
  errno = error;
}

absl::Status InstallHandler() {
  struct sigaction ours {};
  ours.sa_sigaction = &OnFault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (sigaction(kSignals[i], &ours, &EarlierActions()[i]) == 0) continue;
    return base::StatusFromErrno(errno, "sigaction to name stray touches");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status NameStrayTouches() {
  static const absl::Status kInstalled = InstallHandler();
  return absl::Status(kInstalled.code(), kInstalled.message());
}

}  // namespace sluice

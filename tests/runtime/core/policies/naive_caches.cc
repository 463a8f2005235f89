#include "tests/runtime/core/policies/naive_caches.h"

#include <algorithm>

namespace sluice::core {
namespace {

using Pages = std::vector<PageIndex>;  // the oldest, or least recently used, first

bool Has(const Pages& pages, PageIndex page) {
  return std::find(pages.begin(), pages.end(), page) != pages.end();
}
bool Take(Pages* pages, PageIndex page) { return std::erase(*pages, page) > 0; }
PageIndex TakeFirst(Pages* pages) {
  const PageIndex first = pages->front();
  pages->erase(pages->begin());
  return first;
}

class NaiveFifo : public NaiveCache {
 public:
  explicit NaiveFifo(std::size_t frames) : frames_(frames) {}
  Outcome Access(PageIndex page) override {
    if (Has(queue_, page)) return {.hit = true, .evicted = {}};
    Outcome outcome;
    if (queue_.size() == frames_) outcome.evicted = TakeFirst(&queue_);
    queue_.push_back(page);
    return outcome;
  }

 private:
  std::size_t frames_;
  Pages queue_;
};

class NaiveLru : public NaiveCache {
 public:
  explicit NaiveLru(std::size_t frames) : frames_(frames) {}
  Outcome Access(PageIndex page) override {
    Outcome outcome{.hit = Take(&stack_, page), .evicted = {}};
    if (stack_.size() == frames_) outcome.evicted = TakeFirst(&stack_);
    stack_.push_back(page);
    return outcome;
  }

 private:
  std::size_t frames_;
  Pages stack_;
};

/// The least frequently used, ties to the least recently used: by a search through all.
class NaiveLfu : public NaiveCache {
 public:
  explicit NaiveLfu(std::size_t frames) : frames_(frames) {}
  Outcome Access(PageIndex page) override {
    ++time_;
    for (Entry& entry : entries_) {
      if (entry.page != page) continue;
      ++entry.count;
      entry.last = time_;
      return {.hit = true, .evicted = {}};
    }
    Outcome outcome;
    if (entries_.size() == frames_) {
      const auto least =
          std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
            return a.count != b.count ? a.count < b.count : a.last < b.last;
          });
      outcome.evicted = least->page;
      entries_.erase(least);
    }
    entries_.push_back({page, 1, time_});
    return outcome;
  }

 private:
  struct Entry {
    PageIndex page;
    std::size_t count;
    std::size_t last;
  };
  std::size_t frames_;
  std::vector<Entry> entries_;
  std::size_t time_ = 0;
};

/// A circle of frames with a use bit each; the bit is set by every reference, the fault's too.
class NaiveClock : public NaiveCache {
 public:
  explicit NaiveClock(std::size_t frames) : frames_(frames) {}
  Outcome Access(PageIndex page) override {
    for (Frame& frame : circle_) {
      if (frame.page != page) continue;
      frame.used = true;
      return {.hit = true, .evicted = {}};
    }
    Outcome outcome;
    if (circle_.size() < frames_) {
      circle_.push_back({page, true});
      return outcome;
    }
    while (circle_[hand_].used) {
      circle_[hand_].used = false;
      hand_ = (hand_ + 1) % frames_;
    }
    outcome.evicted = circle_[hand_].page;
    circle_[hand_] = {page, true};
    hand_ = (hand_ + 1) % frames_;
    return outcome;
  }

 private:
  struct Frame {
    PageIndex page;
    bool used;
  };
  std::size_t frames_;
  std::vector<Frame> circle_;
  std::size_t hand_ = 0;
};

/// Johnson and Shasha, VLDB 1994, section 3 (the full version).
class NaiveTwoQueue : public NaiveCache {
 public:
  explicit NaiveTwoQueue(std::size_t frames)
      : frames_(frames), kin_(frames / 4), kout_(frames / 2) {}
  Outcome Access(PageIndex page) override {
    if (Take(&am_, page)) {
      am_.push_back(page);
      return {.hit = true, .evicted = {}};
    }
    if (Has(a1in_, page)) return {.hit = true, .evicted = {}};
    Outcome outcome;
    const bool remembered = Has(a1out_, page);
    Reclaim(&outcome);
    if (remembered) {
      Take(&a1out_, page);
      am_.push_back(page);
    } else {
      a1in_.push_back(page);
    }
    return outcome;
  }

 private:
  void Reclaim(Outcome* outcome) {
    if (am_.size() + a1in_.size() < frames_) return;
    if (a1in_.size() > kin_) {
      outcome->evicted = TakeFirst(&a1in_);
      a1out_.push_back(*outcome->evicted);
      if (a1out_.size() > kout_) TakeFirst(&a1out_);
    } else {
      outcome->evicted = TakeFirst(&am_);
    }
  }

  std::size_t frames_, kin_, kout_;
  Pages am_, a1in_, a1out_;
};

/// Megiddo and Modha, FAST 2003, Figure 4.
class NaiveArc : public NaiveCache {
 public:
  explicit NaiveArc(std::size_t frames) : c_(frames) {}
  Outcome Access(PageIndex x) override {
    if (Take(&t1_, x) || Take(&t2_, x)) {
      t2_.push_back(x);
      return {.hit = true, .evicted = {}};
    }
    Outcome outcome;
    const double b1 = static_cast<double>(b1_.size()), b2 = static_cast<double>(b2_.size());
    if (Has(b1_, x)) {
      p_ = std::min(p_ + (b1 >= b2 ? 1 : b2 / b1), static_cast<double>(c_));
      Replace(x, &outcome);
      Take(&b1_, x);
      t2_.push_back(x);
    } else if (Has(b2_, x)) {
      p_ = std::max(p_ - (b2 >= b1 ? 1 : b1 / b2), 0.0);
      Replace(x, &outcome);
      Take(&b2_, x);
      t2_.push_back(x);
    } else {
      CaseFour(x, &outcome);
      t1_.push_back(x);
    }
    return outcome;
  }

 private:
  void CaseFour(PageIndex x, Outcome* outcome) {
    const std::size_t l1 = t1_.size() + b1_.size(), l2 = t2_.size() + b2_.size();
    if (l1 == c_) {
      if (t1_.size() < c_) {
        TakeFirst(&b1_);
        Replace(x, outcome);
      } else {
        outcome->evicted = TakeFirst(&t1_);
      }
    } else if (l1 + l2 >= c_) {
      if (l1 + l2 == 2 * c_) TakeFirst(&b2_);
      Replace(x, outcome);
    }
  }
  void Replace(PageIndex x, Outcome* outcome) {
    if (t1_.size() + t2_.size() < c_) return;  // the paper's cache is full from here on
    const auto t1 = static_cast<double>(t1_.size());
    if (t1 >= 1 && ((Has(b2_, x) && t1 == p_) || t1 > p_)) {
      outcome->evicted = TakeFirst(&t1_);
      b1_.push_back(*outcome->evicted);
    } else {
      outcome->evicted = TakeFirst(&t2_);
      b2_.push_back(*outcome->evicted);
    }
  }

  std::size_t c_;
  double p_ = 0;
  Pages t1_, t2_, b1_, b2_;
};

/// Yang et al., SOSP 2023, Algorithm 1, one eviction per page that comes: a promotion into a full
/// main queue does not evict a second page, the next turn finds the small queue below its share.
class NaiveS3Fifo : public NaiveCache {
 public:
  explicit NaiveS3Fifo(std::size_t frames) : frames_(frames) {}
  Outcome Access(PageIndex page) override {
    for (std::vector<Entry>* queue : {&small_, &main_}) {
      for (Entry& entry : *queue) {
        if (entry.page != page) continue;
        entry.freq = std::min(entry.freq + 1, 3);
        return {.hit = true, .evicted = {}};
      }
    }
    Outcome outcome;
    while (small_.size() + main_.size() == frames_) {
      10 * small_.size() >= frames_ ? TurnSmall(&outcome) : TurnMain(&outcome);
    }
    (Take(&ghost_, page) ? main_ : small_).push_back({page, 0});
    return outcome;
  }

 private:
  struct Entry {
    PageIndex page;
    int freq;
  };
  void TurnSmall(Outcome* outcome) {
    const Entry tail = small_.front();
    small_.erase(small_.begin());
    if (tail.freq > 1) {
      main_.push_back({tail.page, 0});
      return;
    }
    outcome->evicted = tail.page;
    ghost_.push_back(tail.page);
    if (ghost_.size() > frames_ * 9 / 10) TakeFirst(&ghost_);
  }
  void TurnMain(Outcome* outcome) {
    const Entry tail = main_.front();
    main_.erase(main_.begin());
    if (tail.freq > 0) {
      main_.push_back({tail.page, tail.freq - 1});
    } else {
      outcome->evicted = tail.page;
    }
  }

  std::size_t frames_;
  std::vector<Entry> small_, main_;
  Pages ghost_;
};

/// Zhang et al., NSDI 2024, Algorithm 1. The queue's back is its head.
class NaiveSieve : public NaiveCache {
 public:
  explicit NaiveSieve(std::size_t frames) : frames_(frames) {}
  Outcome Access(PageIndex page) override {
    for (Entry& entry : queue_) {
      if (entry.page != page) continue;
      entry.visited = true;
      return {.hit = true, .evicted = {}};
    }
    Outcome outcome;
    if (queue_.size() == frames_) {
      std::size_t at = hand_.value_or(0);
      while (queue_[at].visited) {
        queue_[at].visited = false;
        at = at + 1 == queue_.size() ? 0 : at + 1;
      }
      outcome.evicted = queue_[at].page;
      const bool was_head = at + 1 == queue_.size();
      queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(at));
      hand_ = was_head ? std::nullopt : std::optional(at);
    }
    queue_.push_back({page, false});
    return outcome;
  }

 private:
  struct Entry {
    PageIndex page;
    bool visited;
  };
  std::size_t frames_;
  std::vector<Entry> queue_;
  std::optional<std::size_t> hand_;  // position of the hand; none: the tail
};

/// Cherkasova 1998 with sizes and costs of 1; ties to the least recently used.
class NaiveGdsf : public NaiveCache {
 public:
  explicit NaiveGdsf(std::size_t frames) : frames_(frames) {}
  Outcome Access(PageIndex page) override {
    Outcome outcome;
    Entry entry{page, 0, 0};
    const auto found = std::find_if(
        entries_.begin(), entries_.end(), [&](const Entry& e) { return e.page == page; });
    if (found != entries_.end()) {
      outcome.hit = true;
      entry = *found;
      entries_.erase(found);
    } else if (entries_.size() == frames_) {
      const auto least = std::min_element(  // the first of several: least recently used
          entries_.begin(),
          entries_.end(),
          [](const Entry& a, const Entry& b) { return a.priority < b.priority; });
      clock_ = least->priority;
      outcome.evicted = least->page;
      entries_.erase(least);
    }
    ++entry.frequency;
    entry.priority = clock_ + entry.frequency;
    entries_.push_back(entry);
    return outcome;
  }

 private:
  struct Entry {
    PageIndex page;
    std::size_t frequency;
    std::size_t priority;
  };
  std::size_t frames_;
  std::vector<Entry> entries_;
  std::size_t clock_ = 0;
};

/// Belady 1966. The least recently used goes of pages that are never used again.
class NaiveMin : public NaiveCache {
 public:
  NaiveMin(std::size_t frames, const Trace& trace) : frames_(frames), next_(trace.size()) {
    for (std::size_t i = 0; i < trace.size(); ++i) {
      next_[i] = i + 1;
      while (next_[i] < trace.size() && trace[next_[i]].page != trace[i].page) ++next_[i];
    }
  }
  Outcome Access(PageIndex page) override {
    Outcome outcome;
    for (auto entry = stack_.begin(); entry != stack_.end() && !outcome.hit; ++entry) {
      if (entry->page != page) continue;
      stack_.erase(entry);
      outcome.hit = true;
      break;
    }
    if (stack_.size() == frames_) {
      const auto furthest =
          std::max_element(stack_.begin(), stack_.end(), [](const Entry& a, const Entry& b) {
            return a.next_use < b.next_use;
          });
      outcome.evicted = furthest->page;
      stack_.erase(furthest);
    }
    stack_.push_back({page, next_[now_++]});
    return outcome;
  }

 private:
  struct Entry {
    PageIndex page;
    std::size_t next_use;
  };
  std::size_t frames_;
  std::vector<std::size_t> next_;
  std::vector<Entry> stack_;
  std::size_t now_ = 0;
};

}  // namespace

std::unique_ptr<NaiveCache> MakeNaiveCache(const std::string& policy,
                                           std::size_t frames,
                                           const Trace& trace) {
  if (policy == "fifo") return std::make_unique<NaiveFifo>(frames);
  if (policy == "lru") return std::make_unique<NaiveLru>(frames);
  if (policy == "clock") return std::make_unique<NaiveClock>(frames);
  if (policy == "lfu") return std::make_unique<NaiveLfu>(frames);
  if (policy == "2q") return std::make_unique<NaiveTwoQueue>(frames);
  if (policy == "arc") return std::make_unique<NaiveArc>(frames);
  if (policy == "s3fifo") return std::make_unique<NaiveS3Fifo>(frames);
  if (policy == "sieve") return std::make_unique<NaiveSieve>(frames);
  if (policy == "gdsf") return std::make_unique<NaiveGdsf>(frames);
  if (policy == "min") return std::make_unique<NaiveMin>(frames, trace);
  return nullptr;
}

std::vector<std::string> NaivePolicies() {
  return {"fifo", "lru", "clock", "lfu", "2q", "arc", "s3fifo", "sieve", "gdsf", "min"};
}

}  // namespace sluice::core

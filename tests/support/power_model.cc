#include "tests/support/power_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice::testing {
namespace {

/// Whether the things of a list are kept that `kept` has a bit for.
bool IsKept(std::size_t kept, std::size_t thing) { return (kept >> thing & 1U) != 0; }

}  // namespace

int PowerModel::NewNode() {
  nodes_.emplace_back();
  return static_cast<int>(nodes_.size()) - 1;
}

void PowerModel::Write(int node, std::size_t offset, std::string_view bytes) {
  At(node).unsynced.push_back({offset, std::string(bytes)});
}

void PowerModel::SyncFile(int node) {
  for (const Piece& piece : std::exchange(At(node).unsynced, {})) Apply(piece, At(node).synced);
}

void PowerModel::Enter(const std::string& path, int node) {
  changes_.push_back({.to = path, .node = node});
}

void PowerModel::Rename(const std::string& from, const std::string& to) {
  changes_.push_back({.from = from, .to = to, .node = NodeOf(from)});
}

void PowerModel::Remove(const std::string& path) { changes_.push_back({.from = path}); }

void PowerModel::SyncDirectory(const std::string& directory) {
  std::vector<Change> left;
  for (Change& change : changes_) {
    if (DirectoryOf(change.to.empty() ? change.from : change.to) == directory) {
      Apply(change, paths_);
    } else {
      left.push_back(std::move(change));
    }
  }
  changes_ = std::move(left);
}

void PowerModel::AddOld(const std::string& path, std::string_view content) {
  paths_[path] = NewNode();
  nodes_.back().synced = content;
}

void PowerModel::ForEachOutcome(const std::function<void(const Files&)>& visit) const {
  for (std::size_t kept = 0; kept < std::size_t{1} << changes_.size(); ++kept) {
    Paths paths = paths_;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (IsKept(kept, i)) Apply(changes_[i], paths);
    }
    Files files;
    VisitContents(paths, paths.begin(), files, visit);
  }
}

void PowerModel::VisitContents(const Paths& paths,
                               Paths::const_iterator next,
                               Files& files,
                               const std::function<void(const Files&)>& visit) const {
  // Old directories are not told of: one that is to be there was never removed.
  const auto is_lost = [&](const std::string& path) {
    const std::string directory = DirectoryOf(path);
    const bool known = std::any_of(changes_.begin(), changes_.end(), [&](const Change& change) {
      return change.to == directory || change.from == directory;
    });
    return known && !paths.contains(directory);
  };
  while (next != paths.end() && (next->second == kDirectory || is_lost(next->first))) ++next;
  if (next == paths.end()) return visit(files);
  const auto& [path, node] = *next;
  for (const std::string& content : ContentsOf(node)) {
    files[path] = content;
    VisitContents(paths, std::next(next), files, visit);
  }
  files.erase(path);
}

std::set<std::string> PowerModel::OutcomesOf(const std::string& path) const {
  std::set<std::string> outcomes;
  ForEachOutcome([&](const Files& files) {
    const auto found = files.find(path);
    outcomes.insert(found == files.end() ? "(gone)" : found->second);
  });
  return outcomes;
}

std::string PowerModel::DirectoryOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

void PowerModel::Apply(const Change& change, Paths& paths) {
  if (!change.from.empty()) paths.erase(change.from);
  if (!change.to.empty()) paths[change.to] = change.node;
}

void PowerModel::Apply(const Piece& piece, std::string& content) {
  content.resize(std::max(content.size(), piece.offset + piece.bytes.size()));
  content.replace(piece.offset, piece.bytes.size(), piece.bytes);
}

int PowerModel::NodeOf(const std::string& path) const {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    if (change->to == path) return change->node;
  }
  return paths_.at(path);
}

std::set<std::string> PowerModel::ContentsOf(int node) const {
  const Node& of = At(node);
  std::set<std::string> contents;
  for (std::size_t kept = 0; kept < std::size_t{1} << of.unsynced.size(); ++kept) {
    std::string content = of.synced;
    for (std::size_t i = 0; i < of.unsynced.size(); ++i) {
      if (IsKept(kept, i)) Apply(of.unsynced[i], content);
    }
    contents.insert(std::move(content));
  }
  return contents;
}

}  // namespace sluice::testing

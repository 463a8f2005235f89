#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::testing {

/// A disk with a cache that loses power. Any part of the unsynced writes, and of the unsynced
/// changes of a directory, may have reached the disk, the later without the earlier. Paths are as
/// they were given; the directory of "a/b" is "a".
class PowerModel {
 public:
  /// Content of each file by path. The directories of the paths exist.
  using Files = std::map<std::string, std::string>;
  static constexpr int kDirectory = -1;

  /// Makes a file without a name. Returns its number.
  int NewNode();
  void Write(int node, std::size_t offset, std::string_view bytes);
  void SyncFile(int node);
  /// Gives the path to the file from now on, or to a new directory (kDirectory).
  void Enter(const std::string& path, int node);
  void Rename(const std::string& from, const std::string& to);
  void Remove(const std::string& path);
  void SyncDirectory(const std::string& directory);
  /// Adds a path that has been there, with this content, for long.
  void AddOld(const std::string& path, std::string_view content);

  /// Visits each possible content of the disk after a loss of power now, some more than once.
  void ForEachOutcome(const std::function<void(const Files&)>& visit) const;
  /// Possible contents of a path after that; "(gone)": no file.
  std::set<std::string> OutcomesOf(const std::string& path) const;

 private:
  using Paths = std::map<std::string, int>;
  struct Piece {
    std::size_t offset = 0;
    std::string bytes;
  };
  struct Node {
    std::string synced;
    std::vector<Piece> unsynced;
  };
  /// Change of one directory: `from` goes, `to` comes; either may be empty.
  struct Change {
    std::string from;
    std::string to;
    int node = 0;
  };

  static std::string DirectoryOf(const std::string& path);
  static void Apply(const Change& change, Paths& paths);
  static void Apply(const Piece& piece, std::string& content);
  const Node& At(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  Node& At(int node) { return nodes_[static_cast<std::size_t>(node)]; }
  /// Node at the path now, with all unsynced changes.
  int NodeOf(const std::string& path) const;
  /// Possible contents of a node after a loss of power.
  std::set<std::string> ContentsOf(int node) const;
  void VisitContents(const Paths& paths,
                     Paths::const_iterator next,
                     Files& files,
                     const std::function<void(const Files&)>& visit) const;

  std::vector<Node> nodes_;
  Paths paths_;                  ///< paths that are synced
  std::vector<Change> changes_;  ///< changes that are not synced, in order
};

}  // namespace sluice::testing

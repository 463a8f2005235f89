#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::testing {

/// A disk with a cache that loses power: of the writes that were not synced, and of the changes of
/// a directory that were not synced, any part may have reached the disk, the later without the
/// earlier. Paths are as they were given; the directory of "a/b" is "a".
class PowerModel {
 public:
  /// The content of each file by path, whose directories are all there.
  using Files = std::map<std::string, std::string>;
  static constexpr int kDirectory = -1;

  /// A file that has no name; its number.
  int NewNode();
  void Write(int node, std::size_t offset, std::string_view bytes);
  void SyncFile(int node);
  /// The path is that file's from now on, or a new directory.
  void Enter(const std::string& path, int node);
  void Rename(const std::string& from, const std::string& to);
  void Remove(const std::string& path);
  void SyncDirectory(const std::string& directory);
  /// The path has been there, with this content, for long.
  void AddOld(const std::string& path, std::string_view content);

  /// What the disk may hold after a loss of power now: each possibility, some more than once.
  void ForEachOutcome(const std::function<void(const Files&)>& visit) const;
  /// What a path may hold then; "(gone)".
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
  /// Of one directory: `from` goes, `to` comes; either may be empty.
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
  /// As of now, with everything that was not synced.
  int NodeOf(const std::string& path) const;
  /// The contents that a node may have.
  std::set<std::string> ContentsOf(int node) const;
  void VisitContents(const Paths& paths,
                     Paths::const_iterator next,
                     Files& files,
                     const std::function<void(const Files&)>& visit) const;

  std::vector<Node> nodes_;
  Paths paths_;                  ///< paths that are synced
  std::vector<Change> changes_;  ///< changes that are not, in order
};

}  // namespace sluice::testing

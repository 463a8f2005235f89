#include "tests/support/small_file_system.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "io/file/file_descriptor.h"

namespace sluice::testing {
namespace {

using io::FileDescriptor;

constexpr int kLoopAttemptsMax = 20;
constexpr char kBindfs[] = "/usr/bin/bindfs";

std::string Failed(const std::string& what) { return what + ": " + std::strerror(errno); }

struct FileSystemKind {
  std::string name;     ///< name for mount(2)
  std::string package;  ///< package with its mkfs
  std::vector<std::string> mkfs_options;
};

/// An ext file system that keeps nothing for root, so that free space is free for all.
FileSystemKind Ext(const char* name) {
  return {name, "e2fsprogs", {"-q", "-F", "-m", "0", "-b", "4096"}};
}

FileSystemKind Btrfs() { return {"btrfs", "btrfs-progs", {"-q", "-f"}}; }

std::string MakeFileSystem(const FileSystemKind& kind, const std::string& image) {
  std::vector<std::string> words = {"/sbin/mkfs." + kind.name};
  words.insert(words.end(), kind.mkfs_options.begin(), kind.mkfs_options.end());
  words.push_back(image);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return words[0] + " (package " + kind.package + "): " + std::strerror(error);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return words[0] + " failed";
  return {};
}

/// A loop device over the file, which lets go of it when the last user of the device has gone.
FileDescriptor AttachLoop(int image, std::string* device) {
  const FileDescriptor control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  loop_config config{};
  config.fd = static_cast<std::uint32_t>(image);
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
  for (int i = 0; control.valid() && i < kLoopAttemptsMax; ++i) {
    const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) break;
    *device = "/dev/loop" + std::to_string(number);
    FileDescriptor loop(open(device->c_str(), O_RDWR | O_CLOEXEC));
    if (!loop.valid()) break;
    if (ioctl(loop.get(), LOOP_CONFIGURE, &config) == 0) return loop;
    if (errno != EBUSY) break;  // EBUSY: another process took the device first
  }
  return {};
}

std::string EnterMountNamespace() {
  if (unshare(CLONE_NEWNS) != 0) return Failed("unshare");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return Failed("private");
  return {};
}

std::string MountSmall(const FileSystemKind& kind, const std::string& path, std::uint64_t bytes) {
  if (std::string why = EnterMountNamespace(); !why.empty()) return why;
  const std::string name = path + "/image";
  const FileDescriptor image(open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!image.valid() || ftruncate(image.get(), static_cast<off_t>(bytes)) != 0) {
    return Failed("image");
  }
  const std::string why = MakeFileSystem(kind, name);
  unlink(name.c_str());
  if (!why.empty()) return why;
  std::string device = "loop device";
  const FileDescriptor loop = AttachLoop(image.get(), &device);
  if (!loop.valid()) return Failed(device);
  const int mounted = mount(device.c_str(), path.c_str(), kind.name.c_str(), 0, nullptr);
  return mounted == 0 ? std::string() : Failed("mount of " + kind.name);
}

}  // namespace

std::string MountSmallExt4(const std::string& path, std::uint64_t bytes) {
  return MountSmall(Ext("ext4"), path, bytes);
}

std::string MountSmallExt2(const std::string& path, std::uint64_t bytes) {
  return MountSmall(Ext("ext2"), path, bytes);
}

std::string MountSmallExt3(const std::string& path, std::uint64_t bytes) {
  return MountSmall(Ext("ext3"), path, bytes);
}

std::string MountSmallBtrfs(const std::string& path, std::uint64_t bytes) {
  return MountSmall(Btrfs(), path, bytes);
}

namespace {

/// The server of a FUSE file system goes with its parent, and holds none of its files open: the
/// pipe of RunInChild would not end.
[[noreturn]] void ServeBindfs(const std::string& source, const std::string& path) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  execl(kBindfs, kBindfs, "-f", source.c_str(), path.c_str(), nullptr);
  _exit(1);
}

bool IsFuse(const std::string& path) {
  struct statfs info {};
  return statfs(path.c_str(), &info) == 0 && info.f_type == FUSE_SUPER_MAGIC;
}

std::string WaitForFuse(const std::string& path, pid_t server) {
  while (!IsFuse(path)) {
    int status = 0;
    if (waitpid(server, &status, WNOHANG) != 0) return "bindfs failed";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

}  // namespace

std::string MountBindfs(const std::string& source, const std::string& path) {
  if (access("/dev/fuse", R_OK | W_OK) != 0) return Failed("/dev/fuse");
  if (access(kBindfs, X_OK) != 0) return Failed(kBindfs);
  if (std::string why = EnterMountNamespace(); !why.empty()) return why;
  const pid_t server = fork();
  if (server < 0) return Failed("fork");
  if (server == 0) ServeBindfs(source, path);
  return WaitForFuse(path, server);
}

std::uint64_t FreeBytes(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) return 0;
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

bool BecomesFree(const std::string& path, std::uint64_t bytes, std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (FreeBytes(path) < bytes) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

namespace {

/// Ever smaller pieces, until not one byte goes in.
bool Append(const FileDescriptor& file) {
  const std::vector<char> block(std::size_t{1} << 20, 'f');
  for (std::size_t piece = block.size(); piece > 0; piece /= 4) {
    while (write(file.get(), block.data(), piece) > 0) {
    }
    if (errno != ENOSPC) return false;
    fsync(file.get());  // the file system allocates promised blocks now
  }
  return true;
}

}  // namespace

bool FillUp(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  // Blocks that were freed or promised before may come back a moment later.
  for (int round = 0; round < 200; ++round) {
    if (!Append(file)) return false;
    if (FreeBytes(path) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace sluice::testing

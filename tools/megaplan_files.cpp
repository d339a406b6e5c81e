#include "tools/megaplan_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace mega::tool {
namespace {

Diagnostic failure(const std::string& path, const std::string& what) {
  Diagnostic error;
  error.file = path;
  error.message = what + ": " + std::strerror(errno);
  return error;
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Closing is where a full disk may show up last.
bool write_and_close(int descriptor, const std::string& text) {
  const bool written = write_all(descriptor, text);
  const int reason = errno;
  const bool closed = ::close(descriptor) == 0;
  if (!written) errno = reason;
  return written && closed;
}

Status write_in_place(const std::string& path, const std::string& text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0 || !write_and_close(descriptor, text)) return failure(path, "can't write");
  return Ok{};
}

}  // namespace

bool is_plan_file(const std::string& path) {
  constexpr std::string_view kStart = "megaplan ";
  std::error_code unreadable;
  if (path == "-" || !std::filesystem::is_regular_file(path, unreadable)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string start(kStart.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file && start == kStart;
}

Status write_whole(const std::string& path, const std::string& text) {
  // Through a link, so that the link stays one.
  std::error_code missing;
  const std::filesystem::path real = std::filesystem::canonical(path, missing);
  const std::string target = missing ? path : real.string();
  struct stat status {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return failure(path, "can't write");
  }
  if (exists && !S_ISREG(status.st_mode)) return write_in_place(target, text);
  const std::string temporary = target + ".tmp" + std::to_string(::getpid());
  constexpr mode_t kMode = 0666;  // less the user's mask
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (descriptor < 0) return failure(path, "can't write");
  if (!write_and_close(descriptor, text) || ::rename(temporary.c_str(), target.c_str()) != 0) {
    const Diagnostic error = failure(path, "can't write");
    ::unlink(temporary.c_str());
    return error;
  }
  return Ok{};
}

Status print(const std::string& text) {
  if (write_all(STDOUT_FILENO, text)) return Ok{};
  if (errno == EPIPE) std::_Exit(0);
  return failure("<standard output>", "can't write");
}

}  // namespace mega::tool

#include "runtime/corpus.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/alarm.h"

namespace mega::runtime {
namespace {

namespace fs = std::filesystem;

Errors file_error(const std::string& path, const std::string& message) {
  Errors errors = failure(message);
  errors.front().file = path;
  return errors;
}

bool is_build_tree(const std::string& name) {
  return name == "build" || name == "out" || name.starts_with("cmake-build-");
}

// Regular files below `folder` that count as sources, as paths.
Result<std::vector<std::string>> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;  // what vanished meanwhile is neither folder nor file
    const fs::file_status status = entry->symlink_status(ignored);
    const bool is_folder = status.type() == fs::file_type::directory;
    if (name.starts_with('.') || (is_folder && is_build_tree(name))) {
      if (is_folder) entry.disable_recursion_pending();
    } else if (status.type() == fs::file_type::regular) {
      files.push_back(entry->path().string());
    }
  }
  if (error) return file_error(folder, "cannot read the folder: " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

// Appends the file and returns whether it is text; what is not is taken off again.
Result<bool> append_file(const std::string& path, Bytes limit, Corpus& corpus) {
  std::error_code error;
  const auto size = static_cast<std::int64_t>(fs::file_size(path, error));
  if (error) return file_error(path, "cannot read: " + error.message());
  const auto begin = static_cast<std::int64_t>(corpus.bytes.size());
  if (size > limit.count() - begin) {
    return file_error(path, "the text exceeds the " + to_string(limit) + " that may be read");
  }
  std::ifstream file(path, std::ios::binary);
  corpus.bytes.resize(static_cast<std::size_t>(begin + size));
  if (size > 0) file.read(reinterpret_cast<char*>(corpus.bytes.data()) + begin, size);
  if (!file) return file_error(path, "cannot read: " + std::string(std::strerror(errno)));
  const auto first = corpus.bytes.begin() + begin;
  const bool is_text = std::find(first, corpus.bytes.end(), 0) == corpus.bytes.end();
  if (is_text) {
    if (size > 0) corpus.files.push_back({path, begin});
  } else {
    corpus.bytes.resize(static_cast<std::size_t>(begin));
  }
  return is_text;
}

Status append_path(const std::string& path, Bytes limit, Corpus& corpus) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return file_error(path, "no such file or folder");
  if (error) return file_error(path, "cannot read: " + error.message());
  const std::size_t before = corpus.files.size();
  if (status.type() == fs::file_type::directory) {
    MEGA_TRY(std::vector<std::string> files, files_below(path));
    for (const std::string& file : files) {
      MEGA_TRY([[maybe_unused]] const bool is_text, append_file(file, limit, corpus));
    }
    if (corpus.files.size() == before) return file_error(path, "the folder holds no text files");
    return Ok{};
  }
  if (status.type() != fs::file_type::regular) {
    return file_error(path, "neither a regular file nor a folder");
  }
  MEGA_TRY(const bool is_text, append_file(path, limit, corpus));
  if (!is_text) return file_error(path, "the file holds NUL bytes: it is not a text");
  if (corpus.files.size() == before) return file_error(path, "the file is empty");
  return Ok{};
}

}  // namespace

std::int64_t Corpus::training_bytes() const {
  const auto all = static_cast<std::int64_t>(bytes.size());
  return all - all / 10;
}

Result<Corpus> read_corpus(std::span<const std::string> paths, Bytes limit) {
  Corpus corpus;
  Errors errors;
  for (const std::string& path : paths) {
    const Status status = append_path(path, limit, corpus);
    if (!status.ok()) errors.push_back(status.errors().front());
  }
  if (!errors.empty()) return errors;
  return corpus;
}

Status check_tokens(const Corpus& corpus, std::int64_t vocab) {
  const auto found = std::find_if(corpus.bytes.begin(), corpus.bytes.end(),
                                  [vocab](std::uint8_t byte) { return byte >= vocab; });
  if (found == corpus.bytes.end()) return Ok{};
  const auto offset = static_cast<std::int64_t>(found - corpus.bytes.begin());
  const auto after =
      std::find_if(corpus.files.begin(), corpus.files.end(),
                   [offset](const CorpusFile& file) { return file.offset > offset; });
  const CorpusFile& file = *std::prev(after);
  return file_error(file.path, "the byte at offset " + std::to_string(offset - file.offset) +
                                   " is " + std::to_string(*found) +
                                   ", outside the model's vocabulary of " + std::to_string(vocab));
}

}  // namespace mega::runtime

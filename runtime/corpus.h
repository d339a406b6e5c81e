// Training text: files whose bytes are the tokens.
//
// A folder stands for its files, concatenated in sorted path order; names with a leading dot,
// build trees (build, out, cmake-build-*), symbolic links and files with NUL bytes are skipped.
// The last tenth of the bytes is held out for evaluation; training never reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/base/result.h"
#include "ir/base/units.h"

namespace mega::runtime {

struct CorpusFile {
  std::string path;
  std::int64_t offset = 0;  // of its first byte in Corpus::bytes
};

struct Corpus {
  std::vector<std::uint8_t> bytes;
  std::vector<CorpusFile> files;  // ascending offsets
  std::int64_t training_bytes() const;
};

// Reads files and folders in the order given. Refuses what is missing, unreadable or no text, and
// more than `limit` bytes in all.
Result<Corpus> read_corpus(std::span<const std::string> paths, Bytes limit);

// A byte at or above `vocab` is an error that names file, offset and value.
Status check_tokens(const Corpus& corpus, std::int64_t vocab);

}  // namespace mega::runtime

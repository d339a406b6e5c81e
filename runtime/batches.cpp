#include "runtime/batches.h"

#include <bit>
#include <string>

#include "kernels/random.h"
#include "runtime/alarm.h"

namespace mega::runtime {

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size), seed_(seed), epoch_(epoch) {
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1)));
  half_bits_ = (bits + 1) / 2;
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < 4; ++round) {
    const kernels::Words words = kernels::philox(
        static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32),
        {{static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(epoch_),
          static_cast<std::uint32_t>(epoch_ >> 32)}});
    const std::uint64_t next = left ^ (words.word[0] & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  auto value = static_cast<std::uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

Result<Batches> Batches::over(const Corpus& corpus, std::int64_t sequence_length,
                              std::int64_t global_batch, std::int64_t seed) {
  Batches batches;
  batches.corpus_ = &corpus;
  batches.window_bytes_ = sequence_length + 1;
  batches.windows_ = corpus.training_bytes() / batches.window_bytes_;
  batches.seed_ = static_cast<std::uint64_t>(seed);
  batches.starts_.resize(static_cast<std::size_t>(global_batch));
  if (batches.windows_ == 0) {
    return failure("the text has " + std::to_string(corpus.training_bytes()) +
                       " bytes for training, a sequence of " + std::to_string(sequence_length) +
                       " tokens needs " + std::to_string(batches.window_bytes_),
                   "give more text; the last tenth is held out for evaluation");
  }
  return batches;
}

kernels::BatchView Batches::of_step(std::int64_t step) {
  const auto batch = static_cast<std::int64_t>(starts_.size());
  for (std::int64_t position = 0; position < batch; ++position) {
    const std::int64_t sample = (step - 1) * batch + position;
    const Permutation order(windows_, seed_, static_cast<std::uint64_t>(sample / windows_));
    starts_[static_cast<std::size_t>(position)] = order(sample % windows_) * window_bytes_;
  }
  return {corpus_->bytes.data(), starts_};
}

}  // namespace mega::runtime

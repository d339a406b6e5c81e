// Steps allocate nothing: every malloc of this process passes the counter below while it is on.
// What it cannot see is mmap: OpenBLAS maps its packing buffers once per thread, before the count
// starts, and the kernels' thread-local tiles are sized in the warm-up steps, too. OpenBLAS's own
// calls of malloc are left out: its small-matrix kernels for AVX-512 pack on the heap.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "runtime/batches.h"
#include "runtime/session.h"
#include "tests/support/toy_plan.h"

// A sanitizer brings its own malloc.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define MEGA_COUNTS_ALLOCATIONS 0
#else
#define MEGA_COUNTS_ALLOCATIONS 1
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

[[maybe_unused]] void count(const void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  Dl_info info{};
  if (dladdr(caller, &info) != 0 && std::strstr(info.dli_fname, "openblas") != nullptr) return;
  ++allocations;
}

}  // namespace

#if MEGA_COUNTS_ALLOCATIONS
// What glibc calls its own malloc, for those who put another in front.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);

void* malloc(std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(number, size);
}
void* realloc(void* memory, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
#endif

namespace mega::runtime {
namespace {

int allocations_of_steps(const mega::testing::ToyOptions& toy) {
  Corpus corpus;
  for (int i = 0; i < 5000; ++i) {
    corpus.bytes.push_back(static_cast<std::uint8_t>('a' + i * i % 23));
  }
  const auto session = Session::open(mega::testing::toy_plan(toy)).value();
  const Header& header = session->plan().header;
  Batches batches =
      Batches::over(corpus, header.sequence_length, header.global_batch, header.seed).value();
  EXPECT_TRUE(session->start().ok());
  bool is_ok = true;
  for (std::int64_t step = 1; step <= 2; ++step) {
    is_ok = session->train(batches.of_step(step)).ok() && is_ok;
  }
  allocations = 0;
  counting = true;
  for (std::int64_t step = 3; step <= 12; ++step) {
    is_ok = session->train(batches.of_step(step)).ok() && is_ok;
  }
  counting = false;
  EXPECT_TRUE(is_ok);
  return allocations;
}

TEST(Allocation, TheCounterCounts) {
  if (MEGA_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer brings its own malloc";
  allocations = 0;
  counting = true;
  const std::vector<int> some(1000);
  counting = false;
  EXPECT_EQ(some.size(), 1000U);
  EXPECT_EQ(allocations, 1);
}

TEST(Allocation, StepsAllocateNothing) {
  if (MEGA_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "a sanitizer brings its own malloc";
  EXPECT_EQ(allocations_of_steps({1, 1}), 0);
  EXPECT_EQ(allocations_of_steps({2, 1}), 0);
  EXPECT_EQ(allocations_of_steps({2, 2}), 0);
}

}  // namespace
}  // namespace mega::runtime

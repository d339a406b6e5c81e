#include "runtime/host_memory.h"

#include <gtest/gtest.h>

#include "tests/runtime/temporary_folder.h"

namespace mega::runtime {
namespace {

constexpr const char* kMemoryInfo = "MemTotal:  100 kB\nMemFree: 10 kB\nMemAvailable:   40 kB\n";

TEST(HostMemory, IsWhatTheKernelCallsAvailable) {
  const TemporaryFolder root;
  EXPECT_FALSE(available_memory(root.path()).has_value());
  root.write("proc/meminfo", kMemoryInfo);
  EXPECT_EQ(available_memory(root.path()), Bytes(40 * 1024));
}

TEST(HostMemory, IsLimitedByTheControlGroupAndThoseAbove) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMemoryInfo);
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  root.write("sys/fs/cgroup/a/b/memory.current", "5000\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(40 * 1024));
  root.write("sys/fs/cgroup/a/memory.max", "30000\n");
  root.write("sys/fs/cgroup/a/memory.current", "12000\n");
  root.write("sys/fs/cgroup/a/memory.stat", "anon 7000\ninactive_file 2000\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(20000));  // 30000 - 12000 + 2000
}

TEST(HostMemory, IsLimitedByAContainersRootAndByVersionOne) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMemoryInfo);
  root.write("sys/fs/cgroup/memory.max", "9000\n");
  root.write("sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(8000));
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "8000\n");
  EXPECT_EQ(available_memory(root.path()), Bytes(0));
}

TEST(HostMemory, OfThisHostIsKnown) {
  ASSERT_TRUE(available_memory().has_value());
  EXPECT_GT(*available_memory(), Bytes(1 << 20));
}

}  // namespace
}  // namespace mega::runtime

#!/usr/bin/env bash
# Acid test of the dependency rule: one program builds with the other side's folders deleted.
#
#   acid.sh SOURCE WORK PROGRAM BUILD_TYPE COMPILER FOLDER...   FOLDERs are left out of the copy
set -euo pipefail
source=$1 work=$2 program=$3 build_type=$4 compiler=$5
shift 5

rm -rf "$work"
mkdir -p "$work"
cp -r "$source"/CMakeLists.txt "$source"/{ir,kernels,planner,runtime,specs,tools} "$work"
for folder in "$@"; do rm -r "${work:?}/$folder"; done

# As deep below its tree as a preset's folder, and with paths made relative: ccache then finds
# the objects of the build that runs this test.
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
build=$work/build/$(basename "$(dirname "$(dirname "$work")")")
cmake -S "$work" -B "$build" -G Ninja -DMEGA_TESTS=OFF -DCMAKE_BUILD_TYPE="$build_type" \
  -DCMAKE_CXX_COMPILER="$compiler"
cmake --build "$build" --target "$program" -j 2
"$build/bin/$program" --help > /dev/null
echo "$program builds and starts without: $*"
# The objects are in the cache; a tree for every run would fill the disk.
rm -rf "$work"

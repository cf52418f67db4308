#!/bin/sh
# Writes the lock files: versions and hashes for every platform, no address of an index.   tools/lock.sh UV
set -eu
uv=$1
options="--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet"
# shellcheck disable=SC2086 # the options are words
compile() { "$uv" pip compile $options "$@"; }
compile pyproject.toml --extra cpu --extra client --extra tracing --group dev --override requirements/overrides.txt --output-file requirements/dev.lock
# The images' are parts of the first one, so that what is tested is what is shipped.
for device in cpu gpu; do
  compile pyproject.toml --extra "$device" --extra tracing --constraint requirements/dev.lock \
    --output-file "requirements/image-$device.lock"
done
compile requirements/image-build.in --constraint requirements/dev.lock --output-file requirements/image-build.lock
compile requirements/perf-analyzer.in --output-file requirements/perf-analyzer.lock

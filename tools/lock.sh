#!/bin/sh
# Writes the lock files: versions and hashes for every platform, no address of an index.   tools/lock.sh UV
set -eu
uv=$1
options="--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet"
# shellcheck disable=SC2086 # the options are words
"$uv" pip compile pyproject.toml --extra cpu --extra client --group dev --override requirements/overrides.txt $options --output-file requirements/dev.lock
# shellcheck disable=SC2086
"$uv" pip compile requirements/perf-analyzer.in $options --output-file requirements/perf-analyzer.lock

#!/bin/sh
# Installs the stock perf_analyzer into .venv-perf. Needs Debian or Ubuntu and root for one system library.
set -eu
cd "$(dirname "$0")/.."
if [ -x .venv-perf/bin/perf_analyzer-signet ]; then exit 0; fi
if ! ldconfig -p | grep -q libb64.so; then
  apt-get update -qq
  apt-get install -y -qq libb64-0d >/dev/null
fi
"${PYTHON:-python3}" -m venv .venv-perf
.venv-perf/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/perf-analyzer.lock
library=$(find "$PWD/.venv-perf/lib" -name libcudart.so.12 | head -n 1)
cat > .venv-perf/bin/perf_analyzer-signet <<SCRIPT
#!/bin/sh
LD_LIBRARY_PATH='$(dirname "$library")' exec '$PWD/.venv-perf/bin/perf_analyzer' "\$@"
SCRIPT
chmod +x .venv-perf/bin/perf_analyzer-signet

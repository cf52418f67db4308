#!/bin/sh
# Makes dist/ and tries it as a stranger would: the wheel is built from the source archive, installed into a fresh
# environment, and runs the demo from an empty directory. Publishes nothing.      tools/release.sh PYTHON
set -eu
python=$1
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

version=$("$python" -c 'import service; print(service.__version__)')
grep -q "^## \[$version\]" CHANGELOG.md || echo "note: CHANGELOG.md has no section [$version] yet"
[ -z "$(git status --porcelain)" ] || echo "note: there are changes that are not committed"

rm -rf dist
"$python" -m hatchling build --target sdist
tar -xzf "dist/signet_server-$version.tar.gz" -C "$work"
(cd "$work/signet_server-$version" && "$python" -m hatchling build --target wheel --directory "$root/dist")

# The versions are those of the lock file, without its hashes: the wheel has none.
sed '/^ *--hash=/d; s/ \\$//' requirements/dev.lock > "$work/constraints.txt"
"$python" -m venv "$work/fresh"
"$work/fresh/bin/pip" install --quiet --disable-pip-version-check --constraint "$work/constraints.txt" \
  "signet-server[cpu,demo] @ file://$root/dist/signet_server-$version-py3-none-any.whl"
mkdir "$work/empty"
cd "$work/empty"
[ "$("$work/fresh/bin/signet" --version)" = "signet $version" ]
"$work/fresh/bin/python" -m clients.demo
echo "tried, not published:"
ls -l "$root/dist"

#!/usr/bin/env bash
# Installs the Python package into an environment of its own, and runs its tests.
#
#   scripts/test_python.sh [BUILD_DIR]     # build/release
#
# The packages of python/requirements.txt come from PyPI into build/python-venv, once.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build/release}")
environment=$PWD/build/python-venv
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Python and list that the environment is made of. Another of either makes it anew.
made_of() { python3 --version && cat python/requirements.txt; }
if [ "$(made_of)" != "$(cat "$environment/made-of" 2>/dev/null)" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install -q -r python/requirements.txt
  made_of >"$environment/made-of"
fi
export PATH="$environment/bin:$PATH" TORCHINDUCTOR_CACHE_DIR=$environment/inductor

SLUICE_BUILD_DIR=$build pip install -q --no-build-isolation --no-deps ./python

# The types are checked beside the tests.
check_types() {
  mypy --config-file python/pyproject.toml --cache-dir build/mypy python/src/sluice &&
    mypy --config-file python/pyproject.toml --cache-dir build/mypy-tests python/tests/typed_use.py
}
check_types &
types=$!
failed=0
# Each of two processes runs one test at a time. Fixtures of a module are made in both. Threads of PyTorch that wait by
# spinning take the processor from the other process, a third of the time.
OMP_WAIT_POLICY=passive pytest -q -p no:cacheprovider --basetemp build/pytest --numprocesses 2 --dist worksteal \
  python/tests || failed=1
wait "$types" || failed=1
exit "$failed"

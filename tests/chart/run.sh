#!/usr/bin/env bash
# Runs the tests of the chart: run.sh [ARGUMENTS OF PYTEST]
set -euo pipefail
cd "$(dirname "$0")/../.."
python=build/venv/bin/python
[[ -x $python ]] || python=python3
exec "$python" -m pytest -q tests/chart "$@"

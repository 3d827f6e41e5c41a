#!/bin/sh
# Takes this pack in, without a network: sh install.sh [FOLDER]   (default ~/venus-edge)
# PYTHON=/path/to/python names the Python to use.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
for python in ${PYTHON:+"$PYTHON"} python@PYTHON@ python3 python; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    exec "$python" -I "$here/unpack.py" "$@"
  fi
done
echo "Error: Python @PYTHON@@ANY@ is needed and is not here; PYTHON=/path/to/python sh install.sh names one" >&2
exit 1

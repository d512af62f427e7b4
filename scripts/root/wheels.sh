#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# wheels.sh: unpacks WHEELS, programs of PyPI for the Python of the suites' root, and prints the directory, which is one
# of modules and has the files of packages that are not, as /usr would, in usr. No package is changed.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

out=$CACHE/wheels-$(key "$WHEELS" "$(<"$SRC/scripts/root/wheels.sh")")
if [ ! -d "$out" ]; then
	lock wheels
	if [ ! -d "$out" ]; then
		say FETCH "$(echo $WHEELS)"
		need pip3 python3-pip
		rm -rf "$out.new"
		for name in $WHEELS; do
			pip3 download --quiet --no-deps --python-version 3.13 --only-binary :all: \
				--dest "$out.new" "$name" >"$CACHE/wheels.log" 2>&1 ||
				die "cannot fetch $name; see $CACHE/wheels.log"
		done
		for name in "$out.new"/*.whl; do
			python3 -m zipfile -e "$name" "$out.new"
			rm "$name"
		done
		mkdir "$out.new/usr"
		for name in "$out.new"/*.data/data; do
			cp -r "$name/." "$out.new/usr/"
		done
		chmod -R a+x "$out.new/usr/bin"
		chmod -R a+rX "$out.new"
		mv "$out.new" "$out"
	fi
fi
hand_out "$out"

# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's own tests, each module of them in a machine of its own.

. ./lib.sh

# These crash in the library if a device lacks what they test, with any driver.
CRASH="test_flow test_parent_domain"
SAMPLE="test_addr test_atomics test_cq test_cqex test_mr test_qp test_rdmacm"

tells() { sed -nE 's/^Ran ([0-9]+) tests? .*/: \1 tests/p; s/^(OK|FAILED)( .*)?$/\2/p' "$1" | paste -sd ''; }

cp -r /usr/share/doc/rdma-core/tests .
gunzip tests/*.gz
cd tests || exit
for module in test_*.py; do
	module=${module%.py}
	if [[ " $CRASH " = *" $module "* ]]; then
		skip "$module" "it crashes in the library without this feature"
	elif [ -n "$WHOLE" ] || [[ " $SAMPLE " = *" $module "* ]]; then
		compare "$module" -- sh -c \
			'cd .. && exec python3 -m unittest -v "tests.$1"' sh "$module"
	fi
done

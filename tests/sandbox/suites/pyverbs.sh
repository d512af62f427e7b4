# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's own tests, each module of them in a machine of its own.

. ./lib.sh

# These crash in the library if a device lacks what they test, with any driver.
CRASH="test_flow test_parent_domain"
SAMPLE="test_addr test_atomic test_cq test_cqex test_mr test_qp test_rdmacm"

tells() { sed -nE 's/^Ran ([0-9]+) tests? .*/: \1 tests/p; s/^(OK|FAILED)( .*)?$/\2/p' "$1" | paste -sd ''; }

cp -r /usr/share/doc/rdma-core/tests .
gunzip tests/*.gz
for module in tests/test_*.py; do
	module=$(basename "$module" .py)
	if [[ " $CRASH " = *" $module "* ]]; then
		skip "$module" "it crashes in the library without this feature"
	elif [ -n "$WHOLE" ] || [[ " $SAMPLE " = *" $module "* ]]; then
		compare "$module" -- sh -c \
			'exec python3 tests/run_tests.py -v --dev $FERROCE_DEVICE --gid $FERROCE_GID_INDEX "$1"' \
			sh "$module"
	fi
done

# SPDX-License-Identifier: GPL-2.0
#
# The tests of Python's package ibverbs, another binding than rdma-core's own.

. ./lib.sh

tells() { sed -nE 's/^(=+ )?([0-9]+ (passed|failed|skipped).*) in [0-9.]+s.*$/: \2/p' "$1"; }

export PYTHONPATH=$REGISTRIES/python/lib PYTHONDONTWRITEBYTECODE=1
for test in "$REGISTRIES"/python/tests/test_*.py; do
	name=${test##*/}
	if [ "$name" = test_two_device.py ]; then
		skip "$name" "it takes two devices in one network namespace"
	elif [[ $name = test_gpu* ]] || [ "$name" = test_cuda_helpers.py ]; then
		skip "$name" "it is about memory of GPUs"
	elif [ -n "$WHOLE" ] || [[ $name = test_@(comp_channel|loopback|qp).py ]]; then
		compare "$name" -- sh -c 'cd "${2%/tests/*}" && exec python3 -m pytest -rs -p no:cacheprovider "$2"' \
			sh "$name" "$test"
	fi
done

# SPDX-License-Identifier: GPL-2.0
#
# MRs of DMA buffers that other drivers export; see dma_buf.py.
#
#	v0 [DEV] ------ v1      single: two QPs of one device talk to each other
#
# vm: TOPOLOGY=single KERNEL=stock
# vm: TOPOLOGY=netns VM_ENV="LOCAL_PATH=0 VERIFY_ICRC=1" KERNEL=stock

cd "${VM_LIB%/*}" && exec python3 dma_buf.py

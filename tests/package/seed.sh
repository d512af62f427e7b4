#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The first installation on a machine that will be booted. Run in its root by scripts/release/check-package.sh.

. /srv/lib.sh

snapshot /srv/before
install_dkms "$OLD"

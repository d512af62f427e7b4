// SPDX-License-Identifier: GPL-2.0

//! Which devices are ours.
//!
//! A device with our own driver id is. A device of ferroce with the id of rdma_rxe is, too, if the user has asked for
//! this library by the environment: else librxe drives it.

use crate::ffi::libc::read_file;
use core::ffi::CStr;

/// A counter that no other driver has, in sysfs.
const COUNTER: &[u8] = b"ports/1/hw_counters/wake_ring_poll";

/// Whether the device with this directory in sysfs is one of ferroce.
pub(crate) fn is_ferroce(directory: &CStr) -> bool {
    let mut text = [0; 64];
    // The description says whose link type made the device, until a program changes it: rdma-ndd, for example.
    read_file(directory, b"node_desc", &mut text).is_some_and(|text| text.starts_with(b"ferroce"))
        || read_file(directory, COUNTER, &mut [0; 1]).is_some()
}

/// Whether a list of drivers, as RDMAV_DRIVERS has it, names this library: `ferroce`, or a path of it.
pub(crate) fn names_us(list: &[u8]) -> bool {
    let ours = |name: &[u8]| {
        name == b"ferroce" || name.starts_with(b"/") && name.ends_with(b"/libferroce")
    };
    list.split(|byte| matches!(byte, b':' | b';')).any(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_drivers_names_us() {
        for list in [
            "ferroce",
            "rxe:ferroce",
            "ferroce;rxe",
            "/usr/local/lib/libferroce",
        ] {
            assert!(names_us(list.as_bytes()), "{list}");
        }
        for list in ["", "rxe", "ferroce2", "rxe:xferroce", "ferroce rxe"] {
            assert!(!names_us(list.as_bytes()), "{list}");
        }
    }

    #[test]
    fn a_device_without_a_mark_is_not_ours() {
        assert!(!is_ferroce(
            c"/sys/class/infiniband/there-is-no-such-device"
        ));
        assert!(!is_ferroce(c"/proc"));
    }
}

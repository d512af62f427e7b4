// SPDX-License-Identifier: GPL-2.0

//! Contexts: the version of the ABI that both sides know, and what a device says of itself.

use crate::{
    abi::direct::{
        GetContextReq,
        GetContextResp,
        FEATURE_NO_DOORBELL,
        MAGIC,
        VERSION, //
    },
    errno::Errno,
    ffi::{
        cmd::{
            self,
            DeviceQuery,
            PortQuery,
            FIRMWARE_BYTES, //
        },
        object::Context, //
    },
};

/// What is asked of the kernel.
pub(crate) const REQUEST: GetContextReq = GetContextReq {
    magic: MAGIC,
    min_version: VERSION,
    max_version: VERSION,
    features: FEATURE_NO_DOORBELL,
};

/// The features of a context that another library of this ABI made, and whose answer is not known: where the kernel
/// does not set the word `no_doorbell`, it is 0.
pub(crate) const IMPORTED_FEATURES: u64 = FEATURE_NO_DOORBELL;

/// Returns the features of a context with this answer. A kernel that does not know the ABI answers nothing.
///
/// # Errors
///
/// `EPROTONOSUPPORT` if there is no version that both know.
pub(crate) fn features(answer: GetContextResp) -> Result<u64, Errno> {
    if answer.version != u32::from(VERSION) {
        return Err(Errno::PROTONOSUPPORT);
    }
    Ok(answer.features & REQUEST.features)
}

/// Converts the version of the firmware to text: three numbers.
fn firmware(number: u64) -> [u8; FIRMWARE_BYTES] {
    let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
    let mut text = [0; FIRMWARE_BYTES];
    let mut to = text.iter_mut();
    let mut put = |byte| {
        if let Some(place) = to.next() {
            *place = byte;
        }
    };
    for (place, part) in [[a, b], [c, d], [e, f]].into_iter().enumerate() {
        if place > 0 {
            put(b'.');
        }
        let part = u16::from_be_bytes(part);
        for power in [10_000, 1000, 100, 10, 1] {
            let digit = (part / power % 10) as u8;
            if part >= power || power == 1 {
                put(b'0' | digit);
            }
        }
    }
    text
}

/// Queries the device.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn query_device(context: Context<'_>, query: DeviceQuery) -> Result<(), Errno> {
    cmd::query_device(context, query, firmware)
}

/// Queries a port.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn query_port(context: Context<'_>, query: PortQuery) -> Result<(), Errno> {
    cmd::query_port(context, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_firmware_are_text() {
        for (number, text) in [
            (0, "0.0.0"),
            (0x1_0014_0131, "1.20.305"),
            (u64::MAX, "65535.65535.65535"),
        ] {
            let found = firmware(number);
            let end = found.iter().position(|&byte| byte == 0).unwrap();
            assert_eq!(&found[..end], text.as_bytes());
        }
    }

    #[test]
    fn only_a_version_that_both_know_is_taken() {
        let answer = |version, features| GetContextResp {
            version,
            reserved: 0,
            features,
        };
        assert_eq!(features(answer(0, 0)), Err(Errno::PROTONOSUPPORT));
        assert_eq!(features(answer(2, 1)), Err(Errno::PROTONOSUPPORT));
        assert_eq!(features(answer(1, 0)), Ok(0));
        assert_eq!(features(answer(1, !0)), Ok(FEATURE_NO_DOORBELL));
    }
}

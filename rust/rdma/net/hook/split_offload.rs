// SPDX-License-Identifier: GPL-2.0

//! Registers the splitter of super-packets with the stack, which calls it for a device that does not take them unsplit.
//! The callback runs in any context except hard interrupts.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use crate::{
    bindings,
    net::{
        super_packet::{
            format::Splitter,
            is_super_packet,
            protocol,
            split::{
                split,
                OuterHeaders, //
            }, //
        },
        tx::header::{
            IPV4_LEN,
            IPV6_LEN,
            UDP_LEN, //
        }, //
    }, //
};
use core::marker::PhantomData;
use kernel::prelude::*;

/// The registration, which ends with the drop. Super-packets that the stack still has are dropped then, unless a device
/// takes them unsplit.
///
/// # Invariants
///
/// `offloads` are registered.
pub struct SplitOffload<S> {
    offloads: KBox<[bindings::packet_offload; 2]>,
    splitter: PhantomData<fn() -> S>,
}

// SAFETY: C accesses registered offloads under its own lock and RCU, from any task.
unsafe impl<S> Send for SplitOffload<S> {}
// SAFETY: As for `Send`.
unsafe impl<S> Sync for SplitOffload<S> {}

impl<S: Splitter> SplitOffload<S> {
    /// Splits super-packets with `S` from now on. There must be one registration at a time.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn register() -> Result<Self> {
        let mut offloads: KBox<[bindings::packet_offload; 2]> =
            KBox::new([pin_init::zeroed(), pin_init::zeroed()], GFP_KERNEL)?;
        for (offload, v4) in offloads.iter_mut().zip([true, false]) {
            offload.type_ = protocol(v4).to_be();
            offload.callbacks.gso_segment = Some(match v4 {
                true => gso_segment::<S, { IPV4_LEN + UDP_LEN }>,
                false => gso_segment::<S, { IPV6_LEN + UDP_LEN }>,
            });
            // SAFETY: The offload is initialised, and stays in its box until `drop` has removed it.
            unsafe { bindings::dev_add_offload(offload) };
        }
        // INVARIANT: Both are registered.
        Ok(Self {
            offloads,
            splitter: PhantomData,
        })
    }
}

impl<S> Drop for SplitOffload<S> {
    fn drop(&mut self) {
        for offload in self.offloads.iter_mut() {
            // SAFETY: It is registered by the type invariant. C waits for the callbacks that run.
            unsafe { bindings::dev_remove_offload(offload) };
        }
    }
}

/// `offload_callbacks.gso_segment`, for super-packets with `IP_AND_UDP_LEN` bytes of IP and UDP headers.
///
/// # Safety
///
/// Only C may call this, with a GSO skb; if it is a super-packet, its data begins after the UDP header.
unsafe extern "C" fn gso_segment<S: Splitter, const IP_AND_UDP_LEN: usize>(
    skb: *mut bindings::sk_buff,
    features: bindings::netdev_features_t,
) -> *mut bindings::sk_buff {
    // A frame from anywhere may name the protocol in its EtherType.
    //
    // SAFETY: The skb is valid.
    if unsafe { !is_super_packet(skb) } {
        return EINVAL.to_ptr();
    }
    // SAFETY: C is segmenting the skb, as the helper requires.
    let outer_len = unsafe { bindings::ferroce_helper_skb_tnl_header_len(skb) };
    let len = usize::try_from(outer_len).unwrap_or(0);
    if len < IP_AND_UDP_LEN {
        return EINVAL.to_ptr();
    }
    let outer = OuterHeaders {
        len,
        ip_and_udp_len: IP_AND_UDP_LEN,
        // SAFETY: A function of its argument.
        shares_pages: unsafe { bindings::ferroce_helper_takes_fragments(features) },
    };
    // SAFETY: The skb is valid, and C has pulled `len` bytes of headers: those of the link, of IP and of UDP. If
    // something has inserted IP options or extension headers, `S` refuses the super-packet.
    match unsafe { split::<S>(skb, outer, 0) } {
        Ok(chain) => {
            let (first, last) = chain.into_raw();
            // SAFETY: `split` made at least one packet. The first refers to the last, as C expects.
            unsafe { (*first).__bindgen_anon_1.__bindgen_anon_1.prev = last };
            first
        }
        Err(error) => error.to_ptr(),
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Model check of `rust/rdma/net/netns/listener.rs`: the object that a pernet hook calls, while another hook
//! is registered.
//!
//! Compiles the module's own `listener.rs` over a model of the kernel's atomics. Two hooks have objects of
//! different types. Checks that a hook never sees the object of the other one: not while the first is being
//! unregistered, when C calls it for every namespace, and not when the second is registered at that moment.

use listener::{
    Listener,
    Object, //
};
use loom::{
    sync::Arc,
    thread, //
};

/// Stands in for `rust/rdma/net/netns.rs`.
#[path = "."]
mod listener {
    use loom::sync::atomic::{
        AtomicBool,
        AtomicPtr,
        Ordering, //
    };
    use std::ffi::c_void;

    #[path = "../../rust/rdma/net/netns/listener.rs"]
    mod protocol;

    pub(crate) use protocol::Listener as Protocol;

    /// The kernel's orderings.
    pub(crate) struct Acquire;
    pub(crate) struct Release;
    pub(crate) struct Full;

    /// `Atomic<*mut c_void>`.
    pub(crate) struct Pointer(AtomicPtr<c_void>);

    impl Pointer {
        pub(crate) fn load(&self, _: Acquire) -> *mut c_void {
            self.0.load(Ordering::Acquire)
        }

        pub(crate) fn store(&self, value: *mut c_void, _: Release) {
            self.0.store(value, Ordering::Release);
        }

        pub(crate) fn cmpxchg(
            &self,
            old: *mut c_void,
            new: *mut c_void,
            _: Full,
        ) -> Result<*mut c_void, *mut c_void> {
            self.0
                .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
        }
    }

    /// `Atomic<bool>`.
    pub(crate) struct Flag(AtomicBool);

    impl Flag {
        pub(crate) fn load(&self, _: Acquire) -> bool {
            self.0.load(Ordering::Acquire)
        }

        pub(crate) fn store(&self, value: bool, _: Release) {
            self.0.store(value, Ordering::Release);
        }
    }

    /// An address that stands for an object: the model never follows it.
    pub(crate) type Object = usize;

    pub(crate) struct Listener(Protocol);

    impl Listener {
        pub(crate) fn new() -> Self {
            let object = Pointer(AtomicPtr::new(std::ptr::null_mut()));
            Self(Protocol::new(object, Flag(AtomicBool::new(false))))
        }

        pub(crate) fn claim(&self, object: Object) -> bool {
            self.0.claim(std::ptr::without_provenance_mut(object))
        }

        pub(crate) fn close(&self, unregister: impl FnOnce()) {
            self.0.close(unregister);
        }

        pub(crate) fn get(&self) -> Option<Object> {
            self.0.get().map(|object| object.addr())
        }
    }
}

const FIRST: Object = 1;
const SECOND: Object = 2;

/// The hook of `own`, as C calls it. Returns whether it called its object.
fn exit(listener: &Listener, own: Object) -> bool {
    let object = listener.get();
    assert!(
        object.is_none_or(|object| object == own),
        "the object of another hook"
    );
    object.is_some()
}

#[test]
fn a_hook_that_is_unregistered_never_sees_the_next_object() {
    loom::model(|| {
        let listener = Arc::new(Listener::new());
        assert!(listener.claim(FIRST));
        let second = {
            let listener = listener.clone();
            thread::spawn(move || {
                // C registers the second hook, and a namespace ends.
                listener.claim(SECOND) && exit(&listener, SECOND)
            })
        };
        listener.close(|| {
            // C calls the first hook for each namespace before it removes the hook from its list.
            assert!(
                !exit(&listener, FIRST),
                "called while its hook is unregistered"
            );
            exit(&listener, FIRST);
        });
        second.join().unwrap();
    });
}

#[test]
fn a_registered_hook_calls_its_object_and_leaves_room_for_another() {
    loom::model(|| {
        let listener = Listener::new();
        assert!(listener.claim(FIRST));
        assert!(!listener.claim(SECOND));
        assert!(exit(&listener, FIRST));
        listener.close(|| {});
        assert!(listener.claim(SECOND));
        assert!(exit(&listener, SECOND));
    });
}

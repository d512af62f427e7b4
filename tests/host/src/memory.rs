// SPDX-License-Identifier: GPL-2.0

//! Memory of a host with memory keys, in a `Vec`. All accesses are checked.

use roce::{
    access::{
        Access,
        AccessError,
        Region, //
    },
    id::Rkey,
    wr::{
        AtomicOp,
        FlushScope,
        Remote, //
    }, //
};

/// The memory of a host: one address range, parts of which are registered.
#[derive(Debug)]
pub struct Memory {
    base: u64,
    bytes: Vec<u8>,
    registered: Vec<Registered>,
    /// Number of keys issued.
    keys: u32,
}

/// A registered part of the memory.
#[derive(Debug)]
struct Registered {
    rkey: Rkey,
    region: Region,
    access: Access,
}

impl Memory {
    /// Creates an empty memory whose addresses start at `base`.
    #[must_use]
    pub fn new(base: u64) -> Self {
        Self {
            base,
            bytes: Vec::new(),
            registered: Vec::new(),
            keys: 0,
        }
    }

    /// Adds `len` bytes of 0xaa and returns their address.
    pub fn alloc(&mut self, len: usize) -> u64 {
        let va = self.base + self.bytes.len() as u64;
        self.bytes.resize(self.bytes.len() + len, 0xaa);
        va
    }

    /// Adds a copy of `bytes` and returns its address.
    pub fn store(&mut self, bytes: &[u8]) -> u64 {
        let va = self.alloc(bytes.len());
        self.write(va, bytes);
        va
    }

    /// Returns `len` bytes at `va`.
    ///
    /// # Panics
    ///
    /// If they are not allocated.
    #[must_use]
    pub fn get(&self, va: u64, len: usize) -> &[u8] {
        let start = usize::try_from(va - self.base).expect("an address of this memory");
        &self.bytes[start..start + len]
    }

    /// Writes `bytes` at `va`.
    ///
    /// # Panics
    ///
    /// If they are not allocated.
    pub fn write(&mut self, va: u64, bytes: &[u8]) {
        let start = usize::try_from(va - self.base).expect("an address of this memory");
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Registers `len` bytes at `va` and returns the key.
    pub fn register(&mut self, va: u64, len: usize, access: Access) -> Rkey {
        self.keys += 1;
        let rkey = Rkey::new(0x100 + self.keys);
        let region = Region {
            iova: va,
            length: len as u64,
        };
        self.registered.push(Registered {
            rkey,
            region,
            access,
        });
        rkey
    }

    /// Invalidates a key.
    pub fn revoke(&mut self, rkey: Rkey) {
        self.registered.retain(|registered| registered.rkey != rkey);
    }

    /// Returns whether a key is valid.
    #[must_use]
    pub fn is_registered(&self, rkey: Rkey) -> bool {
        self.registered
            .iter()
            .any(|registered| registered.rkey == rkey)
    }

    /// Executes `op` on the eight bytes at `remote`. Returns their original value.
    ///
    /// # Errors
    ///
    /// The access error.
    pub fn atomic(&mut self, remote: Remote, op: AtomicOp) -> Result<u64, AccessError> {
        self.check(remote, 8, Access::REMOTE_ATOMIC)?;
        assert_eq!(remote.va % 8, 0, "aligned");
        let old = u64::from_ne_bytes(self.get(remote.va, 8).try_into().expect("eight bytes"));
        let new = match op {
            AtomicOp::CompareSwap { compare, swap } if old == compare => swap,
            AtomicOp::CompareSwap { .. } => old,
            AtomicOp::FetchAdd { add } => old.wrapping_add(add),
        };
        self.write(remote.va, &new.to_ne_bytes());
        Ok(old)
    }

    /// Checks that the key grants `access` for a flush of `scope` at `remote`.
    ///
    /// # Errors
    ///
    /// The access error.
    pub fn check_flush(
        &self,
        remote: Remote,
        scope: FlushScope,
        access: Access,
    ) -> Result<(), AccessError> {
        match scope {
            FlushScope::Range(len) => self.check(remote, len, access),
            FlushScope::Region => {
                let registered = self.registered.iter().find(|g| g.rkey == remote.rkey);
                let registered = registered.ok_or(AccessError::Key)?;
                match registered.access.contains(access) {
                    true => Ok(()),
                    false => Err(AccessError::Rights),
                }
            }
        }
    }

    /// Checks that the key grants `access` to `len` bytes at `remote`.
    ///
    /// # Errors
    ///
    /// The access error.
    pub fn check(&self, remote: Remote, len: u32, access: Access) -> Result<(), AccessError> {
        let registered = self.registered.iter().find(|g| g.rkey == remote.rkey);
        let registered = registered.ok_or(AccessError::Key)?;
        if !registered.access.contains(access) {
            return Err(AccessError::Rights);
        }
        registered
            .region
            .offset_of(remote.va, u64::from(len))
            .map(|_| ())
            .ok_or(AccessError::Bounds)
    }
}

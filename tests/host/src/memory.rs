// SPDX-License-Identifier: GPL-2.0

//! Memory with keys, over a `Vec`.
//!
//! Owns the bytes of one host and who may touch them. Every access is checked, so that a test
//! fails where the core asks for something it was not given.

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

/// The memory of one host: one range of addresses, some of it registered.
#[derive(Debug)]
pub struct Memory {
    base: u64,
    bytes: Vec<u8>,
    granted: Vec<Granted>,
    /// Keys given so far.
    keys: u32,
}

/// A registered part of the memory.
#[derive(Debug)]
struct Granted {
    rkey: Rkey,
    region: Region,
    access: Access,
}

impl Memory {
    /// Makes a memory without a byte, whose addresses start at `base`.
    #[must_use]
    pub fn new(base: u64) -> Self {
        Self {
            base,
            bytes: Vec::new(),
            granted: Vec::new(),
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
        self.put(va, bytes);
        va
    }

    /// Returns `len` bytes at `va`.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[must_use]
    pub fn get(&self, va: u64, len: usize) -> &[u8] {
        let start = usize::try_from(va - self.base).expect("an address of this memory");
        &self.bytes[start..start + len]
    }

    /// Writes `bytes` at `va`.
    ///
    /// # Panics
    ///
    /// If there is no room.
    pub fn put(&mut self, va: u64, bytes: &[u8]) {
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
        self.granted.push(Granted {
            rkey,
            region,
            access,
        });
        rkey
    }

    /// Makes a key useless.
    pub fn revoke(&mut self, rkey: Rkey) {
        self.granted.retain(|granted| granted.rkey != rkey);
    }

    /// Returns whether a key opens anything.
    #[must_use]
    pub fn knows(&self, rkey: Rkey) -> bool {
        self.granted.iter().any(|granted| granted.rkey == rkey)
    }

    /// Does `op` to the eight bytes at `remote`. Returns what they were.
    ///
    /// # Errors
    ///
    /// Why whoever has the key may not.
    pub fn atomic(&mut self, remote: Remote, op: AtomicOp) -> Result<u64, AccessError> {
        self.check(remote, 8, Access::REMOTE_ATOMIC)?;
        assert_eq!(remote.va % 8, 0, "aligned");
        let old = u64::from_ne_bytes(self.get(remote.va, 8).try_into().expect("eight bytes"));
        let new = match op {
            AtomicOp::CompareSwap { compare, swap } if old == compare => swap,
            AtomicOp::CompareSwap { .. } => old,
            AtomicOp::FetchAdd { add } => old.wrapping_add(add),
        };
        self.put(remote.va, &new.to_ne_bytes());
        Ok(old)
    }

    /// Checks that whoever has the key may flush `scope` at `remote`.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn check_flush(
        &self,
        remote: Remote,
        scope: FlushScope,
        access: Access,
    ) -> Result<(), AccessError> {
        match scope {
            FlushScope::Range(len) => self.check(remote, len, access),
            FlushScope::Region => {
                let granted = self.granted.iter().find(|g| g.rkey == remote.rkey);
                let granted = granted.ok_or(AccessError::Key)?;
                match granted.access.contains(access) {
                    true => Ok(()),
                    false => Err(AccessError::Rights),
                }
            }
        }
    }

    /// Checks that whoever has the key may do `access` to `len` bytes at `remote`.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn check(&self, remote: Remote, len: u32, access: Access) -> Result<(), AccessError> {
        let granted = self.granted.iter().find(|g| g.rkey == remote.rkey);
        let granted = granted.ok_or(AccessError::Key)?;
        if !granted.access.contains(access) {
            return Err(AccessError::Rights);
        }
        granted
            .region
            .offset_of(remote.va, u64::from(len))
            .map(|_| ())
            .ok_or(AccessError::Bounds)
    }
}

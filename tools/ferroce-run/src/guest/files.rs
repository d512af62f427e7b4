// SPDX-License-Identifier: GPL-2.0

//! The file system of the machine: the caller's, under a layer in memory.
//!
//! The kernel starts on the directory of the sandbox's own files, which has mount points for the rest.

use std::fs::{create_dir_all, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::kmod::{finit_module, ModuleInitFlags};
use nix::mount::{mount, MsFlags};
use nix::unistd::{chdir, chroot};

/// Where the caller's file system is mounted at first.
const CALLER: &str = "/lower";
/// The layer in memory, and both together.
const LAYER: &str = "/upper";
const ROOT: &str = "/root";

/// Programs of the sandbox's own, as commands see them.
pub const PROGRAMS: &str = "/run/ferroce/bin";

/// ferroce's own provider as libibverbs takes it: a path to which it appends its number.
pub const PROVIDER: &str = "/run/ferroce/provider/libferroce";
const PROVIDER_DIRECTORY: &str = "/run/ferroce/provider";

/// Parts of the kernel's own that every system has mounted: type and place. Those that the kernel lacks are left out.
const KERNEL: [(&str, &str); 8] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("mqueue", "/dev/mqueue"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// A path as a C string of `mount` takes it, or nothing.
const NONE: Option<&str> = None;

/// Whether this is user-mode Linux; otherwise, it is QEMU.
pub fn on_user_mode() -> bool {
    std::env::var_os("FERROCE_ENGINE").is_none()
}

/// Loads the modules that `/modules/load` names, where the kernel has modules for what is needed below.
pub fn load_modules() -> Result<()> {
    for name in std::fs::read_to_string("/modules/load")
        .unwrap_or_default()
        .lines()
    {
        load_module(&Path::new("/modules").join(name))?;
    }
    Ok(())
}

/// Loads the module in a file.
pub fn load_module(path: &Path) -> Result<()> {
    let module = File::open(path).with_context(|| path.display().to_string())?;
    finit_module(&module, c"", ModuleInitFlags::empty())
        .with_context(|| format!("cannot load {}", path.display()))
}

/// Mounts the caller's file system as it is.
fn mount_caller() -> nix::Result<()> {
    let (kind, options) = if on_user_mode() {
        ("hostfs", "/")
    } else {
        (
            "9p",
            "trans=virtio,version=9p2000.L,msize=512000,cache=loose",
        )
    };
    mount(
        Some("caller"),
        CALLER,
        Some(kind),
        MsFlags::empty(),
        Some(options),
    )
}

/// The caller's files, kept open so that what was written can be waited for.
pub struct CallerFiles(File);

impl CallerFiles {
    /// Waits until all that was written is with the host. Fails if any of it was lost since the machine began.
    pub fn sync(&self) -> nix::Result<()> {
        nix::unistd::syncfs(&self.0)
    }
}

/// Mounts the devices, which the channel needs.
pub fn mount_devices() -> Result<()> {
    mount(
        Some("devtmpfs"),
        "/dev",
        Some("devtmpfs"),
        MsFlags::empty(),
        NONE,
    )
    .context("cannot mount /dev")
}

/// Makes the root that the command sees the root of this process. `writable` are directories whose files are the
/// caller's own.
pub fn set_up(writable: &[PathBuf]) -> Result<CallerFiles> {
    mount_caller().context("cannot mount the caller's files")?;
    mount(
        Some("layer"),
        LAYER,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("size=90%,mode=755"),
    )?;
    for name in ["/upper/files", "/upper/work"] {
        create_dir_all(name)?;
    }
    let options = format!("lowerdir={CALLER},upperdir={LAYER}/files,workdir={LAYER}/work");
    mount(
        Some("overlay"),
        ROOT,
        Some("overlay"),
        MsFlags::empty(),
        Some(options.as_str()),
    )
    .context("cannot mount a layer over the caller's files")?;
    for directory in writable {
        bind(&under(CALLER, directory), &under(ROOT, directory))
            .with_context(|| format!("cannot make {} writable", directory.display()))?;
    }
    let caller = CallerFiles(File::open(CALLER)?);
    let own = File::open("/")?;
    create_dir_all(format!("{ROOT}/dev"))?;
    mount(Some("/dev"), "/root/dev", NONE, MsFlags::MS_MOVE, NONE)?;
    chdir(ROOT)?;
    mount(Some("."), "/", NONE, MsFlags::MS_MOVE, NONE)?;
    chroot(".")?;
    chdir("/")?;
    mount_kernel()?;
    add_own_files(&own)?;
    Ok(caller)
}

/// `path`, which is absolute, below `root`.
fn under(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

fn bind(from: &Path, to: &Path) -> nix::Result<()> {
    mount(
        Some(from),
        to,
        NONE,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        NONE,
    )
}

fn mount_kernel() -> Result<()> {
    for (kind, place) in KERNEL {
        let made = create_dir_all(place);
        let options = (kind == "devpts").then_some("mode=620,ptmxmode=666");
        let mounted = mount(Some(kind), place, Some(kind), MsFlags::empty(), options);
        if kind == "proc" || kind == "sysfs" {
            made?;
            mounted.with_context(|| format!("cannot mount {place}"))?;
        }
    }
    // The links that programs take for granted.
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
    ] {
        let _ = std::os::unix::fs::symlink(target, format!("/dev/{name}"));
    }
    let _ = std::os::unix::fs::symlink("/proc/self/fd/2", "/dev/stderr");
    let _ = std::os::unix::fs::symlink("pts/ptmx", "/dev/ptmx");
    Ok(())
}

/// Puts the sandbox's own programs and provider, and the modules of its kernel, where they are looked for.
fn add_own_files(own: &File) -> Result<()> {
    let own = format!("/proc/self/fd/{}", own.as_raw_fd());
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let modules = format!("/lib/modules/{}", release.trim());
    for (name, place) in [
        ("bin", PROGRAMS),
        ("modules", &modules),
        ("provider", PROVIDER_DIRECTORY),
    ] {
        create_dir_all(place).with_context(|| format!("cannot make {place}"))?;
        bind(Path::new(&format!("{own}/{name}")), Path::new(place))
            .with_context(|| format!("cannot mount {place}"))?;
    }
    Ok(())
}

/// Adds the line that tells the processor's clock rate, which perftest divides by, and which this architecture lacks.
pub fn add_clock_rate(megahertz: &str) -> Result<()> {
    const TEXT: &str = "/run/ferroce/cpuinfo";
    let mut text = String::new();
    for line in std::fs::read_to_string("/proc/cpuinfo")?.lines() {
        text += line;
        text.push('\n');
        if line.starts_with("bogomips") {
            text += &format!("cpu MHz\t\t: {megahertz}\n");
        }
    }
    std::fs::write(TEXT, text)?;
    bind(Path::new(TEXT), Path::new("/proc/cpuinfo")).context("/proc/cpuinfo")
}

//! What the scenes with guests need: an image to boot, and the agent's side of a conversation.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vioperf_lab::initramfs::{Initramfs, Programs};
use vioperf_lab::kernel::find::{Request as Wanted, find};
use vioperf_lab::kernel::{ALWAYS_NEEDED, USED_IF_PRESENT};
use vioperf_lab::qemu::{Accelerator, BootImage, Hypervisor, Qemu};
use vioperf_model::nic::NicModel;
use vioperf_model::sample::InterfaceFacts;
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{
    InterfaceConfig, InterfaceSelector, PROTOCOL_VERSION, Request, Response, read_frame,
    write_frame,
};

pub const BOUND: Duration = Duration::from_secs(60);

/// The installed QEMU without KVM: what a test finds must not depend on the machine.
pub fn hypervisor() -> Hypervisor {
    Hypervisor { qemu: Qemu::find(None).unwrap(), accelerator: Accelerator::Tcg, cpu: None }
}

/// Kernel and initramfs with the agent and every model's driver.
pub fn image() -> BootImage {
    let cache = cache();
    let running = nix::sys::utsname::uname().unwrap().release().to_str().unwrap().to_owned();
    let mut wanted: Vec<&str> = NicModel::made_by_qemu().map(|model| model.row().module).collect();
    wanted.extend(ALWAYS_NEEDED);
    let kernel = find(&Wanted {
        image: None,
        modules: None,
        root: Path::new("/"),
        running: &running,
        cache: &cache,
        wanted: &wanted,
    })
    .unwrap_or_else(|error| panic!("a guest kernel (run `vioperf kernel fetch`): {error}"));
    let modules = kernel.module_tree().unwrap().collect(&wanted, USED_IF_PRESENT).unwrap();
    let agent = std::fs::read(agent()).unwrap();
    let mut initramfs = Vec::new();
    Initramfs { agent: &agent, modules: &modules, programs: &Programs::default() }
        .write(&mut initramfs)
        .unwrap();
    let file = kernel.boot_file(&cache, &mut |_| {}).unwrap();
    BootImage::open(&file.path, &initramfs).unwrap()
}

/// A kernel that finds nothing to run, and so panics.
pub fn image_without_agent() -> BootImage {
    let cache = cache();
    let running = nix::sys::utsname::uname().unwrap().release().to_str().unwrap().to_owned();
    let kernel = find(&Wanted {
        image: None,
        modules: None,
        root: Path::new("/"),
        running: &running,
        cache: &cache,
        wanted: ALWAYS_NEEDED,
    })
    .unwrap();
    BootImage::open(&kernel.boot_file(&cache, &mut |_| {}).unwrap().path, &[]).unwrap()
}

fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base =
        base.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
    base.join("vioperf/kernels")
}

/// `target/<triple>/agent/vioperf-agent`, beside this test's `target/debug/deps/`.
fn agent() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let target = here.ancestors().nth(3).unwrap();
    let agent = target.join("x86_64-unknown-linux-musl/agent/vioperf-agent");
    assert!(agent.is_file(), "{} is missing: run `make agent`", agent.display());
    agent
}

/// One request and its answer.
pub fn ask(channel: &mut UnixStream, request: &Request) -> Result<Response, String> {
    write_frame(channel, request).map_err(|error| error.to_string())?;
    match read_frame(channel).map_err(|error| error.to_string())? {
        Response::Failed { message } => Err(message),
        response => Ok(response),
    }
}

pub fn hello(channel: &mut UnixStream) -> Result<(), String> {
    ask(channel, &Request::Hello { version: PROTOCOL_VERSION }).map(drop)
}

pub fn load(channel: &mut UnixStream, models: &[NicModel]) -> Result<(), String> {
    let names = models.iter().map(|model| model.row().module.to_owned()).collect();
    ask(channel, &Request::LoadModules { names, options: [].into() }).map(drop)
}

/// Waits for driver and carrier of the NIC with that address.
pub fn configure(channel: &mut UnixStream, mac: &str) -> Result<InterfaceFacts, String> {
    let config = InterfaceConfig {
        interface: InterfaceSelector::Mac(mac.to_owned()),
        address: "10.7.0.9".parse().unwrap(),
        further_addresses: vec![],
        routes: vec![],
        prefix_length: 24,
        mtu: 1500,
        settings: Default::default(),
        ports: None,
        timeout: TimeSpan::from_millis(30_000),
    };
    match ask(channel, &Request::ConfigureInterface(config))? {
        Response::Interface(facts) => Ok(facts),
        other => Err(format!("unexpected: {other:?}")),
    }
}

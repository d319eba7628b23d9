//! From a kernel, an agent and QEMU to something that guests start from.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vioperf_lab::Lab;
use vioperf_lab::initramfs::{Initramfs, Programs};
use vioperf_lab::kernel::{ALWAYS_NEEDED, GuestKernel, USED_IF_PRESENT, USED_TO_FORWARD};
use vioperf_lab::qemu::accelerator::{self, Key, Memory};
use vioperf_lab::qemu::{Accelerator, BootImage, Hypervisor, Qemu, Shape, Snapshot, Verdict};
use vioperf_model::disk::DiskModel;
use vioperf_model::nic::NicModel;
use vioperf_model::plan::{Cell, Plan};
use vioperf_model::record::{HypervisorFacts, TemplateTimes};
use vioperf_model::scenario::{Guest, Reuse};

use super::node_link::{NodeError, NodeLink};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::paths;

/// PID 1 of every guest; on a machine that is reached by ssh, a node.
pub const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent"));

/// What guests are made from, checked by the preflight.
#[derive(Debug)]
pub struct Ingredients {
    /// QEMU.
    pub qemu: Qemu,
    /// The guests' kernel.
    pub kernel: GuestKernel,
    /// Every NIC model of the plan.
    pub models: Vec<NicModel>,
    /// Every disk model of the plan.
    pub disks: Vec<DiskModel>,
    /// The guest as it is wanted.
    pub guest: Guest,
    /// What its kind is called, where there are several.
    pub name: Option<String>,
    /// Whether a guest of the plan hands packets on.
    pub forwards: bool,
    /// What it has for visitors, and of a run the program that does its load; else nothing.
    pub programs: Programs,
}

/// Everything that guests start from.
#[derive(Debug, Default)]
pub struct GuestSupply {
    orders: Vec<GuestOrder>,
}

/// How guests of a kind are made.
#[derive(Debug)]
pub struct GuestOrder {
    /// What they start from; those that differ in the settings of their devices alone share it.
    pub factory: Rc<GuestFactory>,
    /// What they are.
    pub guest: Guest,
}

impl GuestSupply {
    /// Boots what the guests of each kind are restored from.
    ///
    /// # Errors
    /// As those of [`GuestFactory::set_up`].
    pub fn set_up(
        lab: &Lab,
        ingredients: &[Ingredients],
        interrupt: &Interrupt,
        output: &Output,
    ) -> Result<Self> {
        let mut orders: Vec<GuestOrder> = Vec::new();
        for ingredients in ingredients {
            let wanted = ingredients.guest.without_device_settings();
            let same = orders
                .iter()
                .find(|made| made.guest.without_device_settings() == wanted)
                .map(|made| Rc::clone(&made.factory));
            let factory = match same {
                Some(factory) => factory,
                None => Rc::new(
                    GuestFactory::set_up(lab, ingredients, interrupt, output).with_context(
                        || match &ingredients.name {
                            Some(name) => format!("cannot make guests: {name}"),
                            None => "cannot make guests".to_owned(),
                        },
                    )?,
                ),
            };
            orders.push(GuestOrder { factory, guest: ingredients.guest.clone() });
        }
        Ok(Self { orders })
    }

    /// How the guests of a cell are made; absent when it has none.
    pub fn of(&self, cell: &Cell) -> Option<&GuestOrder> {
        let wanted = cell.guest.as_ref()?;
        self.orders.iter().find(|order| order.guest == *wanted)
    }

    /// Whether any guest is emulated in software.
    pub fn is_emulated(&self) -> bool {
        self.orders.iter().any(|order| order.factory.is_emulated())
    }

    /// What runs the guests of a plan, for the run's provenance: those of the first kind, and those of
    /// each by its name where they differ.
    pub fn facts(
        &self,
        plan: &Plan,
    ) -> (Option<HypervisorFacts>, BTreeMap<String, HypervisorFacts>) {
        let of = |cell: &Cell| self.of(cell).map(|order| order.factory.facts());
        let first = plan.cells.iter().find_map(of);
        let named = plan.cells.iter().filter_map(|cell| Some((cell.guest_name()?, of(cell)?)));
        (first, named.collect())
    }
}

/// What guests start from.
#[derive(Debug)]
pub struct GuestFactory {
    /// QEMU and its accelerator.
    pub hypervisor: Hypervisor,
    /// Kernel and initramfs.
    pub image: BootImage,
    /// Processors and memory.
    pub shape: Shape,
    /// The guest that others are restored from, where the scenario does not want fresh boots.
    pub snapshot: Option<Snapshot>,
    /// Modules of the drivers.
    pub modules: Vec<String>,
    /// Modules of the kernel by which a guest hands packets on.
    pub forwarding_modules: Vec<String>,
    /// Parameters of modules, by module.
    pub driver_options: BTreeMap<String, String>,
    /// How long a guest may take to answer.
    pub ready_timeout: Duration,
    verdict: Verdict,
    kernel: String,
    kernel_origin: String,
    template: Option<TemplateTimes>,
}

impl GuestFactory {
    /// Chooses the accelerator and boots the guest that the snapshot is taken of.
    ///
    /// # Errors
    /// When KVM is wanted and not to be had, or the guest does not boot.
    pub fn set_up(
        lab: &Lab,
        ingredients: &Ingredients,
        interrupt: &Interrupt,
        output: &Output,
    ) -> Result<Self> {
        let wanted = &ingredients.guest;
        let (image, modules, forwarding_modules) = boot_image(ingredients, output)?;
        let shape = shape_of(wanted);
        // Without the user's kernel arguments: what they break is not KVM's fault, and remembered.
        let verdict = choose(ingredients, wanted, &image, shape, interrupt)?;
        let image = image.with_arguments(wanted.kernel_arguments.as_deref().unwrap_or_default());
        let hypervisor = Hypervisor {
            qemu: ingredients.qemu.clone(),
            accelerator: verdict.accelerator,
            cpu: wanted.cpu.clone(),
        };
        let kernel = &ingredients.kernel;
        let mut factory = Self {
            hypervisor,
            image,
            shape,
            snapshot: None,
            modules,
            forwarding_modules,
            driver_options: wanted.driver_options.clone(),
            ready_timeout: wanted.ready_timeout.as_duration(),
            verdict,
            kernel: kernel.release.clone(),
            kernel_origin: format!("{}: {}", kernel.source, kernel.image.display()),
            template: None,
        };
        if wanted.reuse != Reuse::None {
            output.note(format_args!(
                "booting the guest's kernel {} under {}",
                factory.kernel, factory.hypervisor.accelerator
            ));
            factory.take_snapshot(lab, interrupt)?;
        }
        Ok(factory)
    }

    fn take_snapshot(&mut self, lab: &Lab, interrupt: &Interrupt) -> Result<()> {
        let mut template = lab.boot_template(&self.hypervisor, &self.image, self.shape)?;
        let timeout = self.ready_timeout;
        let (modules, options) = (self.modules.clone(), self.driver_options.clone());
        let answered = template.answer_within(2 * timeout, |channel| {
            let mut link = NodeLink::greet("guest", channel, timeout, interrupt)?;
            let booted = Instant::now();
            link.load_modules(modules, options, timeout)?;
            Ok::<_, NodeError>(booted.elapsed())
        })?;
        let boot_ms = milliseconds(template.age().saturating_sub(answered));
        let snapshot = template.into_snapshot()?;
        let snapshot_ms = milliseconds(snapshot.saving_took());
        self.template = Some(TemplateTimes { boot_ms, snapshot_ms });
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// Whether guests are emulated in software.
    pub fn is_emulated(&self) -> bool {
        self.hypervisor.accelerator == Accelerator::Tcg
    }

    /// For the run's provenance.
    pub fn facts(&self) -> HypervisorFacts {
        let qemu = &self.hypervisor.qemu;
        HypervisorFacts {
            qemu_path: qemu.path.display().to_string(),
            qemu_version: qemu.version_line.clone(),
            emulated: self.is_emulated(),
            accel_reason: self.verdict.reason.clone(),
            guest_kernel_release: self.kernel.clone(),
            guest_kernel_origin: self.kernel_origin.clone(),
            vcpus: self.shape.vcpus,
            template: self.template,
        }
    }
}

/// Kernel and initramfs in memory, the names of the drivers' modules, and of those for a guest that
/// forwards.
fn boot_image(
    ingredients: &Ingredients,
    output: &Output,
) -> Result<(BootImage, Vec<String>, Vec<String>)> {
    let kernel = &ingredients.kernel;
    let boot = kernel.boot_file(&paths::kernel_cache()?, &mut |line| output.note(line))?;
    let image = fs::read(&boot.path)
        .with_context(|| format!("cannot read the kernel {}", boot.path.display()))?;
    let of_nics = ingredients.models.iter().map(|nic| nic.row().module);
    let of_disks = ingredients.disks.iter().flat_map(|disk| disk.row().modules).copied();
    let mut drivers: Vec<&str> = Vec::new();
    for driver in of_nics.chain(of_disks) {
        if !drivers.contains(&driver) {
            drivers.push(driver);
        }
    }
    let wanted: Vec<&str> = ALWAYS_NEEDED.iter().chain(&drivers).copied().collect();
    let to_forward = if ingredients.forwards { USED_TO_FORWARD } else { &[] };
    let of_cards: Vec<&str> = ingredients
        .models
        .iter()
        .flat_map(|nic| nic.row().other_drivers())
        .copied()
        .filter(|driver| !wanted.contains(driver))
        .collect();
    let optional = [USED_IF_PRESENT, to_forward, &of_cards].concat();
    let modules = kernel.module_tree()?.collect(&wanted, &optional)?;
    let is_taken = |name: &&&str| modules.wanted().any(|(taken, _)| taken == **name);
    drivers.extend(of_cards.iter().filter(is_taken));
    let to_forward = to_forward.iter().filter(is_taken).map(|name| (*name).to_owned()).collect();
    let mut initramfs = Vec::new();
    Initramfs { agent: AGENT, modules: &modules, programs: &ingredients.programs }
        .write(&mut initramfs)
        .and_then(|()| BootImage::new(&image, &initramfs))
        .map(|image| (image, drivers.into_iter().map(str::to_owned).collect(), to_forward))
        .map_err(|error: io::Error| {
            anyhow::anyhow!("cannot hold the guest's kernel in memory: {error}")
        })
}

/// Processors and memory of a guest, where the scenario says nothing by the host's.
pub fn shape_of(wanted: &Guest) -> Shape {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let half = u16::try_from(cores / 2).unwrap_or(u16::MAX).clamp(1, 4);
    let vcpus = wanted.vcpus.unwrap_or(half);
    let (machine, huge_pages) = (wanted.machine, wanted.huge_pages);
    Shape { vcpus, memory_mib: wanted.memory.as_bytes() >> 20, machine, huge_pages }
}

fn choose(
    ingredients: &Ingredients,
    wanted: &Guest,
    image: &BootImage,
    shape: Shape,
    interrupt: &Interrupt,
) -> Result<Verdict> {
    let root = Path::new("/");
    let memory = Memory::in_directory(&paths::cache()?);
    let key = Key::read(root, &ingredients.qemu);
    let greet = |channel: UnixStream| {
        NodeLink::greet("guest", channel, accelerator::PROOF_BOUND, interrupt).map(drop)
    };
    let prove = || accelerator::prove_kvm(&ingredients.qemu, image, shape, greet);
    let device = accelerator::kvm_device(root);
    Ok(accelerator::decide(wanted.accel, device, &memory, &key, prove)?)
}

/// Whole milliseconds.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

//! What the load costs in CPU time, and who used it.

use schemars::JsonSchema;
use serde::Serialize;

use super::Metric;

/// Who uses a core of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuUser {
    /// Virtual CPUs that run the guest's own instructions; under software emulation that is work of QEMU's,
    /// and in `vcpu`.
    Guest,
    /// The rest of virtual CPUs' threads: exits from the guest, devices that they emulate.
    Vcpu,
    /// QEMU's main loop.
    MainLoop,
    /// QEMU's I/O threads.
    Io,
    /// The kernel's vhost workers.
    Vhost,
    /// QEMU's other threads.
    OtherQemu,
    /// What ran the guests beside the one under test.
    OtherGuests,
    /// Interrupts and soft interrupts.
    Interrupts,
    /// Everything else: the far end, the switch, whoever else is there.
    Rest,
}

impl CpuUser {
    /// All, in the order in which they are stacked.
    pub const ALL: [Self; 9] = [
        Self::Guest,
        Self::Vcpu,
        Self::MainLoop,
        Self::Io,
        Self::Vhost,
        Self::OtherQemu,
        Self::OtherGuests,
        Self::Interrupts,
        Self::Rest,
    ];

    /// Whether it is a part of the QEMU that runs the guest under test.
    pub fn is_of_qemu(self) -> bool {
        !matches!(self, Self::OtherGuests | Self::Interrupts | Self::Rest)
    }
}

/// What one of them used.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CpuShare {
    /// Who.
    pub user: CpuUser,
    /// How much of a core; 100 is one.
    pub percent_of_core: Metric,
    /// CPU time per unit of the headline metric: a bit, a datagram or a transaction.
    pub seconds_per_unit: Metric,
}

/// CPU time per KiB (1024 bytes) of payload received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServiceDemand {
    /// All busy time of all cores of the host (netperf's definition), peer and guest included.
    pub host_us_per_kib: Metric,
    /// QEMU's threads.
    pub qemu_us_per_kib: Metric,
    /// All busy time of all cores of the guest, on its own clock.
    pub guest_us_per_kib: Metric,
}

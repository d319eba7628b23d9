//! Arguments about virtual machines that libvirt looks after.

use clap::{Args, Subcommand};
use vioperf_model::scenario_file::Override;
use vioperf_model::units::TimeSpan;

use crate::machines::domain::Permission;
use crate::machines::ssh::Destination;

/// What names a virtual machine, and what may be done to it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Virtual machines of libvirt")]
pub struct DomainOptions {
    /// The machine at the other end is this domain of libvirt, by name or UUID: its hypervisor is watched too
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// Which libvirt, such as qemu:///system or qemu+ssh://root@host/system [default: virsh's own]
    #[arg(long, value_name = "URI", requires = "domain")]
    pub libvirt: Option<String>,
    /// Its interface under test, by MAC address or by the host's name for it [default: the one that has the
    /// address that is measured]
    #[arg(long, value_name = "MAC", requires = "domain")]
    pub interface: Option<String>,
    /// Measure it with these NIC models in turn, such as e1000,virtio; needs --allow-change
    #[arg(long, value_name = "MODELS", requires = "domain")]
    pub nic: Option<String>,
    /// Measure it with that interface connected to these in turn: bridge:BRIDGE, openvswitch:BRIDGE, network:NETWORK,
    /// direct:INTERFACE:MODE (macvtap), `default` for where it is; needs --allow-change
    #[arg(long, value_name = "SOURCES", requires = "domain")]
    pub source: Option<String>,
    /// What is allowed
    #[command(flatten)]
    pub allowed: Allowed,
}

/// What may be done to a virtual machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Virtual machines of libvirt")]
pub struct Allowed {
    /// Allow to shut the domain down, give it another NIC or connect it elsewhere, start it, and put it back at the end
    #[arg(long)]
    pub allow_change: bool,
    /// Allow to pull its plug where it does not shut down in time
    #[arg(long)]
    pub allow_destroy: bool,
    /// How long it may take to shut down [default: 60 s]
    #[arg(long, value_name = "TIME")]
    pub shut_down_within: Option<TimeSpan>,
    /// How to get to the hypervisor, ssh://HOST [default: by libvirt's URI]
    #[arg(long, value_name = "ssh://HOST")]
    pub hypervisor: Option<Destination>,
}

impl Allowed {
    /// The options that say the same.
    pub fn options(&self) -> Vec<String> {
        let flags =
            [("--allow-change", self.allow_change), ("--allow-destroy", self.allow_destroy)];
        let given = flags.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned());
        let time = self.shut_down_within.map(|time| format!("--shut-down-within={time}"));
        let hypervisor = self.hypervisor.as_ref().map(|place| format!("--hypervisor={place}"));
        given.chain(time).chain(hypervisor).collect()
    }

    /// The same for those who do it.
    pub fn permission(&self) -> Permission {
        Permission {
            change: self.allow_change,
            destroy: self.allow_destroy,
            shut_down_within: self.shut_down_within,
            hypervisor: self.hypervisor.clone(),
        }
    }
}

impl DomainOptions {
    /// What may be done.
    pub fn permission(&self) -> Permission {
        self.allowed.permission()
    }

    /// What they change in the scenario.
    pub fn overrides(&self) -> Vec<Override> {
        let keys = [
            ("--domain", "domain", &self.domain),
            ("--libvirt", "uri", &self.libvirt),
            ("--interface", "interface", &self.interface),
        ];
        let factors = [("--nic", "nic", &self.nic), ("--source", "libvirt.source", &self.source)];
        let named = keys.into_iter().filter_map(|(option, key, value)| {
            Some(Override::option(option, "testbed.libvirt", key, value.clone()?))
        });
        let varied = factors.into_iter().filter_map(|(option, key, levels)| {
            Some(Override::flag(option, "factors", key, levels.as_deref()?))
        });
        named.chain(varied).collect()
    }
}

/// The subcommands of `libvirt`.
#[derive(Debug, Subcommand)]
pub enum LibvirtCommand {
    /// List the virtual machines and their interfaces
    List {
        /// Which libvirt, such as qemu:///system or qemu+ssh://root@host/system [default: virsh's own]
        #[arg(long, value_name = "URI")]
        libvirt: Option<String>,
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Put virtual machines back that a run changed, where it was ended before it could
    Restore {
        /// These alone, by name or UUID [default: all]
        domains: Vec<String>,
        /// Allow to pull the plug of one that does not shut down in time
        #[arg(long)]
        allow_destroy: bool,
        /// How long each may take to shut down [default: 60 s]
        #[arg(long, value_name = "TIME")]
        shut_down_within: Option<TimeSpan>,
    },
}

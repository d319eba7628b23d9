//! Arguments of `serve` and `test`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use vioperf_model::scenario_file::Override;
use vioperf_model::section::{SectionName, Takes};
use vioperf_model::units::{BitRate, ByteSize, TimeSpan};
use vioperf_model::workload::{WorkloadKey, WorkloadKind, workload_keys};

use super::libvirt::DomainOptions;
use crate::machines::client::Machine;
use crate::machines::tls::Pin;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen: ADDRESS, ADDRESS:PORT or :PORT; 0.0.0.0 or [::] for every address, which
    /// needs a token [default: 127.0.0.1:5210]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// The token that clients have to know; also taken from VIOPERF_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Make a file with a new token, for its owner alone, and end
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub new_token: Option<PathBuf>,
    /// Speak TLS on the control channel, with a certificate of its own whose fingerprint is printed
    #[arg(long)]
    pub tls: bool,
    /// Keep that certificate in this PEM file, and make it if it is not there
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Clients served at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub max_clients: u16,
    /// The longest load, warm-up included
    #[arg(long, value_name = "TIME", default_value = "10min")]
    pub max_duration: TimeSpan,
    /// The most streams of a client
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_streams: u16,
    /// The highest rate of a client's streams together; without it any [default: none]
    #[arg(long, value_name = "RATE")]
    pub max_rate: Option<BitRate>,
    /// The most memory that a client's messages and socket buffers may ask for
    #[arg(long, value_name = "SIZE", default_value = "512 MiB")]
    pub max_memory: ByteSize,
    /// End after the first client
    #[arg(long)]
    pub one_off: bool,
}

/// Arguments of `test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Where `vioperf serve` runs: HOST, HOST:PORT or [IPv6]:PORT; or, where it does not, a machine that
    /// your ssh gets to: ssh://HOST, ssh://USER@HOST:PORT
    pub target: Machine,
    /// Of a machine behind ssh, its address on the network that is to be measured [default: the one that
    /// ssh came in by]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<IpAddr>,
    /// The kind of load: tcp-stream, udp-stream, packet-rate, request-response, connect-rate or
    /// rate-search
    #[arg(short, long, value_name = "KIND", default_value = "tcp-stream")]
    pub workload: String,
    /// The options of the load
    #[command(flatten)]
    pub options: WorkloadOptions,
    /// The virtual machine that the other end is
    #[command(flatten)]
    pub domain: DomainOptions,
    /// How often it is measured; 3 are the least for an interval
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub blocks: u32,
    /// The token that the server was started with; also taken from VIOPERF_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Speak TLS on the control channel; without --tls-pin the token shows that it is the server
    #[arg(long)]
    pub tls: bool,
    /// Speak TLS with the server whose certificate has this fingerprint, which it prints
    #[arg(long, value_name = "sha256:DIGITS")]
    pub tls_pin: Option<Pin>,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Store what was measured in this directory, for `vioperf report` [default: print only]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Do not enter the test in the history (VIOPERF_NO_HISTORY=1 says the same for every test)
    #[arg(long)]
    pub no_history: bool,
    /// Print the report as JSON, and nothing while it runs
    #[arg(long)]
    pub json: bool,
    /// Print every column
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
}

/// What of a workload the command line sets: an option for every key that a scenario's workload has.
#[derive(Debug, Clone, Default)]
pub struct WorkloadOptions {
    /// As `--set` would.
    pub overrides: Vec<Override>,
}

/// Letters that users of iperf3 know.
const LETTERS: &[(&str, char)] = &[("duration", 't'), ("streams", 'P'), ("rate", 'b')];

/// What is said otherwise where there is no guest.
const HELP: &[(&str, &str)] = &[
    (
        "direction",
        "Which way the payload goes: to the server, from it, or both at once; `to,from` measures \
         one after the other [default: to]",
    ),
    ("duration", "How long the load is measured, after the warm-up [default: 10 s]"),
    ("warmup", "How long the load runs before measuring begins [default: 500 ms]"),
    ("streams", "Parallel connections, or flows of datagrams [default: 1]"),
];

/// `--socket-buffer`; of a key in a section of its own `--search-width`.
fn long_name(key: &WorkloadKey) -> String {
    let section = key.section.strip_prefix("workload").unwrap_or(&key.section);
    format!("{section}.{}", key.name).trim_start_matches('.').replace(['_', '.'], "-")
}

/// What a key is, the kinds of load that it is for where these are not all, and what holds without it.
fn help_of(key: &WorkloadKey) -> String {
    let mut help = key.help.replace('\n', " ").replace('`', "");
    if key.kinds.len() < WorkloadKind::ALL.len() {
        let kinds: Vec<&str> = key.kinds.iter().map(|kind| kind.name()).collect();
        help.push_str(&format!(" ({})", kinds.join(", ")));
    }
    if let Some(absent) = &key.absent {
        help.push_str(&format!(" [default: {}]", absent.replace('`', "")));
    }
    help
}

fn option(key: &WorkloadKey) -> Arg {
    let help = HELP.iter().find(|(name, _)| *name == key.name).map(|(_, help)| *help);
    let help = help.map_or_else(|| help_of(key), str::to_owned);
    let arg = Arg::new(long_name(key))
        .long(long_name(key))
        .action(ArgAction::Set)
        .help(help)
        .help_heading("Options of the load")
        .value_name("VALUE");
    let arg = match LETTERS.iter().find(|(name, _)| *name == key.name) {
        Some((_, letter)) => arg.short(*letter),
        None => arg,
    };
    if key.is_switch {
        arg.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        arg
    }
}

/// Whether a scenario can vary it.
fn is_factor(key: &str) -> bool {
    SectionName::Workload.key(key).is_some_and(|key| key.takes == Takes::One)
}

impl Args for WorkloadOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(workload_keys().iter().map(option))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WorkloadOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |key: &WorkloadKey| {
            let name = long_name(key);
            let value = matches.get_one::<String>(&name)?;
            // Several values of what a scenario can vary are measured one after the other.
            let varies = value.contains(',') && key.section == "workload" && is_factor(&key.name);
            let section = if varies { "factors" } else { &key.section };
            Some(Override::flag(&format!("--{name}"), section, &key.name, value))
        };
        Ok(Self { overrides: workload_keys().iter().filter_map(given).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

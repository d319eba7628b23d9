//! The keys of a workload, and the kinds of load that each is for.

use super::{Workload, WorkloadKind};

/// An option of a workload, as a key of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadKey {
    /// The section that it stands in (`workload`, `workload.search`).
    pub section: String,
    /// Its name there (`socket_buffer`).
    pub name: String,
    /// What it is, as its documentation says.
    pub help: String,
    /// Whether it is on or off.
    pub is_switch: bool,
    /// What holds where it is absent, in words.
    pub absent: Option<String>,
    /// The kinds of load that it is for.
    pub kinds: Vec<WorkloadKind>,
}

/// Every key of a workload but its kind, those of its tables too (`search.width`), read off the schema,
/// so that there is one place that knows them.
pub fn workload_keys() -> Vec<WorkloadKey> {
    let generator = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let mut keys = Vec::new();
    collect_keys("workload", &generator.into_root_schema_for::<Workload>().to_value(), &mut keys);
    keys.retain(|key| key.name != "kind");
    keys
}

fn collect_keys(section: &str, schema: &serde_json::Value, keys: &mut Vec<WorkloadKey>) {
    let properties = schema.get("properties").and_then(serde_json::Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if property.get("properties").is_some() {
            collect_keys(&format!("{section}.{name}"), property, keys);
            continue;
        }
        let text = |key: &str| property.get(key).and_then(serde_json::Value::as_str);
        keys.push(WorkloadKey {
            kinds: kinds_of(&format!("{section}.{name}")),
            absent: text("x-absent").map(str::to_owned),
            section: section.to_owned(),
            name: name.clone(),
            help: text("description").unwrap_or_default().to_owned(),
            is_switch: text("type") == Some("boolean"),
        });
    }
}

/// The kinds of load that a key (`workload.rate`), or the section that it stands in, is for.
pub fn kinds_of(key: &str) -> Vec<WorkloadKind> {
    let optional = Workload::new(WorkloadKind::TcpStream).optional_keys();
    let is_in = |own: &str| {
        key.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let found = optional.into_iter().find(|(own, ..)| is_in(own));
    found.map_or(WorkloadKind::ALL.to_vec(), |(_, _, kinds)| kinds.to_vec())
}

impl Workload {
    /// The optional keys that are set, each with the kinds it is for.
    pub fn keys_set(&self) -> Vec<(&'static str, &'static [WorkloadKind])> {
        let keys = self.optional_keys();
        keys.into_iter().filter(|(_, set, _)| *set).map(|(key, _, kinds)| (key, kinds)).collect()
    }

    /// Every key that is not for all kinds, whether it is set, and the kinds it is for.
    fn optional_keys(&self) -> [(&'static str, bool, &'static [WorkloadKind]); 41] {
        use WorkloadKind::{
            ConnectRate, Disk, PacketRate, RateSearch, RequestResponse, TcpStream, UdpStream,
        };
        const STREAMS: &[WorkloadKind] = &[TcpStream];
        const DATAGRAMS: &[WorkloadKind] = &[UdpStream, PacketRate, RateSearch];
        const REQUESTS: &[WorkloadKind] = &[RequestResponse, ConnectRate];
        const OVER_TCP: &[WorkloadKind] = &[TcpStream, RequestResponse, ConnectRate];
        const SHARED: &[WorkloadKind] = &[TcpStream, UdpStream, PacketRate, RateSearch];
        const PACKETS: &[WorkloadKind] = &[PacketRate, RateSearch];
        const PACKETS_ALONE: &[WorkloadKind] = &[PacketRate];
        const SEARCHES: &[WorkloadKind] = &[RateSearch];
        const ASKED: &[WorkloadKind] = &[RequestResponse];
        const PACED: &[WorkloadKind] = &[TcpStream, UdpStream];
        const IN_BURSTS: &[WorkloadKind] = &[TcpStream, UdpStream, PacketRate, RateSearch, Disk];
        const DISKS: &[WorkloadKind] = &[Disk];
        const NETWORK: &[WorkloadKind] =
            &[TcpStream, UdpStream, PacketRate, RequestResponse, ConnectRate, RateSearch];
        const BESIDE: &[WorkloadKind] = &[RequestResponse, ConnectRate, Disk];
        [
            ("workload.rate", self.rate.is_some(), PACED),
            ("workload.payload", self.payload.is_some(), DATAGRAMS),
            ("workload.datagrams_per_second", self.datagrams_per_second.is_some(), PACKETS_ALONE),
            ("workload.source_addresses", self.source_addresses.is_some(), DATAGRAMS),
            ("workload.destination_addresses", self.destination_addresses.is_some(), DATAGRAMS),
            ("workload.destination_ports", self.destination_ports.is_some(), DATAGRAMS),
            ("workload.batch", self.batch.is_some(), PACKETS),
            ("workload.receivers", self.receivers.is_some(), PACKETS),
            ("workload.segmentation", self.segmentation, PACKETS_ALONE),
            ("workload.transport", self.transport.is_some(), ASKED),
            ("workload.request_size", self.request_size.is_some(), REQUESTS),
            ("workload.response_size", self.response_size.is_some(), REQUESTS),
            ("workload.outstanding", self.outstanding.is_some(), ASKED),
            ("workload.requests_per_second", self.requests_per_second.is_some(), ASKED),
            ("workload.threads", self.threads.is_some(), SHARED),
            ("workload.send", self.send.is_some(), STREAMS),
            ("workload.receive", self.receive.is_some(), STREAMS),
            ("workload.mss", self.mss.is_some(), OVER_TCP),
            ("workload.congestion_control", self.congestion_control.is_some(), OVER_TCP),
            ("workload.nodelay", self.nodelay.is_some(), OVER_TCP),
            ("workload.pacing", self.pacing.is_some(), STREAMS),
            ("workload.burst", self.burst.is_some(), IN_BURSTS),
            ("workload.background", self.background.is_some(), BESIDE),
            ("workload.background_streams", self.background_streams.is_some(), BESIDE),
            ("workload.background_direction", self.background_direction.is_some(), BESIDE),
            ("workload.background_rate", self.background_rate.is_some(), BESIDE),
            ("workload.message_size", self.message_size.is_some(), STREAMS),
            ("workload.socket_buffer", self.socket_buffer.is_some(), NETWORK),
            ("workload.receiver_cpus", !self.receiver_cpus.is_empty(), NETWORK),
            ("workload.dscp", self.dscp.is_some(), NETWORK),
            ("workload.busy_poll", self.busy_poll.is_some(), NETWORK),
            ("workload.engine", self.engine.is_some(), DISKS),
            ("workload.block_size", self.block_size.is_some(), DISKS),
            ("workload.read_share", self.read_share.is_some(), DISKS),
            ("workload.random_share", self.random_share.is_some(), DISKS),
            ("workload.queue_depth", self.queue_depth.is_some(), DISKS),
            ("workload.alignment", self.alignment.is_some(), DISKS),
            ("workload.delay", self.delay.is_some(), DISKS),
            ("workload.file_size", self.file_size.is_some(), DISKS),
            ("workload.mix", !self.mix.is_empty(), DISKS),
            ("workload.search", !self.search.is_default(), SEARCHES),
        ]
    }
}

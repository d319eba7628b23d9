//! Nodes on threads of this process, each in a network namespace of its own, and a veth pair
//! between two of them. All of it is gone when the threads end.

// Each test file uses its part of this.
#![allow(dead_code)]

#[path = "../../../../tests/support/tries.rs"]
pub mod tries;

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use vioperf_model::sample::{InterfaceCounters, InterfaceFacts, LoadCounters, NodeReport};
use vioperf_model::units::TimeSpan;
use vioperf_model::wire::{
    InterfaceConfig, InterfaceSelector, Prepare, Request, Response, Role, WireError, read_frame,
    write_frame,
};
use vioperf_model::workload::Workload;
use vioperf_netlink::{NamespaceRef, Socket, VethEnd};
use vioperf_node::{Ending, OrdinaryMachine, serve};

/// A node, and our end of its channel.
pub struct Node {
    pub channel: Option<UnixStream>,
    thread: Option<JoinHandle<Result<Ending, WireError>>>,
    namespace: File,
}

impl Node {
    /// Starts a node in a new network namespace.
    pub fn start() -> Self {
        let (ours, mut its) = UnixStream::pair().unwrap();
        let (sender, namespace) = channel();
        let thread = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace (this test needs root)");
            vioperf_node::bring_loopback_up().unwrap();
            sender.send(File::open("/proc/thread-self/ns/net").unwrap()).unwrap();
            serve(&mut its, &mut OrdinaryMachine)
        });
        let namespace = namespace.recv().unwrap();
        Self { channel: Some(ours), thread: Some(thread), namespace }
    }

    pub fn send(&mut self, request: &Request) {
        write_frame(self.channel.as_mut().unwrap(), request).unwrap();
    }

    pub fn receive(&mut self) -> Response {
        read_frame(self.channel.as_mut().unwrap()).unwrap()
    }

    pub fn ask(&mut self, request: &Request) -> Response {
        self.send(request);
        self.receive()
    }

    /// Asks for what must succeed.
    pub fn must(&mut self, request: &Request) -> Response {
        match self.ask(request) {
            Response::Failed { message } => panic!("{request:?}: {message}"),
            response => response,
        }
    }

    /// Asks for what must fail; its message.
    pub fn must_fail(&mut self, request: &Request) -> String {
        match self.ask(request) {
            Response::Failed { message } => message,
            response => panic!("{request:?}: {response:?}"),
        }
    }

    /// Everything that was measured, page by page.
    pub fn collect(&mut self) -> NodeReport {
        let mut whole: Option<NodeReport> = None;
        let mut from = Some(0);
        while let Some(from_sample) = from {
            let Response::Report { report, next_sample } =
                self.must(&Request::Collect { from_sample })
            else {
                panic!("no report");
            };
            match &mut whole {
                None => whole = Some(*report),
                Some(whole) => whole.samples.extend(report.samples),
            }
            from = next_sample;
        }
        whole.unwrap()
    }

    /// Its network namespace.
    pub fn namespace_file(&self) -> File {
        self.namespace.try_clone().unwrap()
    }

    /// Does something on a thread in the node's network namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.namespace, work)
    }

    /// Runs a program in the node's network namespace; what it printed.
    pub fn command(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let program = words.next().unwrap();
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let output = self.inside(|| {
            let output = Command::new(program).args(words).env("PATH", path).output();
            output.unwrap_or_else(|error| {
                panic!(
                    "cannot run {program}: {error}; `scripts/setup test` installs what tests need"
                )
            })
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Nothing but what is asked for shall be on its links: IPv6 talks by itself.
    pub fn be_quiet(&self) {
        self.inside(|| fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap());
    }

    /// Takes an interface down: the path is gone.
    pub fn take_down(&self, name: &str) {
        self.inside(|| {
            let mut netlink = Socket::open().unwrap();
            let index = netlink.link_by_name(name).unwrap().index;
            netlink.set_down(index).unwrap();
        });
    }

    /// Closes the channel, as the death of a conductor does, and waits for the node's end.
    pub fn hang_up(&mut self) -> Result<Ending, WireError> {
        self.channel = None;
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.channel = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Does something on a thread in a network namespace.
pub fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

pub const SENDER_ADDRESS: &str = "10.7.0.1";
pub const RECEIVER_ADDRESS: &str = "10.7.0.2";

/// A sender and a receiver, and what they say of their ends of the veth pair between them.
pub fn connected_pair() -> ([Node; 2], [InterfaceFacts; 2]) {
    connect([Node::start(), Node::start()])
}

/// The same, with nothing on the link that no node sends.
pub fn quiet_pair() -> [Node; 2] {
    let nodes = [Node::start(), Node::start()];
    nodes.iter().for_each(Node::be_quiet);
    connect(nodes).0
}

fn connect(mut nodes: [Node; 2]) -> ([Node; 2], [InterfaceFacts; 2]) {
    let ends = [("left", SENDER_ADDRESS), ("right", RECEIVER_ADDRESS)];
    let end = |at: usize| VethEnd {
        namespace: Some(NamespaceRef::Fd(nodes[at].namespace.as_fd())),
        ..VethEnd::new(ends[at].0)
    };
    Socket::open().unwrap().create_veth(&end(0), &end(1)).unwrap();
    // Both are asked before either answers: a carrier needs both ends up.
    for (node, (name, address)) in nodes.iter_mut().zip(ends) {
        node.send(&Request::ConfigureInterface(interface(name, address)));
    }
    let facts = nodes.each_mut().map(|node| match node.receive() {
        Response::Interface(facts) => facts,
        response => panic!("{response:?}"),
    });
    (nodes, facts)
}

pub fn interface(name: &str, address: &str) -> InterfaceConfig {
    InterfaceConfig {
        settings: Default::default(),
        ports: None,
        interface: InterfaceSelector::Name(name.into()),
        address: address.parse().unwrap(),
        further_addresses: vec![],
        routes: vec![],
        prefix_length: 24,
        mtu: 1400,
        timeout: TimeSpan::from_millis(5_000),
    }
}

pub fn workload(streams: u16) -> Workload {
    serde_json::from_value(serde_json::json!({ "kind": "tcp-stream", "streams": streams })).unwrap()
}

pub fn part(role: Role, workload: Workload) -> Prepare {
    Prepare {
        role,
        spread: vioperf_model::wire::Spread::default(),
        workload: Box::new(workload),
        sample_interval: TimeSpan::from_millis(20),
        processes: vec![],
        burn: None,
        burn_threads: None,
        open_vswitch: None,
        counts_hardware: false,
        disk: None,
        deadline: TimeSpan::from_millis(30_000),
    }
}

pub fn receiver() -> Role {
    Role::Receiver { bind: RECEIVER_ADDRESS.parse().unwrap() }
}

/// Prepares the receiver, then the sender.
pub fn prepare_both(nodes: &mut [Node; 2], adapt: impl Fn(&mut Prepare), streams: u16) {
    prepare_at(nodes, RECEIVER_ADDRESS.parse().unwrap(), adapt, streams);
}

/// The same with the receiver at another address.
pub fn prepare_at(nodes: &mut [Node; 2], bind: IpAddr, adapt: impl Fn(&mut Prepare), streams: u16) {
    let [sender, receiving] = nodes;
    let mut prepare = part(Role::Receiver { bind }, workload(streams));
    adapt(&mut prepare);
    let Response::Ready { port: Some(port) } = receiving.must(&Request::Prepare(prepare.clone()))
    else {
        panic!("no port");
    };
    prepare.role = Role::Sender { peer: SocketAddr::new(bind, port) };
    sender.must(&Request::Prepare(prepare));
}

/// Runs what was prepared, receiver first, and stops in reverse.
pub fn run(nodes: &mut [Node; 2], time: Duration) -> [NodeReport; 2] {
    let [sender, receiver] = nodes;
    receiver.must(&Request::Start);
    sender.must(&Request::Start);
    sleep(time);
    sender.must(&Request::Stop);
    receiver.must(&Request::Stop);
    [sender.collect(), receiver.collect()]
}

/// What one end's load has moved in all.
pub fn moved(report: &NodeReport) -> LoadCounters {
    report.samples.last().unwrap().load.unwrap()
}

/// What passed an interface between the first sample and the last.
pub fn on_interface(report: &NodeReport, name: &str) -> InterfaceCounters {
    let [first, last] = [report.samples.first(), report.samples.last()]
        .map(|sample| sample.unwrap().interfaces.as_ref().unwrap()[name]);
    InterfaceCounters {
        rx_packets: last.rx_packets - first.rx_packets,
        rx_bytes: last.rx_bytes - first.rx_bytes,
        tx_packets: last.tx_packets - first.tx_packets,
        tx_bytes: last.tx_bytes - first.tx_bytes,
        ..InterfaceCounters::default()
    }
}

/// Threads and open files of this process.
pub fn threads_and_files() -> [usize; 2] {
    ["/proc/self/task", "/proc/self/fd"].map(|folder| std::fs::read_dir(folder).unwrap().count())
}

/// Waits, bounded, until no more are left: a joined thread is listed for a moment longer.
pub fn await_at_most(expected: [usize; 2]) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let now = threads_and_files();
        if now[0] <= expected[0] && now[1] <= expected[1] {
            return;
        }
        assert!(Instant::now() < deadline, "threads and files: {now:?}, expected {expected:?}");
        sleep(Duration::from_millis(5));
    }
}

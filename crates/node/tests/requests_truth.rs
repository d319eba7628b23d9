//! What the load request-response reads against what was planted: delays, losses, stalls and
//! hostile answers, by a proxy or a server of the test's own. Needs root for network namespaces.

// Helper functions stand outside #[test], where clippy.toml does not allow these by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod nodes;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use nodes::{Node, RECEIVER_ADDRESS, connected_pair, part, receiver};
use serde_json::{Value, json};
use vioperf_model::sample::{LatencyHistogram, NodeReport};
use vioperf_model::wire::{Request, Response, Role};
use vioperf_model::workload::Workload;

/// What a proxy does with a datagram of the load.
enum Fate {
    Pass,
    Drop,
    Hold(Duration),
    /// Answers are passed twice, with others before them that fit nothing.
    Spoil,
}

/// Stands on the receiver's side of the path and passes the datagrams of one stream on.
struct Proxy {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Proxy {
    /// `fate` is asked with the number of each request and of each response.
    fn start(
        node: &Node,
        server: SocketAddr,
        mut request: impl FnMut(u64) -> Fate + Send + 'static,
        mut response: impl FnMut(u64) -> Fate + Send + 'static,
    ) -> Self {
        let [front, back] =
            [0; 2].map(|_| node.inside(|| UdpSocket::bind((RECEIVER_ADDRESS, 0)).unwrap()));
        back.connect(server).unwrap();
        front.set_nonblocking(true).unwrap();
        back.set_nonblocking(true).unwrap();
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            let mut client = None;
            let (mut requests, mut responses, mut spoiled) = (0, 0, 0);
            while !told.load(Ordering::Relaxed) {
                let mut idle = true;
                if let Ok((count, from)) = front.recv_from(&mut buffer) {
                    idle = false;
                    client = Some(from);
                    let greeting = buffer[..count].starts_with(b"vioperf?");
                    requests += u64::from(!greeting);
                    match if greeting { Fate::Pass } else { request(requests) } {
                        Fate::Drop => spoiled += 1,
                        fate => {
                            hold(&fate);
                            let _ = back.send(&buffer[..count]);
                        }
                    }
                }
                if let (Ok(count), Some(client)) = (back.recv(&mut buffer), client) {
                    idle = false;
                    let greeting = buffer[..count].starts_with(b"vioperf!");
                    responses += u64::from(!greeting);
                    let fate = if greeting { Fate::Pass } else { response(responses) };
                    if let Fate::Spoil = fate {
                        spoiled += 1;
                        let mut wrong = buffer[..count].to_vec();
                        wrong[0] = wrong[0].wrapping_sub(1);
                        let long = [0xff; 3000];
                        for garbage in [&wrong[..], &[], &long, &buffer[..count]] {
                            let _ = front.send_to(garbage, client);
                        }
                    }
                    if let Fate::Drop = fate {
                        spoiled += 1;
                    } else {
                        hold(&fate);
                        let _ = front.send_to(&buffer[..count], client);
                    }
                }
                if idle {
                    std::thread::yield_now();
                }
            }
            spoiled
        });
        Self { address, stop, thread: Some(thread) }
    }

    /// Ends it; how many datagrams it dropped or spoiled.
    fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn hold(fate: &Fate) {
    if let Fate::Hold(time) = fate {
        let until = Instant::now() + *time;
        // The last millisecond is spun through: what is planted shall be exact.
        sleep(time.saturating_sub(Duration::from_millis(1)));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

fn requests(options: &Value) -> Workload {
    let mut workload = json!({ "kind": "request-response", "warmup": "0s", "transport": "udp" });
    let (Value::Object(to), Value::Object(from)) = (&mut workload, options) else {
        panic!("options are an object");
    };
    to.extend(from.clone());
    serde_json::from_value(workload).unwrap()
}

/// Runs requests through a proxy: the report of the sender, and what the proxy spoiled.
fn through_proxy(
    options: &Value,
    time: Duration,
    request: impl FnMut(u64) -> Fate + Send + 'static,
    response: impl FnMut(u64) -> Fate + Send + 'static,
) -> (NodeReport, NodeReport, u64) {
    let (mut nodes, _) = connected_pair();
    let [sender, receiving] = &mut nodes;
    let workload = requests(options);
    let Response::Ready { port: Some(port) } =
        receiving.must(&Request::Prepare(part(receiver(), workload.clone())))
    else {
        panic!("no port");
    };
    let server = SocketAddr::new(RECEIVER_ADDRESS.parse().unwrap(), port);
    let proxy = Proxy::start(receiving, server, request, response);
    sender.must(&Request::Prepare(part(Role::Sender { peer: proxy.address }, workload)));
    let reports = nodes::run(&mut nodes, time);
    let [asked, answered] = reports;
    (asked, answered, proxy.stop())
}

fn latency(report: &NodeReport) -> &LatencyHistogram {
    report.load.as_ref().unwrap().latency.as_ref().unwrap()
}

fn transactions(report: &NodeReport) -> u64 {
    report.samples.last().unwrap().load.unwrap().transactions.unwrap()
}

fn count_above(histogram: &LatencyHistogram, ns: u64) -> u64 {
    histogram.buckets.iter().filter(|[end, _]| *end > ns).map(|[_, count]| count).sum()
}

fn median(histogram: &LatencyHistogram) -> u64 {
    let all = count_above(histogram, 0);
    let mut seen = 0;
    for [end, count] in &histogram.buckets {
        seen += count;
        if seen * 2 >= all {
            return *end;
        }
    }
    panic!("nothing was recorded");
}

#[test]
fn a_planted_delay_is_read() {
    let time = Duration::from_millis(600);
    let read = |delay| {
        let fate = move |_| Fate::Hold(delay);
        median(latency(&through_proxy(&json!({}), time, fate, |_| Fate::Pass).0))
    };
    // Best of three: other work on the machine only ever adds.
    let best = |delay| (0..3).map(|_| read(delay)).min().unwrap();
    let noise = best(Duration::ZERO);
    let planted = 5_000_000;
    let delayed = best(Duration::from_nanos(planted));
    let apart = (delayed - noise).abs_diff(planted);
    assert!(apart <= planted / 20, "{planted} ns planted, read {delayed} over {noise}");
}

#[test]
fn planted_losses_are_exactly_the_time_outs() {
    // Every fifth datagram of either direction, as long as there is time for it to time out.
    let every_fifth =
        |number| if number % 5 == 0 && number <= 15 { Fate::Drop } else { Fate::Pass };
    for options in [json!({}), json!({ "outstanding": 3 }), json!({ "requests_per_second": 500 })] {
        let time = Duration::from_millis(2500);
        nodes::tries::in_one_of_three(|| {
            let (asked, answered, lost) = through_proxy(&options, time, every_fifth, every_fifth);
            let load = asked.load.as_ref().unwrap();
            assert_eq!(lost, 6, "{options}");
            assert_eq!(load.ended_early, None);
            assert_eq!(count_above(latency(&asked), 0), transactions(&asked));
            // The three lost responses were answered, the three lost requests never arrived.
            let answered = transactions(&answered);
            let known = transactions(&asked) + 3;
            let told = format!("{options}: {:?} timeouts, {answered} {known}", load.timeouts);
            assert!(load.timeouts >= Some(6) && answered >= known, "{told}");
            // A machine that stood still for longer than the time that an answer is waited for adds
            // its own.
            let exact = load.timeouts == Some(6) && answered <= known + 60;
            if exact { Ok(()) } else { Err(told) }
        });
    }
}

#[test]
fn answers_that_come_late_twice_or_wrong_change_nothing() {
    let late =
        |number| if number == 10 { Fate::Hold(Duration::from_millis(350)) } else { Fate::Pass };
    let time = Duration::from_millis(1500);
    let (asked, _, _) = through_proxy(&json!({}), time, |_| Fate::Pass, late);
    let load = asked.load.as_ref().unwrap();
    // The proxy held everything up: the next request waited in it for the rest of the time.
    assert_eq!((load.timeouts, load.ended_early.as_ref()), (Some(1), None));
    assert!(latency(&asked).maximum_ns < 200_000_000, "{}", latency(&asked).maximum_ns);

    for options in [json!({}), json!({ "request_size": "100 B", "response_size": "300 B" })] {
        let spoil = |number| if number % 2 == 0 { Fate::Spoil } else { Fate::Pass };
        let (asked, answered, spoiled) =
            through_proxy(&options, Duration::from_millis(500), |_| Fate::Pass, spoil);
        assert!(spoiled > 100, "{spoiled}");
        assert_eq!(asked.load.as_ref().unwrap().timeouts, Some(0), "{options}");
        assert_eq!(asked.load.as_ref().unwrap().ended_early, None, "{options}");
        let [out, back] = [transactions(&asked), transactions(&answered)];
        assert!(out <= back && back <= out + 1, "{options}: {out} {back}");
    }
}

/// A TCP server that answers each byte with one, after what `before` does; it ends with its client.
fn echo(node: &Node, mut before: impl FnMut(&mut Vec<u8>) + Send + 'static) -> SocketAddr {
    let listener = node.inside(|| TcpListener::bind((RECEIVER_ADDRESS, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.set_nodelay(true).unwrap();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            let mut answer = buffer[..count].to_vec();
            before(&mut answer);
            if client.write_all(&answer).is_err() {
                break;
            }
        }
    });
    address
}

/// Asks a server of the test's own for a second.
fn ask_server(nodes: &mut [Node; 2], peer: SocketAddr, options: &Value) -> NodeReport {
    let sender = &mut nodes[0];
    sender.must(&Request::Prepare(part(Role::Sender { peer }, requests(options))));
    sender.must(&Request::Start);
    sleep(Duration::from_secs(1));
    sender.must(&Request::Stop);
    sender.collect()
}

#[test]
fn a_stall_shows_in_every_request_that_was_due_in_it() {
    let stalling = || {
        let began = Instant::now();
        let mut stalled = false;
        move |_: &mut Vec<u8>| {
            if !stalled && began.elapsed() > Duration::from_millis(500) {
                stalled = true;
                sleep(Duration::from_millis(100));
            }
        }
    };
    let (mut nodes, _) = connected_pair();
    // Only one waits at the server, yet a hundred were due.
    let open = json!({ "transport": "tcp", "requests_per_second": 1000, "outstanding": 1 });
    let peer = echo(&nodes[1], stalling());
    let report = ask_server(&mut nodes, peer, &open);
    let halfway = count_above(latency(&report), 50_000_000);
    assert!((40..=65).contains(&halfway), "{halfway} of about 50 took more than 50 ms");
    assert!(latency(&report).maximum_ns >= 100_000_000, "{}", latency(&report).maximum_ns);
    assert_eq!(report.load.as_ref().unwrap().not_sent, Some(0));

    // In a closed loop it is one: that is what is asked for there.
    let peer = echo(&nodes[1], stalling());
    let report = ask_server(&mut nodes, peer, &json!({ "transport": "tcp" }));
    assert_eq!(count_above(latency(&report), 90_000_000), 1);
}

#[test]
fn what_an_open_loop_could_not_send_is_said() {
    let (mut nodes, _) = connected_pair();
    let peer = echo(&nodes[1], |_| sleep(Duration::from_millis(20)));
    let options = json!({ "transport": "tcp", "requests_per_second": 1000, "outstanding": 2 });
    let report = ask_server(&mut nodes, peer, &options);
    let not_sent = report.load.as_ref().unwrap().not_sent.unwrap();
    assert!((800..1000).contains(&not_sent), "{not_sent} not sent");
}

#[test]
fn a_server_that_answers_what_was_not_asked_ends_the_stream() {
    for kind in ["request-response", "connect-rate"] {
        let (mut nodes, _) = connected_pair();
        let mut count = 0;
        let mut server = TcpListenerOnce::start(&nodes[1], kind == "connect-rate");
        let peer = server.address;
        let mut options = json!({ "kind": kind, "transport": "tcp" });
        if kind == "connect-rate" {
            options = json!({ "kind": kind });
        }
        let mut workload: Value = json!({ "warmup": "0s" });
        workload.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let workload: Workload = serde_json::from_value(workload).unwrap();
        let sender = &mut nodes[0];
        sender.must(&Request::Prepare(part(Role::Sender { peer }, workload)));
        sender.must(&Request::Start);
        sleep(Duration::from_millis(300));
        sender.must(&Request::Stop);
        let reason = sender.collect().load.unwrap().ended_early.unwrap();
        assert!(reason.contains("what was not asked") || reason.contains("reset"), "{reason}");
        count += server.finish();
        assert!(count > 0);
    }
}

/// A server that answers everything with far too much.
struct TcpListenerOnce {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl TcpListenerOnce {
    fn start(node: &Node, many: bool) -> Self {
        let listener = node.inside(|| TcpListener::bind((RECEIVER_ADDRESS, 0)).unwrap());
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut served = 0;
            while !told.load(Ordering::Relaxed) {
                let Ok((mut client, _)) = listener.accept() else {
                    sleep(Duration::from_millis(1));
                    continue;
                };
                client.set_nonblocking(false).unwrap();
                client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
                let mut byte = [0];
                if let Ok(1) = client.read(&mut byte) {
                    served += 1;
                    let _ = client.write_all(&[0xee; 100_000]);
                    if !many {
                        sleep(Duration::from_millis(200));
                    }
                }
            }
            served
        });
        Self { address, stop, thread: Some(thread) }
    }

    fn finish(&mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[test]
fn hostile_bytes_to_a_receiver_never_harm_it() {
    let (mut nodes, _) = connected_pair();
    let [sender, receiving] = &mut nodes;
    let garbage: Vec<u8> =
        (0_u32..9000).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for options in
        [json!({ "transport": "udp" }), json!({ "transport": "tcp", "request_size": "7 B" })]
    {
        let workload = requests(&options);
        let prepare = Request::Prepare(part(receiver(), workload));
        let Response::Ready { port: Some(port) } = receiving.must(&prepare) else {
            panic!("no port");
        };
        if options["transport"] == "udp" {
            let socket = sender.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
            socket.connect((RECEIVER_ADDRESS, port)).unwrap();
            for length in [0, 1, 7, 8, 9, 9000] {
                socket.send(&garbage[..length]).unwrap();
            }
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            // Nothing of it is answered: nobody has proved to have asked.
            let error = socket.recv(&mut [0; 16]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(receiving.must_fail(&Request::Start).contains("0 of 1"));
            continue;
        }
        let mut client =
            sender.inside(|| std::net::TcpStream::connect((RECEIVER_ADDRESS, port)).unwrap());
        receiving.must(&Request::Start);
        client.write_all(&garbage).unwrap();
        let mut answer = vec![0; garbage.len() / 7];
        client.read_exact(&mut answer).unwrap();
        drop(client);
        sleep(Duration::from_millis(100));
        receiving.must(&Request::Stop);
        let report = receiving.collect();
        let reason = report.load.as_ref().unwrap().ended_early.clone().unwrap();
        assert!(reason.contains("ended after 1285 transactions"), "{reason}");
    }
}

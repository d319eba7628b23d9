//! Buffers are too small for the path's delay.

use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule = Rule {
    name: "window-small",
    title: "The socket's window is too small for the path's delay",
    check,
};

/// Part of the time that a window or a buffer limits.
const LIMITS: f64 = 0.25;
/// The least round-trip time of a path whose delay is worth the name, in seconds.
const DELAY_SECONDS: f64 = 0.000_5;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let (receive, send) = (symptoms.receive_window_limits()?, symptoms.send_buffer_limits()?);
    let rtt = symptoms.least_rtt_seconds().filter(|rtt| *rtt >= DELAY_SECONDS)?;
    if receive.max(send) < LIMITS || !symptoms.window_fits_delay() {
        return None;
    }
    let sender = &symptoms.sender;
    let mut evidence = vec![
        sender.setting(
            "limited by the receiver's window (tcpi_rwnd_limited)",
            wording::percent(100.0 * receive),
        ),
        sender.setting(
            "limited by the send buffer (tcpi_sndbuf_limited)",
            wording::percent(100.0 * send),
        ),
        sender.setting("least round-trip time", format!("{} ms", wording::three_digits(rtt * 1e3))),
    ];
    for (end, is_send) in [(sender, true), (&symptoms.receiver, false)] {
        let buffers = end.outcome().and_then(|load| load.socket_buffers);
        evidence.extend(buffers.map(|buffers| match is_send {
            true => end.setting("send buffer", format!("{} bytes", buffers.send_bytes)),
            false => end.setting("receive buffer", format!("{} bytes", buffers.receive_bytes)),
        }));
    }
    let advice = "Rate is window over round-trip time. Leave the buffers to the kernel (no socket_buffer, no SO_RCVBUF), and allow it \
                  more: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 67108864\" net.ipv4.tcp_wmem=\"4096 16384 67108864\"; or use more \
                  streams.";
    Some(Sign { confidence: Confidence::Certain, evidence, advice: advice.into() })
}

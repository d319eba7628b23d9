//! TCP goes no faster as it takes losses for congestion.

use super::end::End;
use super::symptoms::Symptoms;
use super::{Rule, Sign};
use crate::result::Confidence;
use crate::wording;

pub(super) const RULE: Rule = Rule {
    name: "congestion-by-loss",
    title: "Lost segments keep TCP's congestion window small",
    check,
};

/// Part of the segments that is sent again from which it matters.
const SENT_AGAIN: f64 = 0.000_2;
/// Part of the time that windows and buffers, which are something else, may limit.
const OTHERWISE_LIMITED: f64 = 0.4;
/// How busy threads may be, in percent: one that is full does not wait for a window.
const FULL_PERCENT: f64 = 75.0;
/// How long a thread may wait for a core, in percent: who does is slow by that.
const WAITING_PERCENT: f64 = 15.0;

fn check(symptoms: &Symptoms<'_>) -> Option<Sign> {
    let [again, sent] = symptoms.sent_again().filter(|[_, sent]| *sent > 0.0)?;
    let share = again / sent;
    let otherwise = symptoms.receive_window_limits()?.max(symptoms.send_buffer_limits()?);
    if share < SENT_AGAIN || otherwise >= OTHERWISE_LIMITED {
        return None;
    }
    let sender = &symptoms.sender;
    let busiest = symptoms.busiest_thread().unwrap_or(0.0);
    let windows = sender.connections().map(|connection| connection.congestion_window_segments);
    let mut evidence = vec![
        sender.counter(
            "TcpRetransSegs",
            format!("{again:.0} of {sent:.0} segments, {}", wording::percent(100.0 * share)),
        ),
        sender.share("busiest thread of either end", busiest),
    ];
    evidence.extend(
        windows
            .min()
            .map(|least| sender.setting("smallest congestion window", format!("{least} segments"))),
    );
    let waits = symptoms.ends().into_iter().filter_map(End::threads);
    let waits = waits.map(|threads| threads.waiting).fold(0.0, f64::max);
    let is_free = busiest < FULL_PERCENT && waits < WAITING_PERCENT;
    let confidence = if is_free { Confidence::Certain } else { Confidence::Possible };
    let advice = "Find where segments are lost (counters of drops at every interface, queue and switch on the way). Where the loss \
                  cannot be mended, bbr does not take it for congestion (sysctl -w net.ipv4.tcp_congestion_control=bbr), and more \
                  streams share it.";
    Some(Sign { confidence, evidence, advice: advice.into() })
}

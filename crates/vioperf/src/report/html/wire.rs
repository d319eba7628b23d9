//! What packets weigh on their way: where they are cut, and where merged.

use maud::{Markup, html};
use vioperf_analysis::measure::Unit;
use vioperf_analysis::result::{CellAnalysis, HopPlace, Metric, PathHops};
use vioperf_model::workload::Direction;

use super::tables::{not_for_baseline, number, path_name, reasons};
use crate::report::columns::few;
use crate::report::values::{NO_VALUE, Workload, whole};

/// From one place to the next a packet that weighs less than this part of what it did was cut; one that
/// weighs more than its reciprocal was merged.
const CUT: f64 = 0.7;

/// Bytes per packet, segments sent again, and how long a guest took.
pub fn table(workload: &Workload<'_>) -> Markup {
    let may_retransmit = workload.measure().may_retransmit;
    let places = places(workload);
    let metrics = workload.cells.iter().flat_map(|cell| {
        let again = may_retransmit.then_some(&cell.retransmissions.segments);
        let guest = (!cell.is_baseline).then_some(&cell.guest_ready_ms);
        let packets = if places.is_empty() { own(cell) } else { Vec::new() };
        let hops =
            cell.hops.iter().flat_map(|way| way.hops.iter().map(|hop| &hop.bytes_per_packet));
        packets.into_iter().chain(hops).chain(again).chain(guest)
    });
    let heads: Vec<&str> = match places.as_slice() {
        [] => vec!["sender", "tap on the host", "receiver"],
        places => places.iter().map(|place| place.title()).collect(),
    };
    let is_both_ways = workload.cells.iter().any(|cell| cell.hops.len() > 1);
    html! {
        div.scroll tabindex="0" {
            table {
                caption {
                    "On the wire. More bytes per packet than the MTU: segmentation was left to a later "
                    "place, or received packets were merged"
                    @if places.contains(&HopPlace::SenderTcp) { "; in TCP payload alone" }
                    @if !places.is_empty() { ". Below: packets a second" }
                    @if is_both_ways { ". → towards the guest, ← from it" }
                }
                thead {
                    tr {
                        th scope="col" rowspan="2" { "path" }
                        th.group scope="colgroup" colspan=(heads.len()) { "bytes per packet" }
                        @if may_retransmit {
                            th.group scope="colgroup" colspan="2" { "segments sent again" }
                        }
                        th scope="col" rowspan="2" { "guest ready, ms" }
                    }
                    tr {
                        @for head in &heads { th scope="col" { (head) } }
                        @if may_retransmit {
                            th scope="col" { "a trial" }
                            th scope="col" { "per million" }
                        }
                    }
                }
                tbody { @for cell in &workload.cells { (row(cell, &places)) } }
            }
        }
        (reasons(metrics))
    }
}

/// The places at which the packets of a workload's streams were seen.
fn places(workload: &Workload<'_>) -> Vec<HopPlace> {
    let mut ways = workload.cells.iter().flat_map(|cell| &cell.hops).peekable();
    if ways.peek().is_none() {
        return Vec::new();
    }
    let seen: Vec<HopPlace> = ways.flat_map(|way| way.hops.iter().map(|hop| hop.place)).collect();
    HopPlace::ALL.into_iter().filter(|place| seen.contains(place)).collect()
}

/// Of loads that are not told hop by hop.
fn own(cell: &CellAnalysis) -> Vec<&Metric> {
    let packets = &cell.bytes_per_packet;
    let tap = (!cell.is_baseline).then_some(&packets.tap);
    [&packets.sender, &packets.receiver].into_iter().chain(tap).collect()
}

fn row(cell: &CellAnalysis, places: &[HopPlace]) -> Markup {
    let packets = &cell.bytes_per_packet;
    let again = &cell.retransmissions;
    let of_guest = |metric: &Metric| {
        if cell.is_baseline { not_for_baseline() } else { number(metric, whole) }
    };
    html! {
        tr.base[cell.is_baseline] {
            (path_name(cell))
            @if places.is_empty() {
                (number(&packets.sender, whole))
                (of_guest(&packets.tap))
                (number(&packets.receiver, whole))
            } @else {
                @for place in places { (hop(cell, *place)) }
            }
            @if cell.measure().may_retransmit {
                (number(&again.segments, few))
                (number(&again.per_million_segments_sent, few))
            }
            (of_guest(&cell.guest_ready_ms))
        }
    }
}

/// What a packet weighs at a place, each way, and whether it was cut or merged on its way there.
fn hop(cell: &CellAnalysis, place: HopPlace) -> Markup {
    let seen = cell.hops.iter().filter_map(|way| Some((way, way.at(place)?)));
    let seen: Vec<_> = seen.collect();
    html! {
        @match seen.as_slice() {
            [] => td.none { (NO_VALUE) },
            [(way, hop)] => @match hop.bytes_per_packet.mean() {
                None => (number(&hop.bytes_per_packet, whole)),
                Some(_) => td {
                    (whole(&hop.bytes_per_packet))
                    span.note {
                        @if let Some(change) = change(way, place) { (change) ", " }
                        (packets(&hop.packets_per_second))
                    }
                },
            },
            both => td {
                @for (way, hop) in both {
                    span.note { (arrow(way.direction)) " " (whole(&hop.bytes_per_packet)) }
                }
            },
        }
    }
}

/// How many pass a second.
fn packets(rate: &Metric) -> String {
    rate.mean().map_or_else(|| NO_VALUE.into(), |mean| Unit::Datagrams.short(mean))
}

fn arrow(direction: Direction) -> &'static str {
    if direction == Direction::FromGuest { "←" } else { "→" }
}

/// What became of packets since the interface before; what is in TCP has no headers, and is cut to
/// segments only in name.
fn change(way: &PathHops, place: HopPlace) -> Option<&'static str> {
    let at = way.hops.iter().position(|hop| hop.place == place)?;
    let before = way.hops.get(at.checked_sub(1)?)?;
    if before.place == HopPlace::SenderTcp {
        return None;
    }
    let now = way.hops.get(at)?.bytes_per_packet.mean()?;
    let before = before.bytes_per_packet.mean()?;
    match now / before {
        part if part < CUT => Some("cut"),
        part if part > 1.0 / CUT => Some("merged"),
        _ => None,
    }
}

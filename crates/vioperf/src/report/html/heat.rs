//! Heat maps: how busy each core was, how many packets each core and each queue took. Every field has its
//! number: the shade is for those who look for a pattern.

use std::collections::BTreeMap;

use maud::{Markup, html};
use vioperf_analysis::result::{CellAnalysis, MachineUse};
use vioperf_analysis::wording::three_digits;
use vioperf_model::record::Place;

use crate::report::text::clean;
use crate::report::values::{self, NO_VALUE, Workload};

/// The deepest shade, in percent: text stays readable on it.
const DEEPEST: f64 = 55.0;

/// A column: the machine, and the core or queue there. Numbers in names are sorted as numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Column {
    place: Place,
    stem: String,
    number: u64,
}

impl Column {
    fn of(place: Place, name: &str) -> Self {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse().unwrap_or(0);
        Self { place, stem: stem.to_owned(), number }
    }

    fn head(&self) -> String {
        format!("{}{}", clean(&self.stem), self.number)
    }
}

/// The value of each column of a cell.
type Fields = BTreeMap<Column, f64>;
/// How a map's values are read.
type Read = fn(&CellAnalysis) -> Fields;

/// One map: what it is called, what is read, and the value of the deepest shade, if that is known beforehand.
struct Map {
    caption: &'static str,
    read: Read,
    full: Option<f64>,
    /// Fewer columns than these show no pattern.
    least_columns: usize,
}

const MAPS: &[Map] = &[
    Map {
        caption: "Busy cores, in percent",
        read: busy_cores,
        full: Some(100.0),
        least_columns: 2,
    },
    Map {
        caption: "Packets a second that each core took from its backlog or its driver (softnet)",
        read: |cell| counted(cell, "softnet", "processed"),
        full: None,
        least_columns: 2,
    },
    Map {
        caption: "Packets a second through each queue",
        read: |cell| counted(cell, "queues", "packets"),
        full: None,
        least_columns: 2,
    },
];

/// Every map that has something to show.
pub fn section(workload: &Workload<'_>) -> Markup {
    let maps: Vec<Markup> = MAPS.iter().filter_map(|map| table(map, workload)).collect();
    html! {
        @if !maps.is_empty() {
            details.heat {
                summary { "Core by core, queue by queue" }
                @for map in maps { (map) }
            }
        }
    }
}

fn busy_cores(cell: &CellAnalysis) -> Fields {
    let of = |place: Place, machine: &MachineUse| {
        let core = |core: &vioperf_analysis::result::CoreUse| {
            Some((Column::of(place, &format!("CPU {}", core.core)), core.busy_percent.mean()?))
        };
        machine.cores.iter().filter_map(core).collect::<Vec<_>>()
    };
    let mut fields: Fields = of(Place::Host, &cell.host).into_iter().collect();
    fields.extend(cell.guest.iter().flat_map(|guest| of(Place::Guest, guest)));
    fields
}

/// A counter of a layer, a second.
fn counted(cell: &CellAnalysis, layer: &str, counter: &str) -> Fields {
    let mut fields = Fields::new();
    for place in cell.counters.iter().filter(|place| place.mean_seconds > 0.0) {
        let wanted =
            place.moved.iter().filter(|moved| moved.layer == layer && moved.counter == counter);
        for moved in wanted {
            fields.insert(Column::of(place.place, &moved.of), moved.mean / place.mean_seconds);
        }
    }
    fields
}

fn table(map: &Map, workload: &Workload<'_>) -> Option<Markup> {
    let rows: Vec<(&CellAnalysis, Fields)> =
        workload.cells.iter().map(|cell| (*cell, (map.read)(cell))).collect();
    let mut columns: Vec<&Column> = rows.iter().flat_map(|(_, fields)| fields.keys()).collect();
    columns.sort();
    columns.dedup();
    if columns.len() < map.least_columns {
        return None;
    }
    let largest = rows.iter().flat_map(|(_, fields)| fields.values()).copied().fold(0.0, f64::max);
    let full = map.full.unwrap_or(largest);
    let groups = columns.chunk_by(|a, b| a.place == b.place);
    Some(html! {
        div.scroll tabindex="0" {
            table.heat-map {
                caption { (map.caption) }
                thead {
                    tr {
                        th scope="col" rowspan="2" { "path" }
                        @for group in groups {
                            th.group scope="colgroup" colspan=(group.len()) { (values::place(group[0].place)) }
                        }
                    }
                    tr { @for column in &columns { th scope="col" { (column.head()) } } }
                }
                tbody {
                    @for (cell, fields) in &rows {
                        tr {
                            th scope="row" { (clean(&cell.path)) }
                            @for column in &columns { (field(fields.get(column).copied(), full)) }
                        }
                    }
                }
            }
        }
    })
}

fn field(value: Option<f64>, full: f64) -> Markup {
    let Some(value) = value else { return html! { td.none { (NO_VALUE) } } };
    let part = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
    html! { td style={ "--h:" (format!("{:.0}", DEEPEST * part)) "%" } { (short(value)) } }
}

/// Three digits, with thousands as `k`.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{} M", three_digits(value / 1e6)),
        _ if value >= 1e4 => format!("{} k", three_digits(value / 1e3)),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ => three_digits(value),
    }
}

#[cfg(test)]
mod tests {
    use vioperf_analysis::analyse;
    use vioperf_analysis::testing::Synthetic;

    use super::*;
    use crate::report::values::workloads;

    #[test]
    fn each_core_is_a_column_with_its_number_and_the_tenth_stands_behind_the_ninth() {
        let Synthetic { run, trials } = Synthetic::calm_kvm();
        let analysis = analyse(&run, &trials);
        let workload = &workloads(&analysis)[0];
        let page = section(workload).into_string();
        assert!(
            page.contains("CPU 0") && page.contains("CPU 1") && page.contains("--h:"),
            "{page}"
        );
        let busy = analysis.cells[0].host.cores[0].busy_percent.mean().unwrap();
        assert!(page.contains(&format!(">{}</td>", short(busy))), "{busy}");
        let mut columns = ["rx-10", "rx-9", "rx-1"].map(|name| Column::of(Place::Guest, name));
        columns.sort();
        assert_eq!(columns.map(|column| column.head()), ["rx-1", "rx-9", "rx-10"]);
        // A name without a number, or with one that is too large, is a name.
        assert_eq!(Column::of(Place::Guest, "99999999999999999999999").number, 0);
    }
}

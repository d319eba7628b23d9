//! What cannot be in a reference.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;
use vioperf_model::reference::{Counted, Figure, FigureKind, Reference, in_base_units};

use super::{Told, ToldMachine, impossible};

/// Something in a reference that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReferenceDefect {
    /// The check that found it: a stable name.
    pub check: String,
    /// The row of figures, or the machine, that it is about.
    pub row: String,
    /// The figures.
    pub figures: Vec<String>,
    /// What cannot be, with the numbers.
    pub what: String,
}

/// Everything in it that cannot be, in the order of its figures.
pub fn of_reference(reference: &Reference) -> Vec<ReferenceDefect> {
    let mut found = Vec::new();
    for (row, figures) in rows(reference) {
        let machines = machines_of(reference, &figures);
        let told = Told { machines, ..of_row(&figures) };
        found.extend(defects(row, &figures, &told));
        for figure in &figures {
            found.extend(defects(row, &[figure], &of_figure(reference, figure)));
        }
    }
    for machine in &reference.machines {
        let told = ToldMachine {
            name: machine.name.clone(),
            cores: machine.cores,
            cores_said: machine.cores_printed,
            ..ToldMachine::default()
        };
        let told = Told { machines: vec![told], ..Told::default() };
        found.extend(defects(&machine.name, &[], &told));
    }
    found
}

fn defects(row: &str, figures: &[&Figure], told: &Told) -> Vec<ReferenceDefect> {
    let figures: Vec<String> = figures.iter().map(|figure| figure.id.clone()).collect();
    let defect = |found: super::Impossible| ReferenceDefect {
        check: found.check.to_owned(),
        row: row.to_owned(),
        figures: figures.clone(),
        what: found.what,
    };
    impossible(told).into_iter().map(defect).collect()
}

/// Figures that were measured at the same time, in the order of the first of each row.
fn rows(reference: &Reference) -> Vec<(&str, Vec<&Figure>)> {
    let mut rows: Vec<(&str, Vec<&Figure>)> = Vec::new();
    let read = |figure: &&Figure| figure.kind == FigureKind::Measurement;
    for figure in reference.figures.iter().filter(read) {
        match rows.iter_mut().find(|(row, _)| *row == figure.row) {
            Some((_, figures)) => figures.push(figure),
            None => rows.push((&figure.row, vec![figure])),
        }
    }
    rows
}

/// What its figures tell together: only where a quantity is told once is it known which belongs to which.
fn of_row(figures: &[&Figure]) -> Told {
    let counted = |wanted: Counted| {
        let of = move |figure: &&&Figure| {
            in_base_units(&figure.unit).is_some_and(|(counted, _)| counted == wanted)
        };
        let found: Vec<&&Figure> = figures.iter().filter(of).collect();
        if let [one] = found.as_slice() { Some(**one) } else { None }
    };
    let latency = |metric: &str| {
        let is = |figure: &&&Figure| figure.metric.as_deref() == Some(metric);
        figures.iter().find(is).and_then(|figure| base(figure))
    };
    let operations = counted(Counted::OperationsPerSecond);
    let bytes = counted(Counted::BitsPerSecond).filter(|figure| figure.unit == "MB/s");
    Told {
        operations_per_second: operations.and_then(base),
        operation_bytes: operations
            .and_then(|figure| figure.printed.payload_bytes.map(|bytes| bytes as f64)),
        // Whether MB are decimal or binary is rarely told.
        bytes_per_second: bytes
            .and_then(Figure::mean)
            .map_or_else(Vec::new, |megabytes| vec![megabytes * 1e6, megabytes * 1_048_576.0]),
        latency_mean_us: latency("latency_mean_us"),
        latency_max_us: latency("latency_max_us"),
        ..Told::default()
    }
}

/// What one figure tells for itself.
fn of_figure(reference: &Reference, figure: &Figure) -> Told {
    let bits = in_base_units(&figure.unit)
        .filter(|(counted, _)| *counted == Counted::BitsPerSecond)
        .map(|(_, factor)| figure.numbers().iter().map(|value| value * factor).collect());
    Told {
        bits_per_second: bits.unwrap_or_default(),
        link_bits_per_second: link_of(reference, figure),
        repeats: figure.repeats.map(|promised| (figure.numbers().len(), promised)),
        ..Told::default()
    }
}

/// The speed of its link: of a setting in bits a second that holds for all that the figure names.
fn link_of(reference: &Reference, figure: &Figure) -> Option<f64> {
    let is_of = |link: &&Figure| {
        let mut setting = link.setting.iter();
        link.kind == FigureKind::Setting
            && !link.setting.is_empty()
            && setting.all(|(key, value)| figure.setting.get(key) == Some(value))
            && in_base_units(&link.unit).is_some_and(|(unit, _)| unit == Counted::BitsPerSecond)
    };
    reference.figures.iter().find(is_of).and_then(base)
}

/// Its mean in the base unit.
fn base(figure: &Figure) -> Option<f64> {
    let (_, factor) = in_base_units(&figure.unit)?;
    Some(figure.mean()? * factor)
}

/// Every machine that the row tells of, once.
fn machines_of(reference: &Reference, figures: &[&Figure]) -> Vec<ToldMachine> {
    let mut told: BTreeMap<(&str, Vec<String>), ToldMachine> = BTreeMap::new();
    for reading in figures.iter().flat_map(|figure| &figure.cpu) {
        let key = reading.percent_of_core.iter().map(Number::to_string).collect();
        let machine = ToldMachine {
            name: reading.machine.clone(),
            cores: reference.machine(&reading.machine).and_then(|machine| machine.cores),
            percent_of_core: reading.percent_of_core.iter().filter_map(Number::as_f64).collect(),
            ..ToldMachine::default()
        };
        told.insert((&reading.machine, key), machine);
    }
    told.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in(name: &str) -> Reference {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../references/");
        let text = match name {
            "kvm-bridge-2011" => include_str!("../../../../references/kvm-bridge-2011.json"),
            "xen-gplpv-2008" => include_str!("../../../../references/xen-gplpv-2008.json"),
            "kvm-pps-2016" => include_str!("../../../../references/kvm-pps-2016.json"),
            "kvm-nic-models-2012" => {
                include_str!("../../../../references/kvm-nic-models-2012.json")
            }
            "vmxnet3-chr-2017" => include_str!("../../../../references/vmxnet3-chr-2017.json"),
            other => panic!("{other} is not in {file}"),
        };
        Reference::parse(text).unwrap()
    }

    /// Of each check, the rows that it found something in.
    fn found(name: &str) -> BTreeMap<String, Vec<String>> {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for defect in of_reference(&built_in(name)) {
            let rows = rows.entry(defect.check).or_default();
            if !rows.contains(&defect.row) {
                rows.push(defect.row);
            }
        }
        rows
    }

    #[test]
    fn a_row_of_32k_that_is_one_of_4k_and_a_wrong_clock_are_found() {
        let found = found("xen-gplpv-2008");
        assert_eq!(found["operations-times-size"], ["iometer/0.8.9/32k/single-active/dom0/85"]);
        // Every row that a guest's clock timed, and no other.
        let wrong = &found["impossible-latency"];
        assert_eq!(wrong.len(), 12, "{wrong:?}");
        assert!(wrong.iter().all(|row| !row.contains("dom0")), "{wrong:?}");
        assert_eq!(found.len(), 2, "{found:?}");
        let defects = of_reference(&built_in("xen-gplpv-2008"));
        let size = defects.iter().find(|defect| defect.check == "operations-times-size").unwrap();
        assert!(size.what.contains("fits operations of 4097 bytes"), "{}", size.what);
        let negative = defects.iter().filter(|defect| defect.what.contains("time of -"));
        assert_eq!(negative.count(), 6);
    }

    #[test]
    fn a_link_that_carried_more_than_it_claimed_is_found() {
        let defects = of_reference(&built_in("kvm-nic-models-2012"));
        assert!(defects.iter().all(|defect| defect.check == "faster-than-link"), "{defects:?}");
        assert!(defects.iter().all(|defect| defect.row == "iperf/rtl8139"));
        assert!(defects[0].what.contains("over a link of 100 Mbit/s"), "{}", defects[0].what);
    }

    #[test]
    fn runs_that_are_missing_are_found() {
        let found = found("kvm-bridge-2011");
        assert_eq!(found["repeats-missing"], ["test7/P1", "test7/P4"]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn cores_that_are_not_there_are_found() {
        let found = found("kvm-pps-2016");
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("more-than-its-cores".to_owned(), vec!["HOST".to_owned()])]
        );
        assert!(of_reference(&built_in("vmxnet3-chr-2017")).is_empty());
        // Two cores, three percentages.
        let mut reference = built_in("kvm-bridge-2011");
        let guest = reference.machines.iter_mut().find(|machine| machine.name == "server2");
        guest.unwrap().cores = Some(2);
        let defects = of_reference(&reference);
        let cores = defects.iter().filter(|defect| defect.check == "more-than-its-cores");
        assert!(cores.clone().count() >= 12);
        assert!(cores.clone().any(|defect| defect.what.contains("but 3 percentages are told")));
    }
}

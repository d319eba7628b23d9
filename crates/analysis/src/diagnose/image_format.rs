//! What an image's format costs: cells that differ in nothing but `guest.drive.format`, block by block.

use vioperf_model::plan::{Cell, CellId};
use vioperf_model::scenario::{ImageFormat, Preallocation};

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Disk, Finding, Metric, Severity};
use crate::statistics::summarise_ratios;
use crate::wording::{percent, three_digits};

/// Alone, an image whose device moves so much more of the load's bytes than the baseline's does writes of its own.
const MORE_PERCENT_OF_LOAD: f64 = 20.0;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let images =
        evidence.run.plan.cells.iter().filter(|cell| format_of(cell) == Some(ImageFormat::Qcow2));
    let cells: Vec<(CellId, String)> =
        images.filter_map(|image| Some((image.id.clone(), cost(evidence, image)?))).collect();
    about_cells(
        "image-format-cost",
        Severity::Note,
        "The image's format costs operations of the disk",
        &cells,
        "Take raw where no snapshots or thin images are needed (guest.drive.format = \"raw\"; libvirt: <driver type='raw'/>). \
         Where they are: images that are allocated beforehand (qemu-img create -o preallocation=metadata or full), larger \
         clusters (-o cluster_size=1M), and a cache of the image's tables that holds all of them (l2-cache-size).",
    )
}

fn format_of(cell: &Cell) -> Option<ImageFormat> {
    cell.disk.and_then(|_| Some(cell.guest.as_ref()?.drive.format))
}

/// Whether two cells differ in the image's format alone.
fn differ_in_format_alone(image: &Cell, other: &Cell) -> bool {
    let mut guest = image.guest.clone();
    // A raw file is always allocated.
    if let Some(guest) = &mut guest {
        guest.drive.format = ImageFormat::Raw;
        guest.drive.preallocation = Preallocation::Full;
    }
    format_of(other) == Some(ImageFormat::Raw)
        && (image.nic, image.disk, &guest) == (other.nic, other.disk, &other.guest)
        && (&image.testbed, &image.workload) == (&other.testbed, &other.workload)
}

/// What is seen of it; nothing where it costs nothing, or that cannot be told.
fn cost(evidence: &Evidence<'_>, image: &Cell) -> Option<String> {
    let analysed = |id: &CellId| evidence.cells.iter().find(|cell| cell.id == *id);
    let own = analysed(&image.id)?;
    let cells = &evidence.run.plan.cells;
    match cells.iter().find(|other| differ_in_format_alone(image, other)) {
        Some(raw) => beside_raw(own, analysed(&raw.id)?),
        None => alone(own.disk.as_ref()?, analysed(image.baseline.as_ref()?)?.disk.as_ref()?),
    }
}

/// The operations of both in the same block, and why there are fewer.
fn beside_raw(own: &CellAnalysis, raw: &CellAnalysis) -> Option<String> {
    let of_block = |block| raw.headline().values.iter().find(move |trial| trial.block == block);
    let ratios = own.headline().values.iter().filter_map(|trial| {
        let raw = of_block(trial.block)?.value;
        (raw > 0.0).then(|| 100.0 * trial.value / raw)
    });
    let kept = summarise_ratios(&ratios.collect::<Vec<_>>())?;
    let interval = kept.interval_95.filter(|interval| interval.high < 100.0)?;
    let mut said = format!(
        "{} of the operations of {}, {} slower (95 % interval {} to {} %)",
        percent(kept.mean),
        raw.id,
        percent(100.0 - kept.mean),
        three_digits(100.0 - interval.high),
        three_digits(100.0 - interval.low),
    );
    let (own, raw) = (own.disk.as_ref()?, raw.disk.as_ref()?);
    let pairs: [(&str, &Metric, &Metric, &str); 2] = [
        (
            "the host's disk moved",
            &own.device_percent_of_load,
            &raw.device_percent_of_load,
            " % of the load's bytes",
        ),
        (
            "QEMU took",
            &own.service_demand.qemu_us,
            &raw.service_demand.qemu_us,
            " µs of CPU time an operation",
        ),
    ];
    for (what, own, raw, unit) in pairs {
        let Some((own, raw)) = own.mean().zip(raw.mean()) else { continue };
        said.push_str(&format!(", {what} {}{unit} (raw {})", three_digits(own), three_digits(raw)));
    }
    Some(said)
}

/// Without a raw file beside it: only what its own device tells.
fn alone(own: &Disk, baseline: &Disk) -> Option<String> {
    let moved = own.device_percent_of_load.mean()?;
    let less = baseline.device_percent_of_load.mean()?;
    (moved >= less + MORE_PERCENT_OF_LOAD).then(|| {
        format!(
            "the host's disk moved {} % of the load's bytes, under the baseline {} %; no raw image was measured beside it \
             (factors.drive.format = [\"raw\", \"qcow2\"])",
            three_digits(moved),
            three_digits(less),
        )
    })
}

#[cfg(test)]
mod tests {
    use vioperf_model::scenario::ImageFormat;
    use vioperf_model::workload::WorkloadKind;

    use crate::analyse;
    use crate::testing::Synthetic;

    /// Two guests that differ in the image's format; the second is slower.
    fn planted() -> Synthetic {
        let mut synthetic = Synthetic::of_kind(WorkloadKind::Disk);
        let cells = &mut synthetic.run.plan.cells;
        let disk = "virtio-blk".parse().unwrap();
        let mut guests = cells.iter_mut().filter(|cell| !cell.is_baseline());
        let (raw, image) = (guests.next().unwrap(), guests.next().unwrap());
        for (cell, format) in [(raw, ImageFormat::Raw), (image, ImageFormat::Qcow2)] {
            (cell.nic, cell.disk) = (None, Some(disk));
            cell.guest.get_or_insert_default().drive.format = format;
        }
        synthetic
    }

    fn said(synthetic: &Synthetic) -> Option<String> {
        let findings = analyse(&synthetic.run, &synthetic.trials).findings;
        let found = findings.into_iter().find(|finding| finding.rule == "image-format-cost");
        found.map(|finding| finding.evidence)
    }

    #[test]
    fn what_a_format_costs_is_told_where_nothing_else_differs() {
        let told = said(&planted()).unwrap();
        assert!(
            told.contains("of the operations of virtio") && told.contains("95 % interval"),
            "{told}"
        );
        let mut other = planted();
        for cell in &mut other.run.plan.cells {
            if let Some(guest) =
                cell.guest.as_mut().filter(|own| own.drive.format == ImageFormat::Qcow2)
            {
                guest.vcpus = Some(7);
            }
        }
        assert_eq!(said(&other), None, "a guest with another CPU");
    }

    #[test]
    fn an_image_that_is_as_fast_costs_nothing() {
        let mut synthetic = planted();
        for cell in &mut synthetic.run.plan.cells {
            if let Some(guest) = &mut cell.guest {
                let is_raw = guest.drive.format == ImageFormat::Raw && cell.disk.is_some();
                guest.drive.format = if is_raw { ImageFormat::Qcow2 } else { ImageFormat::Raw };
            }
        }
        assert_eq!(said(&synthetic), None);
    }
}

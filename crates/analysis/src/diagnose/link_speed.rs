//! Cards that claim a slower link than they carry.

use vioperf_model::plan::CellId;
use vioperf_model::record::Place;

use super::{Evidence, about_cells};
use crate::result::{CellAnalysis, Finding, Severity};
use crate::wording::rate;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let cells: Vec<(CellId, String)> =
        evidence.cells.iter().filter_map(|cell| Some((cell.id.clone(), exceeded(cell)?))).collect();
    about_cells(
        "link-speed-not-a-limit",
        Severity::Note,
        "More arrived than the link speed that the card claims",
        &cells,
        "The speed of an emulated link is a label, not a limit: do not choose or size by it.",
    )
}

fn exceeded(cell: &CellAnalysis) -> Option<String> {
    let measured = cell.receiver_bits_per_second.mean()?;
    let guest = cell.ends.iter().find(|end| end.place == Place::Guest)?;
    let claimed = f64::from(guest.interface.speed_mbit_per_s?) * 1e6;
    (claimed < measured).then(|| format!("claims {}, carried {}", rate(claimed), rate(measured)))
}

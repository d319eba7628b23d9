//! Loads that got faster or slower while they were measured.

use super::{Evidence, picture, with_pictures};
use crate::result::{CellAnalysis, Finding, Picture, PictureOrder, Severity};
use crate::shapes::{Course, TENTHS, within};
use crate::wording;

pub fn check(evidence: &Evidence<'_>) -> Vec<Finding> {
    let seen = |cell: &CellAnalysis| -> Option<(Picture, String)> {
        let trials = &evidence.gathered.of_cell(&cell.id)?.completed;
        let courses: Vec<&Course> = trials.iter().filter_map(|t| t.course.as_ref()).collect();
        let said = wording::signed_percent(100.0 * within(&courses)?);
        let picture = picture(cell, PictureOrder::TenthOfTrial, mean(&courses), Vec::new());
        Some((picture, said))
    };
    with_pictures(
        "trend-within-trials",
        Severity::Doubt,
        "Loads got faster or slower while they were measured",
        &evidence.cells.iter().filter_map(seen).collect::<Vec<_>>(),
        "From the first half of the window to the second, in all trials alike. The load had not come to \
         its pace: warm up longer (workload.warmup), and measure longer (workload.duration).",
    )
}

fn mean(courses: &[&Course]) -> Vec<f64> {
    let of = |tenth: usize| courses.iter().map(|course| course.tenths[tenth]).sum::<f64>();
    (0..TENTHS).map(|tenth| of(tenth) / courses.len() as f64).collect()
}
